"""Input that nobody would write: bounded in the suite, open-ended by `python -m tests.fuzz --minutes n`."""
