"""Polls objects: reads servers in batches or one by one, behind bulkheads and circuit breakers. The Celery task and the
external server import it.
"""
