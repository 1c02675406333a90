"""The beat process: Celery's beat with our scheduler, which makes ready what became due and rings the bells."""

import os

from celery import signals

from deploy.processes import celery_process, command_lines, readiness
from workers.settings import Settings


def main(settings: Settings) -> None:
    """Run until SIGINT or SIGTERM."""
    # The app reads its settings from the environment when it is first asked for one.
    os.environ.update(command_lines.environment(settings))
    celery_process.forget_variables()
    from workers.app import app

    signals.beat_init.connect(_ready)
    app.Beat(loglevel=settings.log_level, quiet=True).run()


def _ready(**_: object) -> None:
    readiness.announce()
