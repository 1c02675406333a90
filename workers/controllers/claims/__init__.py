"""The Jobs of claims, for every kind whose Jobs get one item each: binding and the next step of each claim.

The controllers of these kinds import it; it knows none of them.
"""
