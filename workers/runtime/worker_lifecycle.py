"""The life cycle of a Celery worker process: its service opens when the worker is ready and closes with it."""

import gc
import logging
from typing import Any

from celery import signals
from celery.exceptions import WorkerShutdown

from workers import json_logs
from workers.app import LANES
from workers.errors import UserError
from workers.metrics import process as metrics
from workers.runtime.loop import LoopThread
from workers.settings import Settings

log = logging.getLogger(__name__)


def serve(lane: str, process: LoopThread[Any]) -> None:
    """Opens the process's service when a Celery worker that consumes the lane's queue is ready; closes it with it.

    Not on the first notification: the sweep must run even if none ever arrives.
    """

    def ready(sender: Any, **_: Any) -> None:
        if LANES[lane][1] in sender.app.amqp.queues.consume_from:
            settings = Settings()
            metrics.serve(settings.metrics_port, settings.metrics_address)
            try:
                process.start()
            except UserError as error:
                # Every notification would fail: a worker that stops is noticed, one that fails quietly is not.
                log.critical("this worker cannot work", extra={"lane": lane, "error": str(error)})
                raise WorkerShutdown(1) from error
            # Modules, models and clients stay until the end. Each collection that walked over them would double the
            # cost of a decision on an object of some hundred kilobytes.
            gc.collect()
            gc.freeze()

    def shutdown(**_: Any) -> None:
        process.stop()

    signals.worker_ready.connect(ready, weak=False)
    signals.worker_shutdown.connect(shutdown, weak=False)


def _set_up_logging(**_: Any) -> None:
    json_logs.set_up(Settings().log_level)


signals.setup_logging.connect(_set_up_logging)
