"""Rows: an object of the cluster in one line, derived from its body alone, by kind.

Only `deploy.page` may import it.
"""
