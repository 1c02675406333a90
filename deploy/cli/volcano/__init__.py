"""vcctl's verbs ``penstock job``, ``queue``, ``flow``, ``template``, and the sections of `describe` on Volcano's kinds.

`deploy.cli.objects.describe` joins the sections.
"""
