"""Polls objects: reads servers in batches or one by one, behind bulkheads and circuit breakers. It stands on
triggers and wake-ups; it knows neither the Celery task, the gateway nor the external server.
"""
