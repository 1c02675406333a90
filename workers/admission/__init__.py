"""Defaults and validation of objects: pure functions, one module per kind.

The webhook, the embedded API server and the controllers import it.
"""
