"""The cache: the store of cluster objects in the broker, and the reflectors that fill it.

Every process may import it; the pure decisions in workers/controllers do not.
"""
