"""The course of a soak: load under faults, then load without, then the account, then everything is deleted."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import redis.asyncio as redis

from deploy.local.supervisor.fork_server import ForkServer
from scheduler.broker import clients
from tests.chaos.patience import beside, insist
from tests.soak import rest, witness
from tests.soak.account import Account, Note
from tests.soak.disasters import Disasters, edit_forever
from tests.soak.installation import Installation, installation
from tests.soak.loads import Load, World, all_loads, ending
from tests.soak.manifests import LIMIT, TEAM, Manifests
from tests.soak.pod_program import NOTES
from tests.soak.vitals import Vitals
from tests.support import contents
from tests.support.valkeys import ValkeyServer
from workers.api import conditions
from workers.api.kinds import EVENT_JOB, JOB, POD, SCHEDULED_JOB, Object
from workers.client.rest import Cluster

#: Share of the time in which things are broken; the rest is calm, and what grows in it grows by itself.
BROKEN = 0.75
#: Seconds until all that was asked for must be done, and all that was deleted gone, on a busy machine.
PATIENCE = 240.0
#: MiB that the broker's data may have grown when everything is deleted.
MEMORY = 4.0
#: Seconds between two samples; until the broker has forgotten what was deleted, and its tombstones, too.
SAMPLE = 3.0
RESTING, TOMBSTONES = 60.0, 900.0


@dataclass
class Outcome:
    """The observations of a soak. left: keys of the broker, before and after. fences: what leases and orders forbid."""

    account: Account
    record: list[tuple[float, str]]
    vitals: Vitals
    began: float = 0.0
    most_limited: int = 0
    left: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    memory: tuple[float, float] = (0.0, 0.0)
    unfinished: list[str] = field(default_factory=list)
    parked: dict[str, int] = field(default_factory=dict)
    jobs: int = 0
    fences: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Returns what is wrong, as text; empty for a correct run."""
        found = self.fences + self.account.faults() + self.vitals.growing() + self.unfinished
        if self.most_limited > LIMIT:
            found.append(f"{self.most_limited} unfinished Jobs under a policy of {LIMIT}")
        found += [f"{name}: {number} parked" for name, number in self.parked.items() if number]
        found += [
            f"the broker keeps {name}: {was} entries before, {now} after" for name, (was, now) in self.left.items()
        ]
        if self.memory[1] > self.memory[0] + MEMORY:
            found.append(f"the broker's data grew from {self.memory[0]:.1f} to {self.memory[1]:.1f} MiB")
        return found


