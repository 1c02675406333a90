"""The ready file: a process creates it when it is ready, for a parent that waits for it.

A Celery worker includes this module (``-I deploy.processes.readiness``); ``PENSTOCK_READY_FILE`` names the file.
"""

import os
from pathlib import Path
from typing import Any

from celery import signals

VARIABLE = "PENSTOCK_READY_FILE"


def announce() -> None:
    """Creates the ready file, if the environment names one."""
    if path := os.environ.get(VARIABLE):
        Path(path).touch()


def _ready(**_: Any) -> None:
    announce()


signals.worker_ready.connect(_ready)
