"""An API server that speaks the Kubernetes REST protocol on loopback and keeps its objects in a Redis server.

For development, tests and single machines: see docs/embedded-cluster.md for what it is and what it is not.
"""
