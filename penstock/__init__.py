"""Penstock turns queue depth, metrics, events and clock ticks into Kubernetes Jobs.

This package is its public interface: `scaler` to measure a source of your own, `client` to push work from Python, and
`app`, the application of `celery -A penstock.app`.
"""

__version__ = "0.1.0"
