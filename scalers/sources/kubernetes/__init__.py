"""Sources in the Kubernetes API: ConfigMaps, Secrets and pods.

The registry loads them by entry point.
"""
