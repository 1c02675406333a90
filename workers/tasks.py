"""The Celery task of the reconcile lane: it consumes notifications on this process's event loop."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from workers.app import app
from workers.lanes import LANES
from workers.runtime.consumer import Consumer
from workers.runtime.health import Health
from workers.runtime.loop import LoopThread
from workers.runtime.worker_lifecycle import serve
from workers.settings import Settings

health = Health()


def _service() -> Callable[[Settings, Health], AbstractAsyncContextManager[Consumer]]:
    # Celery imports the tasks of all lanes; a process that consumes another one has no use for the controllers.
    from workers.reconcile.reconcile_worker import reconciling

    return reconciling


process = LoopThread(lambda: _service()(Settings(), health))


@app.task(name=LANES["reconcile"][0])
def reconcile() -> None:
    """Claims and reconciles ready keys of the reconcile lane."""
    process.run(lambda consumer: consumer.consume())


serve("reconcile", process, health, _service)
