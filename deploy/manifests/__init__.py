"""The generators of deploy/rbac.yaml and deploy/volcano.yaml.

Only the tests may import it.
"""
