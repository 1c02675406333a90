"""How a process of ours runs that is no Celery worker: until a signal comes."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from workers import logs
from workers.metrics import process
from workers.settings import Settings


def run(settings: Settings, serve: Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Serve, with logs and metrics; serve: ends soon after its event is set, which SIGINT and SIGTERM do."""
    logs.set_up(settings.log_level)
    process.serve(settings.metrics_port)

    async def until_told() -> None:
        await serve(settings, told())

    asyncio.run(until_told())


def told() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set; only in a running loop of the main thread."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, event.set)
    return event
