"""The dashboards for Grafana: a description in Python, and the JSON files generated from it.

It imports nothing of ours. ``python -m deploy.grafana FOLDER`` writes the files; chart and kustomization have copies.
"""
