"""Server-side apply: the owners of fields (`metadata.managedFields`), and the merge of what one of them applies.

Pure functions of values, for built-in kinds and custom resources alike. `handlers.server_side_apply` brings requests.
"""
