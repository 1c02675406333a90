"""Tasks of Celery queues."""
