"""Models and vocabulary of the Kubernetes API: kinds, typed manifests, names, quantities, times and the CRDs.

Every package may import this room; it imports pydantic, `workers.errors` and nothing else of the project.
"""
