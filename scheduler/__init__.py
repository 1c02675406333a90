"""The scheduler: the keyed work queue, cron schedules and the Celery beat.

Every package above may import it; of ours it imports `penstock` alone.
"""
