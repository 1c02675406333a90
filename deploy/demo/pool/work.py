"""What the pool works on: names that pushers, workers and the report share, and the work itself."""

import hashlib

#: The Celery queue, and the task's name in it.
QUEUE, TASK = "pool", "pool.work"
#: Hashes in the queue's server, by task: what came out, and how often it was begun and ended.
RESULTS, BEGUN, ENDED = "pool:results", "pool:begun", "pool:ended"


def outcome(number: int) -> str:
    """What the task of this number computes."""
    return hashlib.sha256(str(number).encode()).hexdigest()
