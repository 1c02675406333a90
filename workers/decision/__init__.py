"""The values of a decision: `Snapshot` in, `Plan` out, `Controller` for what a kind declares, and shared limits.

Of `workers` it knows the kinds of `api` alone, and it imports nothing that performs I/O.
"""
