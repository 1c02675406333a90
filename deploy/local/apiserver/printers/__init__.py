"""Tables for `kubectl get`: columns and cells of each kind.

Handlers import it; it is a function of objects and the time.
"""
