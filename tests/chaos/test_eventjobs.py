"""Events over HTTP under kill -9 of every part: each accepted one has one completed Job of each EventJob, in order."""

import asyncio
import hashlib
import hmac
import json
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import psutil
import pytest
import redis.asyncio as redis

from deploy.demo.events import manifest
from deploy.demo.events.pod_program import NOTES
from deploy.demo.events.report import EventsRun, faults
from deploy.demo.events.run import ready
from deploy.demo.events.sender import SentWebhook
from deploy.local import up
from scalers.deliveries.deliveries import Deliveries
from scalers.deliveries.event_ledger import channel_keys
from scheduler.keys import Keys
from tests.chaos.parts import PARTS, kill_each, run_installation
from tests.chaos.patience import PATIENCE, beside, everything, until
from tests.support.valkeys import ValkeyServer
from workers.api import conditions
from workers.api.job_annotations import EVENT
from workers.api.kinds import EVENT_JOB, JOB, SECRET, Object
from workers.api.penstock_dev.eventjob import EventCounts
from workers.client.rest import Cluster
from workers.controllers.claims import binding

pytestmark = pytest.mark.timeout(420)

#: Kills things.
Disturb = Callable[[], Coroutine[Any, Any, None]]
REPOSITORIES, EVENTS = 4, 40
SECRET_TEXT = "the secret of the webhooks"
#: A killed kubelet may do an attempt anew: then pods note twice what one Job did once.
VICTIMS = sorted(PARTS.keys() - {"kubelet"})
#: Answers after which a sender repeats its request.
AGAIN = frozenset({408, 429, 503})


@dataclass
class Aftermath:
    """The state after the run. jobs: all. counts: of the deliveries, by EventJob.

    refused: statuses of requests that no event may come of. undone: keys of the channel that still count something.
    """

    seen: EventsRun = field(default_factory=EventsRun)
    jobs: list[Object] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    counts: dict[str, EventCounts] = field(default_factory=dict)
    undone: list[str] = field(default_factory=list)

    def completed(self, name: str) -> Counter[str]:
        """Returns the number of completed Jobs of this EventJob for each event."""
        return Counter(event_of(job) for job in self.jobs if owner(job) == name and is_complete(job))


def owner(job: Object) -> str:
    return str(job["metadata"]["ownerReferences"][0]["name"])


def event_of(job: Object) -> str:
    return str(json.loads(job["metadata"]["annotations"][EVENT])["id"])


def is_complete(job: Object) -> bool:
    return conditions.finished(job) == "Complete"


def durable(bodies: Iterable[Object]) -> list[Object]:
    """Returns these EventJobs, the pushes of which are answered once they are in the append-only file."""
    return [
        {**body, "spec": {**body["spec"], "push": {**body["spec"].get("push", {}), "durability": "fsync"}}}
        for body in bodies
    ]


@dataclass(frozen=True)
class Sender:
    """A sender of webhooks: a request without an answer is repeated with the same id."""

    http: aiohttp.ClientSession
    url: str

    async def webhook(self, webhook: SentWebhook) -> None:
        """Sends it until it is accepted."""
        status, answer = await self._answer(webhook.body, self._headers(webhook.body, webhook.id))
        assert status == 202, answer
        webhook.accepted = 1.0

    async def forged(self, number: int) -> int:
        """Returns the status of a webhook that another secret signed."""
        body = SentWebhook(number, "shop/0").body
        return (await self._answer(body, self._headers(body, f"forged-{number}", "another secret of webhooks")))[0]

    async def malformed(self, number: int) -> int:
        """Returns the status of an event without a type."""
        body = orjson.dumps({"specversion": "1.0", "id": f"malformed-{number}", "source": "/shop"})
        headers = {**self._headers(body, f"malformed-{number}"), "Content-Type": "application/cloudevents+json"}
        return (await self._answer(body, headers))[0]

    async def _answer(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    async with self.http.post(self.url, data=body, headers=headers) as response:
                        if response.status not in AGAIN:
                            return response.status, await response.text()
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.1)

    @staticmethod
    def _headers(body: bytes, id_: str, secret: str = SECRET_TEXT) -> dict[str, str]:
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return {
            "Content-Type": "application/json",
            "X-GitHub-Event": "push",
            "X-GitHub-Delivery": id_,
            "X-Hub-Signature-256": f"sha256={signature}",
        }


