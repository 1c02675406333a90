"""Measures how the source reads: `make house` prints the table, and a test checks the names that docstrings introduce.

Nothing outside this folder imports it.
"""
