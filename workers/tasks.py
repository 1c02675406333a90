"""The Celery task of the reconcile lane: a bell, answered on this process's event loop."""

from typing import Any

from celery import signals

from workers import logs, metrics
from workers.app import LANES, app
from workers.process import Process
from workers.services import reconciling
from workers.settings import Settings

process = Process(lambda: reconciling(Settings()))


@app.task(name=LANES["reconcile"][0])
def reconcile() -> None:
    """Look into the reconcile lane."""
    process.run(lambda drain: drain.bell())


def serve(lane: str, process: Process[Any]) -> None:
    """Open the process's service when a Celery worker that listens to the lane's bells is ready; close it with it.

    Not on the first bell: the sweep must run even if no bell ever arrives.
    """

    def ready(sender: Any, **_: Any) -> None:
        if LANES[lane][1] in sender.app.amqp.queues.consume_from:
            metrics.serve(Settings().metrics_port)
            process.start()

    def shutdown(**_: Any) -> None:
        process.stop()

    signals.worker_ready.connect(ready, weak=False)
    signals.worker_shutdown.connect(shutdown, weak=False)


@signals.setup_logging.connect
def _log(**_: Any) -> None:
    logs.set_up(Settings().log_level)


serve("reconcile", process)
