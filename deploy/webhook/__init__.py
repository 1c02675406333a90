"""`penstock webhook`: the admission webhook that applies the rules of Volcano's kinds for a real API server.

Only `deploy.cli.processes` and `deploy.manifests` may import it; the rules themselves are in `workers.admission`.
"""
