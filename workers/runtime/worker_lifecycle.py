"""The life cycle of a Celery worker process: its service opens when the worker is ready and closes with it.

Its health is served from the beginning, so that a worker that waits for its broker is alive, and not ready.
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from celery import bootsteps, signals
from celery.exceptions import WorkerShutdown

from workers import json_logs
from workers.errors import UserError
from workers.lanes import LANES
from workers.metrics import process as metrics
from workers.runtime import garbage_collection
from workers.runtime import health as health_server
from workers.runtime.health import Health, Pulse
from workers.runtime.loop import LoopThread
from workers.settings import Settings

log = logging.getLogger(__name__)

#: Seconds between two turns of Celery's own loop that count as progress.
TURNS = 2.0

#: New objects after which the collector looks at them, by lane.
_YOUNG = {"reconcile": garbage_collection.YOUNG_OF_PLANS, "poll": garbage_collection.YOUNG_OF_POLLS}

#: Pulses of Celery's loop in this process, which has one worker.
_turning: list[Pulse] = []


class CeleryTurns(bootsteps.StartStopStep):  # type: ignore[misc]
    """The step of Celery's consumer that shows whether its loop turns: a loop that hangs takes no notification.

    Between two connections to the broker that loop does not run, and no turn is expected.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, consumer: Any) -> None:
        """Counts turns from now on. Celery ends the timer with the connection."""
        _turn()
        consumer.timer.call_repeatedly(TURNS, _turn)

    def stop(self, _consumer: Any) -> None:
        """Expects no turn until the next start."""
        for pulse in _turning:
            pulse.rest()


def _turn() -> None:
    for pulse in _turning:
        pulse()


def serve(lane: str, process: LoopThread[Any], health: Health, service: Callable[[], object]) -> None:
    """Opens the process's service when a Celery worker that consumes the lane's queue is ready; closes it with it.

    Not on the first notification: the sweep must run even if none ever arrives. health: of this service.
    service: called before the worker connects, for what it imports.
    """
    open_until_shutdown = ExitStack()

    def consumes(app: Any) -> bool:
        return LANES[lane][1] in app.amqp.queues.consume_from

    def begin(sender: Any, **_: Any) -> None:
        if consumes(sender.app):
            health.check("worker", _not_ready)
            turning = health.pulse("Celery's consumer")
            turning.rest()
            _turning.append(turning)
            try:
                service()
                open_until_shutdown.enter_context(health_server.served(health, Settings().health))
            except (UserError, ImportError) as error:
                # Celery would log any other exception, and go on.
                raise SystemExit(f"penstock: {error}") from error

    def ready(sender: Any, **_: Any) -> None:
        if consumes(sender.app):
            settings = Settings()
            metrics.serve(settings.metrics_port, settings.metrics_address)
            try:
                process.start()
            except UserError as error:
                # Every notification would fail: a worker that stops is noticed, one that fails quietly is not.
                log.critical("this worker cannot work", extra={"lane": lane, "error": str(error)})
                raise WorkerShutdown(1) from error
            health.check("worker", _ready)
            garbage_collection.begin(_YOUNG[lane])

    def shutdown(**_: Any) -> None:
        open_until_shutdown.close()
        # What ended the process was logged; Celery would log it as a defect.
        with suppress(UserError):
            process.stop()

    signals.worker_init.connect(begin, weak=False)
    signals.worker_ready.connect(ready, weak=False)
    signals.worker_shutdown.connect(shutdown, weak=False)


async def _not_ready() -> str:
    return "it is not connected to the broker yet"


async def _ready() -> None:
    return None


def _set_up_logging(**_: Any) -> None:
    json_logs.set_up(Settings().log_level)


signals.setup_logging.connect(_set_up_logging)
