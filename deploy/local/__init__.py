"""Penstock on one machine: embedded broker, API server and kubelet, and the supervisor of the processes.

Only the command line, the demo and tests import it: no part of Penstock depends on how it is run.
"""
