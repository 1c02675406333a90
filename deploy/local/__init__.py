"""Penstock on one machine: embedded broker, API server and kubelet, and the supervisor of the processes.

Workers, scalers and the scheduler know nothing of it: what they do does not depend on how they are run.
"""
