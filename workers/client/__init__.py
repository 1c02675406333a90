"""The client of the API server: REST, discovery, the scale subresource, Events and leader election.

Every package but scheduler may import it; the pure decisions in workers/controllers do not.
"""
