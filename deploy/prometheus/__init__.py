"""Alerting and recording rules for Prometheus: a description in Python, and the YAML files generated from it.

Only tests import it; ``python -m deploy.prometheus FOLDER`` writes the files.
"""
