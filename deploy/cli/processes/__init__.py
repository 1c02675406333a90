"""The commands that start processes: `up`, one command per process, and the embedded parts.

Only `deploy.cli.main` may import it.
"""
