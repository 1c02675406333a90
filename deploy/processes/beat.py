"""The beat process: Celery's beat with Penstock's scheduler, which queues due items and notifies workers."""

import os

from celery import signals

from deploy.processes import celery_process, command_lines, readiness
from workers.settings import Settings


def main(settings: Settings) -> None:
    """Runs until SIGINT or SIGTERM."""
    # Set before the import of the app, which reads its settings from the environment at first use.
    os.environ.update(command_lines.environment(settings))
    celery_process.forget_variables()
    from workers.app import app

    signals.beat_init.connect(_ready)

    class Clock(app.Beat):  # type: ignore[misc]
        def set_process_title(self) -> None:
            """Keeps the command line: `ps` shows all processes of Penstock alike."""

    Clock(loglevel=settings.log_level, quiet=True).run()


def _ready(**_: object) -> None:
    readiness.announce()
