"""Pods: the lifecycle decision, the status and the worker of one pod.

Only the kubelet imports it; it builds on containers and volumes.
"""
