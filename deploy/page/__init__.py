"""The page: what people see of Penstock's objects in a browser, as JSON, server-sent events and static files.

Only `deploy.processes` and tests may import it. It reads the store in the broker and changes nothing but by requests
that carry their user's own token.
"""