@dataclass
class Soak:
    """A soak of so many minutes. aimed: with the faults alone that are aimed at fences. say: tells of its progress."""

    home: Path
    minutes: float
    seed: int
    calm: bool
    tombstones: bool
    aimed: bool
    say: Callable[[str], None]

    async def run(self, forks: ForkServer | None) -> Outcome:
        with ValkeyServer(config={"notify-keyspace-events": "Klshztg", "save": ""}) as truth_server:
            async with (
                installation(self.home, forks, pods=12, truth=truth_server.port) as running,
                await Cluster.connect(kubeconfig=running.kubeconfig) as cluster,
                # Plain clients swallow a cancellation now and then, and faults would go on for ever.
                clients.client(f"{truth_server.connection_url}/0") as truth,
                clients.client(running.store) as broker,
                aiohttp.ClientSession() as http,
            ):
                manifests = Manifests(f"127.0.0.1:{truth_server.port}", f"127.0.0.1:{running.to_truth.port}")
                world = World(cluster, truth, broker, http, running.gateway, manifests)
                return await self._course(world, running)

    async def _course(self, world: World, running: Installation) -> Outcome:
        chance = random.Random(self.seed)
        loads = all_loads(world.manifests, chance)
        named = {load.name: load for load in loads}
        disasters = Disasters(running, chance, world, named, aimed=self.aimed)
        kept = await contents.paths(running.kubeconfig)
        await _settled(world.broker)
        before, memory = await rest.keys(world.broker), await rest.memory(world.broker)
        outcome = Outcome(Account({}, []), disasters.record, Vitals(), time.time(), memory=(memory, 0))
        for load in loads:
            await load.begin(world)
        await _ready(world)
        self.say(f"{len(loads)} loads are ready")
        over = asyncio.Event()
        feeding = [asyncio.create_task(load.run(world, over)) for load in loads]
        try:
            async with beside(self._watch(world, running, outcome, loads)):
                broken = self.minutes * 60 * BROKEN
                if not self.calm:
                    async with beside(
                        disasters.forever(), edit_forever(world, loads, chance, disasters.note)
                    ) as breaking:
                        await asyncio.wait(breaking, timeout=broken, return_when=asyncio.FIRST_COMPLETED)
                        for task in breaking:
                            if task.done():
                                task.result()
                    await _mended(world, loads)
                    self.say(f"{len(disasters.record)} faults and edits; now it is calm")
                await asyncio.sleep(self.minutes * 60 - (0 if self.calm else broken))
                over.set()
                await asyncio.gather(*feeding)
                ending(named, time.time(), 2 * PATIENCE)
                await self._done(world, outcome, loads, disasters)
        finally:
            for task in feeding:
                task.cancel()
            await asyncio.gather(*feeding, return_exceptions=True)
        await self._parked(world, outcome)
        outcome.fences = disasters.found + witness.faults(running.notes)
        self.say("everything is deleted now")
        try:
            await contents.delete(running.kubeconfig, keep=kept)
        except TimeoutError as error:
            outcome.unfinished.append(str(error))
        outcome.left, after = await self._rested(world.broker, before, memory)
        outcome.memory = (memory, after)
        return outcome

    async def _watch(self, world: World, running: Installation, outcome: Outcome, loads: list[Load]) -> None:
        """Samples what must hold all the time."""
        jobs: set[str] = set()
        while True:
            outcome.vitals.sample(running.pids(), time.time())
            found = (await insist(lambda: world.cluster.list(JOB, "default")))[0]
            jobs |= {job["metadata"]["uid"] for job in found}
            outcome.jobs = len(jobs)
            unfinished = Counter(_owner(job) for job in found if not conditions.finished(job))
            limited = [load.name for load in loads if _limited(load)]
            together = sum(unfinished[name] for name in limited)
            if together > max(LIMIT, outcome.most_limited):
                outcome.record.append((time.time(), f"{together} unfinished Jobs under the policy"))
            outcome.most_limited = max(outcome.most_limited, together)
            await asyncio.sleep(SAMPLE)

    async def _done(self, world: World, outcome: Outcome, loads: list[Load], disasters: Disasters) -> None:
        """Returns once everything is done, or when patience ends."""
        deadline = time.monotonic() + PATIENCE
        while True:
            notes = [Note.parse(json.loads(note)) for note in await world.truth.lrange(NOTES, 0, -1)]
            promises = {load.name: load.promise for load in loads}
            outcome.account = Account(promises, notes, disasters.kubelets)
            undone = outcome.account.undone()
            outcome.unfinished = [] if undone else await _unfinished(world.cluster)
            if time.monotonic() > deadline or not (undone or outcome.unfinished) or outcome.account.spoilt():
                return
            await asyncio.sleep(2)

    async def _parked(self, world: World, outcome: Outcome) -> None:
        for body in (await world.cluster.list(EVENT_JOB, "default"))[0]:
            counts = (body.get("status") or {}).get("events") or (body.get("status") or {}).get("counts") or {}
            outcome.parked[body["metadata"]["name"]] = int(counts.get("parked") or 0)
        async for key in world.truth.scan_iter(match="*:parked"):
            outcome.parked[key.decode()] = int(await world.truth.xlen(key))

    async def _rested(
        self, broker: redis.Redis, before: Mapping[str, int], memory: float
    ) -> tuple[Mapping[str, tuple[int, int]], float]:
        """Returns what is left once nothing changes any more, or when patience ends."""
        deadline = time.monotonic() + (TOMBSTONES if self.tombstones else RESTING)
        while True:
            left = rest.more(before, await rest.keys(broker), buried=not self.tombstones)
            now = await rest.memory(broker)
            if time.monotonic() > deadline or not (left or now > memory + MEMORY):
                return left, now
            await asyncio.sleep(2)


def _limited(load: Load) -> bool:
    return any((body["metadata"].get("labels") or {}).get("team") == TEAM for _, body in load.objects)


def _owner(job: Object) -> str:
    return str((job["metadata"].get("ownerReferences") or [{"name": ""}])[0]["name"])


async def _settled(broker: redis.Redis) -> None:
    """Returns once the keys of the broker stay what they are: the first lists and Leases are written."""
    last: object = None
    for _ in range(20):
        await asyncio.sleep(1)
        now = await rest.keys(broker)
        if now == last:
            return
        last = now


async def _ready(world: World) -> None:
    """Returns once the EventJobs take events: those that are pushed before are not theirs."""
    async with asyncio.timeout(PATIENCE):
        while True:
            bodies = (await world.cluster.list(EVENT_JOB, "default"))[0]
            if all(conditions.holds(body, "Ready") for body in bodies):
                return
            await asyncio.sleep(0.2)


async def _mended(world: World, loads: list[Load]) -> None:
    """Objects that an edit left paused, suspended or deleted are what they were."""
    for load in loads:
        if load.edited:
            kind, body = load.objects[-1]
            await world.create(kind, body)
            await world.patch(load.ref, {"metadata": {"annotations": {"autoscaling.keda.sh/paused": None}}})
            if kind in (EVENT_JOB, SCHEDULED_JOB):
                await world.patch(load.ref, {"spec": {"suspend": False}})


async def _unfinished(cluster: Cluster) -> list[str]:
    """Returns the pods and Jobs that have not ended, as text; schedules go on meanwhile."""
    found = []
    for kind in (JOB, POD):
        for body in (await insist(lambda kind=kind: cluster.list(kind, "default")))[0]:
            name = body["metadata"]["name"]
            over = conditions.finished(body) or (body.get("status") or {}).get("phase") in ("Succeeded", "Failed")
            if not over and not name.startswith(("slots", "minutes")):
                found.append(f"{kind.kind} {name} has not ended")
    return found
