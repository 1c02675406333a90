"""Actions on objects: which there are, what each changes, and the client that carries them out for their user.

Only `deploy.page` and tests may import it.
"""
