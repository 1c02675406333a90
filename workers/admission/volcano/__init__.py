"""The admission rules of Volcano's kinds: a module per kind, and what several of them share.

The webhook, the embedded API server and Volcano's controllers import it.
"""
