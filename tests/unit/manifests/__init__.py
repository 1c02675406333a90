"""The chart and the kustomization."""
