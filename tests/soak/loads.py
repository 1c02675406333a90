"""The loads: objects of every kind, the work that they are given, and edits of those that are to be disturbed."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import redis.asyncio as redis

from deploy.demo.events.sender import SentWebhook, WebhookSender
from tests.chaos.patience import insist
from tests.soak.account import Promise
from tests.soak.manifests import NAMESPACE, PERIOD, TEAM, Manifests
from workers.api import times
from workers.api.kinds import (
    CRON_JOB,
    EVENT_JOB,
    JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    SCALE_POLICY,
    SCALED_JOB,
    SCHEDULED_JOB,
    VC_JOB,
    Kind,
    Object,
    Ref,
)
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, Conflict, NotFound

#: The entries of a flow, and what they wait for.
FLOW = {"first": (), "left": ("first",), "right": ("first",), "last": ("left", "right")}
GANG = 3
#: Seconds until each load has its first piece of work.
FIRST = 5.0
#: Share of pushes whose answer is lost on the way to the sender.
UNHEARD = 0.2
PAUSED = "autoscaling.keda.sh/paused"


@dataclass
class World:
    """What loads act on. truth: the server of lists, streams and notes. broker: Penstock's own."""

    cluster: Cluster
    truth: redis.Redis
    broker: redis.Redis
    http: aiohttp.ClientSession
    gateway: str
    manifests: Manifests

    async def create(self, kind: Kind, body: Object) -> None:
        """Creates it, however often the API server dies; one that a lost answer created is there.

        One that an edit which was cut short deleted is there until its finalizers are gone, and is waited for.
        """
        ref = Ref(kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        while True:
            with contextlib.suppress(AlreadyExists):
                await insist(lambda: self.cluster.create(kind, body))
                return
            with contextlib.suppress(NotFound):
                if "deletionTimestamp" not in (await insist(lambda: self.cluster.get(ref)))["metadata"]:
                    return
            await asyncio.sleep(0.2)

    async def recreate(self, kind: Kind, body: Object) -> None:
        """Deletes it, waits until it is gone, and creates it anew."""
        ref = Ref(kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        with contextlib.suppress(NotFound):
            uid = (await insist(lambda: self.cluster.get(ref)))["metadata"]["uid"]
            with contextlib.suppress(Conflict):
                await insist(lambda: self.cluster.delete(ref, uid=uid))
            while (await insist(lambda: self.cluster.get(ref)))["metadata"]["uid"] == uid:
                await asyncio.sleep(0.2)
        await self.create(kind, body)

    async def patch(self, ref: Ref, body: Object) -> None:
        """Merges this into the object, if it is there."""
        with contextlib.suppress(NotFound):
            await insist(lambda: self.cluster.patch(ref, body))


#: Gives an object one more piece of work.
Feed = Callable[[World, "Load", int], Awaitable[None]]


@dataclass
class Load:
    """An object, or several, and its work.

    rate: pieces a minute. promise: the account of its work. edited: it is edited, suspended, deleted and created again.
    """

    name: str
    objects: list[tuple[Kind, Object]]
    rate: float
    feed: Feed
    promise: Promise = field(default_factory=Promise)
    edited: "tuple[Callable[[World, Load], Awaitable[str]], ...]" = ()
    created: float = 0.0
    fed: int = 0

    async def begin(self, world: World) -> None:
        for kind, body in self.objects:
            await world.create(kind, body)
        if self.objects:
            metadata = (await insist(lambda: world.cluster.get(self.ref)))["metadata"]
            self.created = times.parse(metadata["creationTimestamp"]).timestamp()

    async def run(self, world: World, until: asyncio.Event) -> None:
        """Feeds it at random times, at its rate, until the event."""
        pause = random.uniform(0, FIRST)  # The first comes soon, so that a short run has some of each, too.
        while not until.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), pause)
                return
            await self.more(world)
            pause = random.expovariate(self.rate / 60)

    async def more(self, world: World) -> None:
        """Feeds it one piece."""
        number, self.fed = self.fed, self.fed + 1
        await self.feed(world, self, number)

    @property
    def ref(self) -> Ref:
        """The object that is edited: the last one."""
        kind, body = self.objects[-1]
        return Ref(kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])


