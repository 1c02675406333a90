"""Listens to sources between polls, and enqueues objects whose work arrives. It stands on triggers and
sources; it knows nothing of polling.
"""
