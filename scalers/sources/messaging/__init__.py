"""Brokers of messages."""
