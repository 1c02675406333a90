"""The dashboards for Grafana: a description in Python, and the JSON files generated from it.

Only tests import it; ``python -m deploy.grafana FOLDER`` writes the files.
"""
