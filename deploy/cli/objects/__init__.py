"""The commands on objects: `apply`, `get`, `describe`, `explain`, `logs`, `delete`, `push`.

Only `deploy.cli` may import it.
"""
