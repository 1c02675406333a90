"""A Celery worker includes this module (``-I deploy.processes.worker_signals``), to announce that it is ready."""

from typing import Any

from celery import signals

from deploy.processes import readiness


def _ready(**_: Any) -> None:
    readiness.announce()


signals.worker_ready.connect(_ready)
