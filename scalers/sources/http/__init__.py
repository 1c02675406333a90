"""Sources asked over HTTP, with their shared authentication and sessions.

The registry loads them by entry point; they import no other family of sources.
"""
