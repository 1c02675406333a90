"""``penstock events``: the deliveries of EventJobs for people. `deploy.cli.main` imports it."""
