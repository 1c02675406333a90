"""The runtime of a process: wiring, event loop, consumer, leases and notifier.

Process entry points in workers, scalers and deploy import it; decisions do not.
"""
