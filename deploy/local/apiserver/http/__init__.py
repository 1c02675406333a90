"""Requests and responses as values, the token and the certificates.

The app and handlers import it; it knows nothing of resources.
"""
