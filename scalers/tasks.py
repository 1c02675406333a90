"""The Celery task of the poll lane: a notification, handled on this process's event loop."""

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
    # Celery imports the tasks of all lanes; a process that consumes another one has no use for the sources.
    from scalers.polling.poll_worker import measuring

    return measuring


process = LoopThread(lambda: _service()(Settings(), health))


@app.task(name=LANES["poll"][0])
def poll() -> None:
    """Claims keys that are ready in the poll lane and polls their objects."""
    process.run(lambda consumer: consumer.consume())


serve("poll", process, health, _service)
