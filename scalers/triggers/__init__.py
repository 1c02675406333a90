"""Parses the triggers of objects into scalers. `wakeups`, `polling` and the external server import it."""
