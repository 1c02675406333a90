"""The values that scalers and workers hand over through the broker: readings, claims and claim orders.

Both sides may import it.
"""
