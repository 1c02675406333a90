"""The standalone process: informers, beat, scaler and reconcile worker on one event loop, until SIGINT or SIGTERM.

It passes notifications on within itself, and imports no Celery: what it does not get round to is offered to Celery
workers, and to others of its kind, by messages in the broker. Any number of standalone processes and of processes of
the other kinds may share a broker.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack

import uvloop

from deploy.processes import until_signal, watch
from scalers.polling.poll_worker import poll_consumer
from workers import wiring
from workers.cache.decode_cache import SIZE_OF_POLLER
from workers.cancellation import cancelled
from workers.controllers import registry
from workers.decision.followed_kinds import followed
from workers.errors import UserError
from workers.reconcile.reconcile_worker import reconcile_consumer
from workers.runtime import garbage_collection
from workers.runtime.health import Health
from workers.runtime.lane_clock import tick_forever
from workers.runtime.lane_runners import InProcessNotifier, LaneRunner, take_messages
from workers.runtime.notifier import Notifier
from workers.settings import Settings

log = logging.getLogger(__name__)

#: Seconds between two sweeps by a consumer, which the beat in this process leaves nothing to do but show metrics.
SWEEP_EVERY = 5.0


class PartFailed(UserError):  # noqa: N818 - says what happened
    """A part of the process ended by an error that waiting does not repair; a supervisor starts the process again."""


def main(settings: Settings) -> None:
    """Runs until SIGINT or SIGTERM. Raises PartFailed when a part fails, UserError for settings that cannot work."""
    until_signal.run(settings, _run, loop=uvloop.new_event_loop)


async def _run(settings: Settings, stop: asyncio.Event, health: Health) -> None:
    await watch.until_stopped(serve(settings, health), stop)


async def serve(settings: Settings, health: Health) -> None:
    """Runs all parts until cancelled. Raises PartFailed when one of them fails."""
    controllers = registry.configured(settings)
    async with AsyncExitStack() as stack:
        client = wiring.broker_client(settings, connections=4)
        stack.push_async_callback(client.aclose)
        notifier = InProcessNotifier(Notifier(client, settings.prefix).notify)
        parts = await stack.enter_async_context(
            wiring.broker_services(
                settings, controllers, notify=notifier.notify, sweep_every=SWEEP_EVERY, kept=SIZE_OF_POLLER
            )
        )
        cluster = await wiring.connect(settings)
        stack.push_async_callback(cluster.close)
        wiring.check_servers(health, parts, cluster, followed(controllers))
        consumers = {
            "reconcile": await stack.enter_async_context(reconcile_consumer(parts, cluster, controllers, health)),
            "poll": await stack.enter_async_context(poll_consumer(parts, cluster, health)),
        }
        runners = [LaneRunner(lane, consumer, settings.slots) for lane, consumer in consumers.items()]
        for runner in runners:
            notifier.add(runner)
        # Before the consumers close: what runs gets the time to finish.
        stack.push_async_callback(lambda: asyncio.gather(*(runner.stop() for runner in runners)))
        endless = {
            "informers": watch.inform(parts, cluster, controllers, health),
            **{
                f"beat {name}": tick_forever(lane, parts.notify, health.pulse(f"beat {name}"))
                for name, lane in parts.lanes.items()
            },
            "messages": take_messages(parts.client, settings.prefix, runners),
        }
        garbage_collection.begin()
        tasks = {name: asyncio.create_task(part, name=name) for name, part in endless.items()}
        with health.endless(tasks):
            await _first_end(tasks)


async def _first_end(tasks: Mapping[str, asyncio.Task[None]]) -> None:
    """Waits for the first task that ends, and cancels the others. Raises PartFailed with its error."""
    try:
        done, _ = await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancelled(*tasks.values())
    for name, task in tasks.items():
        if task in done:
            error = None if task.cancelled() else task.exception()
            log.critical("a part of this process ended; the process ends, too", extra={"part": name}, exc_info=error)
            raise PartFailed(f"the part {name} ended: {error or 'cancelled'}") from error
