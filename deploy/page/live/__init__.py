"""The live state of the page: the index of rows, what keeps it current, series, and the broadcast to watchers.

Only `deploy.page` and tests may import it.
"""
