"""Controllers: one pure decision per kind, from a snapshot and a moment to a plan, without any I/O.

`registry` collects them for the reconciler; `conditions` and the other modules beside it are shared by all controllers.
"""
