"""The answers of the page's addresses, by subject.

Only `deploy.page.app` and tests may import it.
"""
