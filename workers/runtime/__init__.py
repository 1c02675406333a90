"""The runtime of a process: event loop, consumer, leases, health and notifier.

It stands on `client` and the metrics; it knows neither controllers nor the cache.
"""