async def send(sender: Sender, webhooks: list[SentWebhook], refused: list[int], over: "asyncio.Task[None]") -> None:
    """Sends one repository's webhooks one after the other while things are broken, and the last one after that."""
    for webhook in webhooks:
        if webhook is webhooks[-1]:
            await over
        await sender.webhook(webhook)
        if webhook.number % 5 == 0:
            # A sender repeats a request whose answer was lost.
            await sender.webhook(webhook)
            refused += [await sender.forged(webhook.number), await sender.malformed(webhook.number)]
        await asyncio.sleep(random.uniform(0.2, 1.2))


async def happen(
    cluster: Cluster, running: up.RunningPart, notes: redis.Redis, address: str, after: Aftermath, disturb: Disturb
) -> None:
    await cluster.create(SECRET, manifest.secret(SECRET_TEXT))
    uids = {}
    for body in durable(manifest.event_jobs(address)):
        created = await cluster.create(EVENT_JOB, body)
        uids[body["metadata"]["name"]] = created["metadata"]["uid"]
    await ready(cluster)

    async def is_over() -> bool:
        after.jobs = await everything(cluster, JOB)
        ended = all(after.completed(name).total() >= EVENTS for name in uids)
        return ended and not any(binding.is_bound(job) for job in after.jobs)

    sent = [SentWebhook(number, f"shop/{number % REPOSITORIES}") for number in range(EVENTS)]
    async with aiohttp.ClientSession() as http, beside(disturb()) as [disturbing]:
        sender = Sender(http, f"{running.gateway}/events/{manifest.NAMESPACE}/{manifest.BUILD}")
        await asyncio.gather(
            *(
                send(sender, [each for each in sent if each.number % REPOSITORIES == place], after.refused, disturbing)
                for place in range(REPOSITORIES)
            )
        )
        await until(is_over)
    after.seen = EventsRun(sent, [orjson.loads(note) for note in await notes.lrange(NOTES, 0, -1)])
    async with redis.Redis.from_url(running.broker) as broker:
        keys = Keys("penstock")
        for name, uid in uids.items():
            after.counts[name] = await Deliveries(broker, keys).counts(uid)
        _, unfinished, intake, *_ = channel_keys(keys.channel(manifest.NAMESPACE, manifest.BUILD))
        after.undone = [uid for uid, number in (await broker.hgetall(unfinished)).items() if int(number)]
        after.undone += await broker.xrange(intake)


def test_every_accepted_event_has_one_completed_job_of_each_eventjob(tmp_path: Path) -> None:
    random.seed(11)
    after = Aftermath()

    def disturb() -> Coroutine[Any, Any, None]:
        return kill_each(VICTIMS, 1, 2.0, spared)

    async def observed(cluster: Cluster, running: up.RunningPart) -> None:
        async with redis.Redis(port=server.port) as notes:
            await happen(cluster, running, notes, f"127.0.0.1:{server.port}", after, disturb)

    with ValkeyServer(config={"save": ""}) as server:
        # The pods' server is no part of the installation.
        spared = psutil.Process().children()
        run_installation(tmp_path / "home", observed)
    ids = {webhook.id for webhook in after.seen.sent}
    assert len(ids) == EVENTS, "the installation did not get as far as the work"
    for name in (manifest.BUILD, manifest.AUDIT):
        assert after.completed(name) == Counter(ids)
        assert after.counts[name].done == EVENTS
        assert after.counts[name].model_dump(include={"waiting", "delayed", "running", "retrying", "parked"}) == (
            dict.fromkeys(("waiting", "delayed", "running", "retrying", "parked"), 0)
        )
    assert faults(after.seen) == []
    assert after.undone == []
    assert {event_of(job) for job in after.jobs} == ids
    assert Counter(after.refused) == {401: 8, 400: 8}
