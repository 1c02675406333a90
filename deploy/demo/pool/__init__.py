"""`make demo-pool`: a Deployment of Celery workers that scales with its own queue.

Only the tests may import it; `deploy.cli.processes` starts it as a module.
"""
