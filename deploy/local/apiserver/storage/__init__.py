"""The object store with its watches and pages.

Discovery and everything above it import it; it knows nothing of kinds or requests.
"""
