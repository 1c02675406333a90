"""The `penstock` command.

Only the entry point `penstock` may import it.
"""
