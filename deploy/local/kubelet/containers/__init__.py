"""Containers as process groups: start, end, output, probes and environment of one container.

The lowest layer of the kubelet: pods and volumes import it.
"""
