"""Redis and Valkey sources: single servers, clusters and sentinels; lists, streams and the claims on both.

Triggers, wake-ups and other sources import it; it imports neither triggers nor polling.
"""
