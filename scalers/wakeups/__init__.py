"""Listens to sources between polls, and enqueues objects whose work arrives. `polling` and the external server import
it.
"""