# --- what is fed


async def push_list(world: World, load: Load, number: int) -> None:
    work = f"{load.name}-{number}"
    load.promise.works.append(work)
    await world.truth.rpush(load.name, work)


async def add_to_stream(world: World, load: Load, number: int) -> None:
    work = f"{load.name}-{number}"
    load.promise.works.append(work)
    await world.truth.xadd(load.name, {"work": work})


def unheard() -> bool:
    """Returns whether a sender does not hear of its success, and sends once more."""
    return random.random() < UNHEARD


async def add_event(world: World, load: Load, number: int) -> None:
    """Adds an event to the intake as any Redis client may, again and again while the broker does not answer."""
    work = f"{load.name}-{number}"
    event = {"specversion": "1.0", "id": work, "source": "/soak", "type": "made"}
    load.promise.works.append(work)
    while True:
        try:
            await world.broker.xadd(f"{{penstock}}:events:{NAMESPACE}/{load.name}", event)
        except (redis.RedisError, OSError):
            # It may have been added: adding the same event again is safe.
            await asyncio.sleep(0.2)
        else:
            if not unheard():
                return


async def send_event(world: World, load: Load, number: int) -> None:
    """Sends a webhook; those of one repository follow on each other, which is their order."""
    webhook = SentWebhook(number, f"shop/{number % 3}", id=f"{load.name}-{number}")
    load.promise.key_of[webhook.id] = webhook.repository
    sender = WebhookSender(world.http, f"{world.gateway}/events/{NAMESPACE}/{load.name}", "")
    while True:
        try:
            await sender.send(webhook)
        except (ValueError, TimeoutError):
            await asyncio.sleep(0.5)
        else:
            if not unheard():
                break
    load.promise.works.append(webhook.id)


async def create_indexed(world: World, load: Load, number: int) -> None:
    name, size = f"{load.name}-{number}", random.randint(2, 4)
    load.promise.works += [f"{name}/{index}" for index in range(size)]
    await world.create(JOB, world.manifests.indexed_job(name, load.name, size))


async def create_gang(world: World, load: Load, number: int) -> None:
    name = f"{load.name}-{number}"
    load.promise.works += [f"{name}/{index}" for index in range(GANG)]
    await world.create(VC_JOB, world.manifests.gang(name, load.name, GANG))


async def create_flow(world: World, load: Load, number: int) -> None:
    name = f"{load.name}-{number}"
    load.promise.works += [f"{name}/{entry}" for entry in FLOW]
    await world.create(JOB_FLOW, world.manifests.flow(name, FLOW))


async def nothing(_world: World, _load: Load, _number: int) -> None:
    """A schedule feeds itself."""


# --- how objects are edited; each returns its name


async def pause(world: World, load: Load) -> str:
    for value in ("true", None):
        await world.patch(load.ref, {"metadata": {"annotations": {PAUSED: value}}})
        await asyncio.sleep(random.uniform(1, 5))
    return "paused"


async def suspend(world: World, load: Load) -> str:
    for value in (True, False):
        await world.patch(load.ref, {"spec": {"suspend": value}})
        await asyncio.sleep(random.uniform(1, 7))
    return "suspended"


async def resize(world: World, load: Load) -> str:
    await world.patch(load.ref, {"spec": {"maxReplicaCount": random.randint(1, 5)}})
    return "resized"


async def reorder(world: World, load: Load) -> str:
    await world.patch(load.ref, {"spec": {"concurrency": {"total": random.randint(1, 6)}}})
    return "resized"


async def recreate(world: World, load: Load) -> str:
    await world.recreate(*load.objects[-1])
    return "deleted and created again"


