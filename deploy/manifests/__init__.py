"""The generators of deploy/rbac.yaml, deploy/volcano.yaml, the chart and the kustomization.

No process imports it; `penstock doctor` compares the rights of accounts with its roles.
"""
