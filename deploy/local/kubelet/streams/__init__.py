"""Streams between a client and a pod: exec, attach and port-forward, over WebSocket on a Unix socket of the kubelet.

The kubelet imports it, and the API server passes the bytes of its clients on; it may import pods and containers.
"""
