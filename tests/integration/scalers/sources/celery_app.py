"""A Celery application whose tasks wait until they are let go, run by real workers of `test_celery`.

CELERY_TEST_BROKER, CELERY_TEST_OPTIONS (transport options as JSON) and CELERY_TEST_FOLDER configure it.
"""

import json
import os
import time
from pathlib import Path

from celery import Celery
from kombu import Exchange, Queue


def build(broker: str, options: dict[str, object]) -> Celery:
    """The application on this broker: as its users write one, with late acknowledgement."""
    app = Celery("work", broker=broker)
    app.conf.update(
        task_acks_late=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=2,
        broker_transport_options=options,
        broker_connection_retry_on_startup=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        task_default_queue="work",
        task_queues=[
            Queue("work", queue_arguments={"x-max-priority": 9}),
            Queue("other"),
            Queue("images", Exchange("media", type="topic"), routing_key="image.*"),
            Queue("films", Exchange("cinema", type="direct"), routing_key="film"),
        ],
    )
    return app


app = build(os.environ.get("CELERY_TEST_BROKER", "memory://"), json.loads(os.environ.get("CELERY_TEST_OPTIONS", "{}")))


@app.task(name="hold")
def hold(name: str) -> None:
    """Tells that it started, waits until it is let go, and tells that it is done."""
    folder = Path(os.environ["CELERY_TEST_FOLDER"])
    (folder / f"started-{name}").touch()
    while not any((folder / gate).exists() for gate in ("go", f"go-{name}")):
        time.sleep(0.01)
    (folder / f"done-{name}").touch()
