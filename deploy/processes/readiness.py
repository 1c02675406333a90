"""Tells whoever started a Celery worker that it answers bells, by writing a file.

A worker includes this module (``-I deploy.processes.readiness``); when its parent waits for it, ``PENSTOCK_READY_FILE``
names the file.
"""

import os
from pathlib import Path
from typing import Any

from celery import signals

VARIABLE = "PENSTOCK_READY_FILE"


def announce() -> None:
    """Write the file, if there is to be one."""
    if path := os.environ.get(VARIABLE):
        Path(path).touch()


def _ready(**_: Any) -> None:
    announce()


signals.worker_ready.connect(_ready)
