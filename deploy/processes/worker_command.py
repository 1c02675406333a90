"""Celery's `worker` command by itself.

The group of all commands imports a shell, an editor of command lines and every other command.
"""

from collections.abc import Sequence
from typing import Any

from celery.bin.base import CLIContext
from celery.bin.worker import worker


def run(app: Any, words: Sequence[str]) -> int:
    """Runs a worker of this Celery app until it is told to stop. words: options. Returns its exit code."""
    worker.params.extend(app.user_options.get("worker", ()))
    context = CLIContext(app=app, no_color=False, workdir=None)
    return int(worker.main(args=list(words), prog_name="celery worker", obj=context, standalone_mode=False) or 0)
