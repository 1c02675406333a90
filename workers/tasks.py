"""The Celery task of the reconcile lane: it consumes notifications on this process's event loop."""

from workers.app import app
from workers.lanes import LANES
from workers.reconcile.reconcile_worker import reconciling
from workers.runtime.health import Health
from workers.runtime.loop import LoopThread
from workers.runtime.worker_lifecycle import serve
from workers.settings import Settings

health = Health()
process = LoopThread(lambda: reconciling(Settings(), health))


@app.task(name=LANES["reconcile"][0])
def reconcile() -> None:
    """Claims and reconciles ready keys of the reconcile lane."""
    process.run(lambda consumer: consumer.consume())


serve("reconcile", process, health)
