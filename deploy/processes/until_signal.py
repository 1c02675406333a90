"""The main function of processes that are not Celery workers: they run until SIGINT or SIGTERM."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from workers import json_logs
from workers.metrics import process
from workers.runtime import health as health_server
from workers.runtime.health import Health
from workers.settings import Settings


def run(
    settings: Settings,
    serve: Callable[[Settings, asyncio.Event, Health], Coroutine[Any, Any, None]],
    *,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Runs `serve` with logs, metrics and health. serve: must return soon after its event, which the signals set.

    loop: makes the event loop, if not asyncio's own. Raises UserError if health cannot be served.
    """
    json_logs.set_up(settings.log_level)
    process.serve(settings.metrics_port, settings.metrics_address)

    async def until_stopped() -> None:
        stop, health = stop_event(), Health()
        health.loop("event loop", asyncio.get_running_loop())
        with health_server.served(health, settings.health):
            await serve(settings, stop, health)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(until_stopped())


def stop_event() -> asyncio.Event:
    """Returns an event that SIGINT and SIGTERM set. Needs a running loop in the main thread."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, event.set)
    return event
