"""The celery trigger: tasks of Celery queues on Redis or RabbitMQ.

The registry loads it by entry point.
"""
