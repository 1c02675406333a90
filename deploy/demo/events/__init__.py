"""`make demo-events`: signed webhooks that become Jobs, in order per repository, while parts are killed.

Only the tests may import it; `deploy.cli.processes` starts it as a module.
"""
