"""The pool's work, and the names that its pusher, workers and report share."""

import hashlib

#: The Celery queue, and the task's name in it.
QUEUE, TASK = "pool", "pool.work"
#: Redis hashes by task: results, and numbers of starts and ends.
RESULTS, BEGUN, ENDED = "pool:results", "pool:begun", "pool:ended"


def outcome(number: int) -> str:
    """Returns the result of the task with this number."""
    return hashlib.sha256(str(number).encode()).hexdigest()
