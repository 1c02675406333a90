"""The Prometheus metrics: of this process, of its decisions, and of the objects it follows.

Every package but scheduler may import it.
"""
