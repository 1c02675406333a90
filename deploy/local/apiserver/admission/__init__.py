"""Admission: ResourceQuotas, and the rules that `penstock webhook` applies on a real cluster.

Handlers import it; it reads the store, so it may refuse what a strategy alone accepts.
"""
