"""Message brokers as sources: Kafka, RabbitMQ and NATS JetStream.

The registry loads them by entry point; the celery trigger imports RabbitMQ.
"""
