"""The scheduler: the keyed work queue, cron schedules and the Celery beat.

Every package may import it; it imports none of ours.
"""
