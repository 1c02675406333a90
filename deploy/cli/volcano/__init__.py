"""vcctl's verbs ``penstock job``, ``queue``, ``flow``, ``template``, and the sections of `describe` on Volcano's kinds.

Only `deploy.cli.main` and `deploy.cli.objects.describe` may import it.
"""
