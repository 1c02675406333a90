"""Handlers: one function per verb and subresource, from a request to a response.

The app and the garbage collector import it; it may import everything below.
"""
