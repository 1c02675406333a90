"""The `penstock` command: a room per group of commands; what the groups share is beside them.

The processes, the webhook and the embedded cluster import nothing of it.
"""
