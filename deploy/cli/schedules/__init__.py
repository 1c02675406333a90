"""The commands on schedules: `run`, `suspend`, `resume`, and the sections of `describe` about runs.

The page starts runs and lists them by the same rules.
"""
