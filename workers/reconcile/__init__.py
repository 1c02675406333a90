"""The executor of decisions: observe, decide, act, with the decision log and the reservations under shared limits.

Worker processes import it; controllers, caches and scalers never do.
"""
