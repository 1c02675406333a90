"""HTTP for the page: access, answers, streams and files, without knowledge of objects.

Only `deploy.page` and tests may import it.
"""
