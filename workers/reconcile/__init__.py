"""The reconciler: observe, decide, act, and the values of a decision (controller, snapshot, plan, limits).

Controllers import only those values; the rest is for worker processes.
"""
