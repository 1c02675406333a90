"""Databases as sources: a query answers the number.

The registry loads them by entry point.
"""
