"""Volumes as folders: ConfigMaps, Secrets, claims and the rest.

Pods import it; of the containers it uses only the environment and the isolation.
"""
