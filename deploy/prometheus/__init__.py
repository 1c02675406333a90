"""Alerting and recording rules for Prometheus, as the files that it loads; docs/runbooks has a page for each alert.

`deploy.manifests.chart` copies them into chart and kustomization.
"""
