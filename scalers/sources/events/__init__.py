"""The push trigger: CloudEvents that callers add to an intake stream in Redis.

The registry loads it by entry point; `penstock push` imports it.
"""
