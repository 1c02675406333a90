"""The lanes, and how Celery knows them. Without Celery, so that a process can do without it."""

#: lane -> (Celery task that consumes it, Celery queue of its notifications)
LANES: dict[str, tuple[str, str]] = {
    "reconcile": ("penstock.reconcile", "penstock.reconcile"),
    "poll": ("penstock.poll", "penstock.poll"),
}


def celery_prefix(prefix: str) -> str:
    """Returns the first part of Celery's keys in the broker: on the hash tag of everything else."""
    return f"{{{prefix}}}:celery:"


def queue_key(prefix: str, lane: str) -> str:
    """Returns the key of the list in which Celery keeps a lane's notifications."""
    return celery_prefix(prefix) + LANES[lane][1]
