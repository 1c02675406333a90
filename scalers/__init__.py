"""Measures triggers: the sources of work, the poller that reads them, and the wake-ups between polls. Only `deploy`
imports it; it never imports the controllers.
"""
