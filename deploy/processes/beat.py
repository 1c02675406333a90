"""The beat process: Celery's beat with Penstock's scheduler, which queues due items and notifies workers."""

import os
from typing import Any

from celery import signals

from deploy.processes import celery_process, command_lines, readiness
from scheduler.broker import clients
from workers import json_logs
from workers.runtime import health as health_server
from workers.runtime.health import Health
from workers.settings import Settings


def main(settings: Settings) -> None:
    """Runs until SIGINT or SIGTERM."""
    # Set before the import of the app, which reads its settings from the environment at first use.
    os.environ.update(command_lines.environment(settings))
    celery_process.forget_variables()
    # Celery imports it by its name once its signal handlers stand: a stop that came meanwhile found half a module.
    import scheduler.beat  # noqa: F401
    from workers.app import app

    # It sends tasks by their names: with the modules that carry them out it would be twice as large.
    app.conf.imports = ()

    health = Health()
    health.check("broker", lambda: _broker_answers(settings))
    turning = health.pulse("Celery's beat")

    def ready(sender: Any, **_: Any) -> None:
        sender.scheduler.ticking = turning
        readiness.announce()

    def log_as_all_do(**_: Any) -> None:
        json_logs.set_up(settings.log_level)

    # Celery keeps no references to them.
    signals.setup_logging.connect(log_as_all_do, weak=False)
    signals.beat_init.connect(ready, weak=False)

    class Clock(app.Beat):  # type: ignore[misc]
        def set_process_title(self) -> None:
            """Keeps the command line: `ps` shows all processes of Penstock alike."""

    with health_server.served(health, settings.health):
        Clock(loglevel=settings.log_level, quiet=True).run()


async def _broker_answers(settings: Settings) -> str | None:
    # A connection of its own: the one of the scheduler belongs to the loop of a tick.
    options = {"socket_timeout": health_server.DEADLINE, "socket_connect_timeout": health_server.DEADLINE}
    async with clients.client(settings.broker_address, max_connections=1, **options) as client:
        return None if await client.ping() else "it does not answer PING"
