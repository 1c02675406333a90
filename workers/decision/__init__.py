"""The values of a decision: `Snapshot` in, `Plan` out, `Controller` for what a kind declares, and shared limits.

Every room of workers and scalers may import it; it imports nothing that performs I/O.
"""
