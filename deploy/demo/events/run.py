"""The demo's run: sends webhooks, kills parts meanwhile, and collects what the pods noted."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping

import aiohttp
import orjson
import redis.asyncio as redis

from deploy.demo.events.manifest import AUDIT, BUILD, NAMESPACE
from deploy.demo.events.pod_program import NOTES
from deploy.demo.events.report import EventsRun
from deploy.demo.events.sender import SentWebhook, WebhookSender
from deploy.demo.stage import PATIENCE, DemoStuck
from workers.api import conditions
from workers.api.kinds import EVENT_JOB, Ref
from workers.cancellation import cancelled
from workers.client.rest import Cluster

#: The parts that are killed, each once, when its share of the work is done.
VICTIMS: Mapping[str, float] = {"worker-1": 0.2, "scaler-1": 0.4, "gateway": 0.6, "watch": 0.8}
#: Seconds between two looks at the notes, and without a further one that end the run.
INTERVAL, QUIET = 0.1, 3.0


async def run(
    store: redis.Redis,
    url: str,
    secret: str,
    events: int,
    repositories: int,
    parts: Mapping[str, int],
    show: Callable[[EventsRun], None],
) -> EventsRun:
    """Sends the webhooks and follows them until all are done in both EventJobs and nothing more happens.

    url: of the channel. parts: process ids. Raises DemoStuck after a minute without progress.
    """
    seen = EventsRun(sent=[SentWebhook(number, f"shop/{number % repositories}") for number in range(events)])
    async with aiohttp.ClientSession() as session:
        sender = WebhookSender(session, url, secret)
        sending = [
            asyncio.create_task(_send(sender, [each for each in seen.sent if each.repository == repository]))
            for repository in dict.fromkeys(webhook.repository for webhook in seen.sent)
        ]
        try:
            await _follow(store, seen, parts, show)
            await asyncio.gather(*sending)
        finally:
            await cancelled(*sending)
    return seen


async def ready(cluster: Cluster) -> None:
    """Returns once the EventJobs take events; before that the gateway refuses them. Raises DemoStuck after a minute."""
    try:
        async with asyncio.timeout(PATIENCE):
            for name in (BUILD, AUDIT):
                ref = Ref(EVENT_JOB, NAMESPACE, name)
                while not conditions.holds(await cluster.get(ref), "Ready"):  # noqa: ASYNC110 - the state is elsewhere
                    await asyncio.sleep(INTERVAL)
    except TimeoutError:
        raise DemoStuck(f"the EventJobs are not ready after {PATIENCE:.0f} s") from None


async def _send(sender: WebhookSender, webhooks: list[SentWebhook]) -> None:
    """Sends one repository's webhooks one after the other, and every fourth once more."""
    for webhook in webhooks:
        await sender.send(webhook)
        if webhook.number % 4 == 0:
            webhook.answers.append(await sender.send(webhook))


async def _follow(
    store: redis.Redis, seen: EventsRun, parts: Mapping[str, int], show: Callable[[EventsRun], None]
) -> None:
    moved, before = time.monotonic(), -1
    while True:
        notes = await store.lrange(NOTES, 0, -1)
        seen.notes = [orjson.loads(note) for note in notes]
        share = len(seen.notes) / (2 * len(seen.sent))
        for part, due in VICTIMS.items():
            if share >= due and part not in seen.killed:
                os.kill(parts[part], signal.SIGKILL)
                seen.killed.append(part)
        show(seen)
        if len(notes) != before:
            moved, before = time.monotonic(), len(notes)
        still = time.monotonic() - moved
        if seen.done and still > QUIET and all(webhook.accepted for webhook in seen.sent):
            return
        if still > PATIENCE:
            raise DemoStuck(f"nothing moved for {PATIENCE:.0f} s: {len(notes)} notes of {2 * len(seen.sent)}")
        await asyncio.sleep(INTERVAL)
