"""The commands on schedules: `run`, `suspend`, `resume`, and the sections of `describe` about runs.

Only `deploy.cli` may import it.
"""