def all_loads(manifests: Manifests, chance: random.Random) -> list[Load]:
    """Returns one load of every kind. chance: decides nothing yet but how much of each."""

    def rate(about: float) -> float:
        return about * chance.uniform(0.7, 1.3)

    def scaled(name: str, about: float, strategy: str, *words: str, feed: Feed = push_list, **more: Any) -> Load:
        trigger = (
            manifests.stream_trigger(name, streamLength="1") if words[0] == "read" else manifests.list_trigger(name)
        )
        if feed is add_to_stream and strategy == "claim":
            trigger = manifests.stream_trigger(name)
        if feed is add_event:
            trigger = {"type": "push", "metadata": {}}
        body = manifests.scaled_job(name, strategy, trigger, *words)
        body["spec"] |= more.pop("spec", {})
        if more.pop("team", False):
            body["metadata"]["labels"] = {"team": TEAM}
        return Load(name, [(SCALED_JOB, body)], rate(about), feed, **more)

    item = ("given", "$(PENSTOCK_ITEM)")
    build = Load("build", [(EVENT_JOB, manifests.event_job("build"))], rate(14), send_event, edited=(suspend, reorder))
    audit = Load(
        "audit",
        [(EVENT_JOB, manifests.event_job("audit", channel="build", concurrency={"total": 4}))],
        0.01,
        nothing,
        Promise(build.promise.works),
    )
    period = f"*/{PERIOD} * * * * *"
    told, many = {"passTrigger": True}, {"maxReplicaCount": 20}
    every = {"catchUp": {"policy": "All", "limit": 1000}}
    return [
        scaled("list-default", 5, "default", "take", "list-default", team=True, spec=told),
        scaled("list-accurate", 5, "accurate", "take", "list-accurate", team=True, spec=told),
        # Its reading is still the newest when another worker decides, which may make all its Jobs once more.
        scaled("list-rare", 2, "default", "take", "list-rare", spec={**told, "pollingInterval": 60, **many}),
        scaled("list-eager", 5, "eager", "take", "list-eager"),
        scaled("stream-default", 5, "default", "read", "stream-default", feed=add_to_stream),
        scaled("list-edited", 5, "accurate", "take", "list-edited", edited=(pause, resize, recreate)),
        scaled("claim-list", 8, "claim", *item),
        scaled("claim-stream", 8, "claim", *item, feed=add_to_stream),
        # A Job whose object is deleted while it runs gives its item back, which is done once more then.
        scaled("claim-edited", 6, "claim", *item, promise=Promise(once=False), edited=(pause, resize, recreate)),
        scaled("pushed", 5, "claim", *item, feed=add_event),
        build,
        audit,
        Load("direct", [(EVENT_JOB, manifests.event_job("direct", concurrency={"total": 3}))], rate(6), add_event),
        Load("slots", [(SCHEDULED_JOB, manifests.schedule(SCHEDULED_JOB, "slots", period, **every))], 0.01, nothing),
        Load(
            "slots-edited",
            [(SCHEDULED_JOB, manifests.schedule(SCHEDULED_JOB, "slots-edited", f"*/{2 * PERIOD} * * * * *"))],
            0.01,
            nothing,
            Promise(open=True),
            edited=(suspend, recreate),
        ),
        Load("minutes", [(CRON_JOB, manifests.schedule(CRON_JOB, "minutes", "* * * * *"))], 0.01, nothing),
        Load("indexed", [], rate(2), create_indexed),
        Load("gangs", [], rate(1.5), create_gang),
        # A failed entry is tried again by another Job.
        Load("flows", [(JOB_TEMPLATE, manifests.flow_template("flows"))], rate(1.2), create_flow, Promise(jobs=False)),
        Load("pool", manifests.pool("pool"), rate(15), push_list, edited=(resize,)),
        Load("policy", [(SCALE_POLICY, manifests.policy())], 0.01, nothing),
    ]


def slots(load: Load, period: int, unit: int, until: float) -> list[str]:
    """Returns the names of the Jobs of a schedule's slots after its creation and not after `until` (epoch seconds).

    period: seconds between slots. unit: seconds that the number in a name counts.
    """
    # The creation has whole seconds, and the slot of that second may be before it or after it.
    first = (int(load.created) // period + 1) * period
    return [f"{load.name}-{slot // unit}" for slot in range(first, int(until) + 1, period)]


def ending(loads: Mapping[str, Load], until: float, grace: float) -> None:
    """Writes down the slots that schedules had until then, and those of so many seconds more, which go on meanwhile."""
    for name, period, unit in (("slots", PERIOD, 1), ("minutes", 60, 60)):
        promise = loads[name].promise
        promise.works = slots(loads[name], period, unit, until)
        promise.more = frozenset(slots(loads[name], period, unit, until + grace))
