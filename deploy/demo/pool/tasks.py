"""The pool's Celery app and its only task, as a user of Celery would run them in a Deployment.

Tasks are acknowledged late, so another worker repeats the task of a worker that dies; a repeated task overwrites its
own result. Environment: POOL_BROKER (Redis URL).
"""

import os
import time

import redis
from celery import Celery

from deploy.demo.pool.work import BEGUN, ENDED, QUEUE, RESULTS, TASK, outcome

BROKER = os.environ["POOL_BROKER"]

app = Celery("pool", broker=BROKER)
app.conf.update(
    task_default_queue=QUEUE,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    # No prefetching, so that waiting tasks are available to workers that start later.
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
)


def work(number: int, seconds: float) -> None:
    """Works for `seconds` on one item."""
    with redis.Redis.from_url(BROKER) as store:
        store.hincrby(BEGUN, str(number), 1)
        time.sleep(seconds)
        with store.pipeline(transaction=True) as both:
            both.hsetnx(RESULTS, str(number), outcome(number))
            both.hincrby(ENDED, str(number), 1)
            both.execute()


app.task(work, name=TASK)
