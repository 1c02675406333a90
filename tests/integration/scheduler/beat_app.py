"""A Celery app as a user would have it, for beats that run as processes of their own."""

import os
from datetime import timedelta

from celery import Celery

app = Celery("test", broker=os.environ["TEST_BROKER"], set_as_current=False)
app.conf.update(
    beat_schedule={"report": {"task": "work", "schedule": timedelta(seconds=0.25)}},
    task_default_queue="periodic",
    penstock_broker=os.environ["TEST_BROKER"],
    penstock_prefix="test",
    penstock_lanes={"reconcile": ("test.reconcile", "bells")},
)
