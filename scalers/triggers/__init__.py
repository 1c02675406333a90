"""Parses the triggers of objects into scalers. It stands on deliveries, credentials and sources; it knows neither
wake-ups nor polling.
"""
