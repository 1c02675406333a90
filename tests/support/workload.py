"""Work that goes through every part of an installation, and its account: what was asked for, and which Jobs did it.

Items of a list are claimed by one Job each, events of a gateway have one each, and so has every slot of a schedule.
"""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

import aiohttp
import redis.asyncio as redis

from deploy.local import crd_installation
from tests.support.conditions import eventually
from tests.support.members import Installation
from workers.api import conditions, crds, job_annotations
from workers.api.kinds import EVENT_JOB, JOB, SCALED_JOB, SCHEDULED_JOB, Object
from workers.client.rest import Cluster
from workers.controllers.claims import binding
from workers.errors import Unavailable

ITEMS, EVENTS, SLOTS = "items", "events", "slots"
#: Annotation of the Job of an event: the event's id.
EVENT = "test/event"
#: Annotation of the Job of a slot.
SLOT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: Seconds until everything that was asked for must be done, on a busy machine.
PATIENCE = 120.0

_TEMPLATE = {
    "spec": {
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "none", "command": ["/bin/true"]}],
            }
        },
    }
}


def _objects(address: str, seconds: int) -> list[tuple]:  # type: ignore[type-arg]
    claimed = {
        "pollingInterval": 5,
        "maxReplicaCount": 20,
        "successfulJobsHistoryLimit": 10000,
        "scalingStrategy": {"strategy": "claim", "claim": {"retries": 100}},
        "jobTargetRef": _TEMPLATE["spec"],
        "triggers": [{"type": "redis", "metadata": {"address": address, "listName": ITEMS}}],
    }
    named = {**_TEMPLATE, "metadata": {"annotations": {EVENT: "$(event.id)"}}}
    pushed = {"push": {"anonymous": True}, "retry": {"limit": 100}, "jobTemplate": named}
    timed = {
        "schedules": [{"schedule": f"*/{seconds} * * * * *"}],
        "catchUp": {"policy": "All", "limit": 1000},
        "successfulJobsHistoryLimit": 1000,
        "jobTemplate": _TEMPLATE,
    }
    return [(SCALED_JOB, ITEMS, claimed), (EVENT_JOB, EVENTS, pushed), (SCHEDULED_JOB, SLOTS, timed)]


@dataclass
class Workload:
    """What is asked for, and what came of it.

    gateways: the addresses that events may be pushed to. seconds: between two slots.
    """

    cluster: Cluster
    queue: redis.Redis
    gateways: Callable[[], Sequence[str]]
    address: str
    seconds: int = 2
    items: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def define(self, definitions: Sequence[Object] | None = None) -> None:
        """Stores these definitions of custom resources, or those of this release."""
        await crd_installation.install(self.cluster, crds.all_crds() if definitions is None else definitions)

    async def begin(self) -> None:
        """Creates the objects."""
        for kind, name, spec in _objects(self.address, self.seconds):
            metadata = {"namespace": "default", "name": name}
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
            await self.cluster.create(kind, body)

    async def item(self) -> str:
        """Asks for one more Job of the list; returns its item."""
        name = f"item-{next(self._numbers)}"
        await self.queue.rpush(ITEMS, name)
        self.items.add(name)
        return name

    async def event(self) -> str:
        """Pushes one more event, to whichever gateway takes it; returns its id."""
        name = f"event-{next(self._numbers)}"

        async def taken() -> bool:
            return any([await _push(url, name) for url in self.gateways()])

        await eventually(taken, told=lambda: f"a gateway takes {name}")
        # Only now: one whose push was cancelled need not be done.
        self.events.add(name)
        return name

    async def feed(self, pause: float) -> None:
        """Asks for more and more, until cancelled."""
        while True:
            await self.item()
            await asyncio.sleep(pause)
            await self.event()
            await asyncio.sleep(pause)

    async def jobs(self) -> list[Object]:
        """Returns all Jobs there are."""
        while True:
            try:
                return (await self.cluster.list(JOB, "default"))[0]
            except Unavailable:
                await asyncio.sleep(0.1)

    async def done(self) -> set[str]:
        """Returns the items and events whose Job is complete and accounted for."""
        return {
            subject
            for job in await self.jobs()
            if (subject := subject_of(job)) and conditions.finished(job) == "Complete" and not binding.is_bound(job)
        }

    async def probe(self, within: float = PATIENCE) -> None:
        """Asks for one item, and returns when it is done: every part is at work."""
        name = await self.item()

        async def so() -> bool:
            return name in await self.done()

        await eventually(so, within, told=lambda: f"{name} is done")

    async def settle(self) -> None:
        """Returns when everything asked for is done."""
        lacking: set[str] = set()

        async def so() -> bool:
            nonlocal lacking
            lacking = (self.items | self.events) - await self.done()
            return not lacking

        await eventually(so, PATIENCE, told=lambda: f"done: {sorted(lacking)}")

    async def faults(self) -> list[str]:
        """Returns what was done twice or not at all, and slots that were skipped."""
        jobs = await self.jobs()
        complete = [job for job in jobs if conditions.finished(job) == "Complete"]
        done = Counter(subject_of(job) for job in complete if subject_of(job))
        found = [f"{name} has {times} complete Jobs" for name, times in done.items() if times > 1]
        found += [f"{name} has no complete Job" for name in sorted((self.items | self.events) - done.keys())]
        found += [f"{job['metadata']['name']} failed" for job in jobs if conditions.finished(job) == "Failed"]
        found += await self._skipped(jobs)
        left = await self.queue.llen(ITEMS)
        return found + ([f"{left} items are left in the list"] if left else [])

    async def _skipped(self, jobs: Sequence[Object]) -> list[str]:
        slots = Counter(
            job["metadata"]["annotations"][SLOT] for job in jobs if SLOT in (job["metadata"].get("annotations") or {})
        )
        instants = sorted(_instant(slot) for slot in slots)
        gaps = [
            f"no Job between the slots {before} and {after}"
            for before, after in itertools.pairwise(instants)
            if after - before != self.seconds
        ]
        return gaps + [f"slot {slot} has {times} Jobs" for slot, times in slots.items() if times > 1]


def subject_of(job: Object) -> str:
    """Returns the item or the event that a Job is for, '' for one of a slot."""
    annotations = job["metadata"].get("annotations") or {}
    return str(annotations.get(EVENT) or annotations.get(job_annotations.ITEM) or "")


def _instant(slot: str) -> float:
    return datetime.fromisoformat(slot).timestamp()


async def _push(url: str, name: str) -> bool:
    headers = {"ce-specversion": "1.0", "ce-id": name, "ce-source": "/test", "ce-type": "asked"}
    session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3))
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        async with session, session.post(f"{url}/events/default/{EVENTS}", data="", headers=headers) as answer:
            return answer.status == 202
    return False


@asynccontextmanager
async def workload(made: Installation, definitions: Sequence[Object] | None = None) -> AsyncIterator[Workload]:
    """The objects of the work on an installation, without any work so far. definitions: another release's."""
    async with (
        await Cluster.connect(kubeconfig=made.kubeconfig) as cluster,
        redis.Redis(port=made.queues.port) as queue,
    ):

        def gateways() -> list[str]:
            return [member.url for member in made.of("gateway")]

        work = Workload(cluster, queue, gateways, f"127.0.0.1:{made.queues.port}")
        await work.define(definitions)
        await work.begin()
        yield work
