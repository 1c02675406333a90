"""The faults of a soak: each says when it happened, for a failure to be looked into."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from scheduler.queue import SCRIPTS
from tests.chaos.patience import insist
from tests.soak import ledgers, witness
from tests.soak.installation import Installation
from tests.soak.loads import Load, World
from tests.soak.proxy import LAST
from tests.support.fault_proxy import Fault, fails_afterwards, loses_the_answer, refuses
from workers.api.kinds import JOB, SCALED_JOB, Ref

#: Seconds of a stop: beyond the lease of the parts (5 s), and one in which a server is merely slow.
BEYOND_LEASE, SLOW = 8.0, 2.0
#: Seconds between two faults, at least and at most.
PAUSE = (2.0, 9.0)
SERVERS = ("broker", "apiserver")
#: Pieces of work that come at once, and seconds in which they must have had their effect for a fault to be aimed.
BURST, AIM = 6, 10.0


@dataclass
class Disasters:
    """The faults so far. record: (epoch seconds, text). kubelets: when kubelets died. chance: chooses.

    found: what a fault saw itself that must not be.
    """

    running: Installation
    chance: random.Random
    world: World
    loads: Mapping[str, Load]
    record: list[tuple[float, str]] = field(default_factory=list)
    kubelets: list[float] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    bursts: int = 0
    #: Only those faults happen that are aimed at a fence.
    aimed: bool = False

    def note(self, text: str) -> None:
        self.record.append((time.time(), text))

    async def forever(self) -> None:
        """One fault after the other, in rounds: a short soak has some of each kind, too."""
        kinds: list[Callable[[], Awaitable[None]]] = [self.kill, self.kill, self.kill, self.stop, self.cut]
        kinds += [self.refuse, self.slow, self.two_at_once, self.forget, self.freeze, self.overload, self.fail]
        aimed = [self.freeze_a_creation, self.freeze_a_measurement, self.kill_a_creation]
        aimed += [self.delay_an_order, self.delay_a_settlement]
        while True:
            self.chance.shuffle(kinds)
            self.chance.shuffle(aimed)
            # In turn: a short soak has all that are aimed.
            for kind in chain.from_iterable(zip_longest(aimed, () if self.aimed else kinds)):
                if kind is not None:
                    await asyncio.sleep(self.chance.uniform(*PAUSE))
                    await kind()

    async def kill(self) -> None:
        pids = self.running.pids()
        if pids:
            name = self.chance.choice(sorted(pids))
            if name == "kubelet":
                self.kubelets.append(time.time())
            self.note(f"kill -9 {name}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[name], signal.SIGKILL)

    async def two_at_once(self) -> None:
        await self.kill()
        await self.kill()

    async def stop(self) -> None:
        """A process stands still, for longer than its leases last; a server for a while."""
        if names := sorted(self.running.pids()):
            name = self.chance.choice(names)
            async with self._stopped(name, SLOW if name in SERVERS else BEYOND_LEASE):
                pass

    async def freeze(self) -> None:
        """A part that holds leases stands still in the middle of its work, and others take that work over."""
        names = [name for name in sorted(self.running.pids()) if name.startswith(("worker", "scaler"))]
        if names:
            async with self._stopped(self.chance.choice(names), BEYOND_LEASE):
                pass

    async def forget(self) -> None:
        """Writes arrive that are heard of by none: answers are lost, the workers die, and the watch stands still.

        The workers that come decide on what the store knew before those writes.
        """
        async with self._stopped("watch", BEYOND_LEASE):
            self.running.to_cluster.mute = True
            try:
                await asyncio.sleep(self.chance.uniform(0.5, 1.5))
                for name, pid in self.running.pids().items():
                    if name.startswith("worker"):
                        self.note(f"kill -9 {name}, whose writes are not answered")
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
            finally:
                self.running.to_cluster.mute = False

    async def freeze_a_creation(self) -> None:
        """The worker that creates Jobs stands still between two of them, until another has its key."""
        name = self.chance.choice(("claim-list", "list-rare"))
        with self.running.to_cluster.hold_answers():
            if not await self._created(name):
                return
            pid = self._holder("reconcile", name)
            self._signal(pid, signal.SIGSTOP, f"that creates Jobs of {name}")
        await self._resumed(pid, "reconcile", name)

    async def freeze_a_measurement(self) -> None:
        """The scaler that measures stands still with the answer, until another has its key."""
        name = self.chance.choice(("claim-list", "list-rare"))
        with self.running.to_truth.hold_answers() as gate:
            await self._burst(name)
            if not await _within(AIM, lambda: bool(gate.held)):
                return
            pid = self._holder("poll", name)
            self._signal(pid, signal.SIGSTOP, f"that measures {name}")
        await self._resumed(pid, "poll", name)

    async def kill_a_creation(self) -> None:
        """Jobs are created, and the store does not hear of them: the workers die, and the watch stands still."""
        async with self._stopped("watch", BEYOND_LEASE):
            with self.running.to_cluster.hold_answers():
                if not await self._created("list-rare"):
                    return
                for name, pid in self.running.pids().items():
                    if name.startswith("worker"):
                        self._signal(pid, signal.SIGKILL, f"{name}, whose creations are not answered")

    async def delay_an_order(self) -> None:
        """An order reaches its ledger after newer ones: its scaler died, and the network kept it."""
        orders = ledgers.Orders(self.world.truth, "claim-list")
        with self.running.to_truth.hold_requests(orders.carries) as gate:
            await self._burst("claim-list")
            if not await _within(AIM, lambda: bool(gate.held)):
                return
            for name, pid in self.running.pids().items():
                if name.startswith("scaler"):
                    self._signal(pid, signal.SIGKILL, f"{name}, whose order is on its way")
            for _ in range(2):
                await orders.newer(AIM)
                await self._burst("claim-list")
        self.found += await orders.older(SLOW)

    async def delay_a_settlement(self) -> None:
        """The outcome of a key reaches the broker when another decision on that key is under way."""

        def settles(piece: bytes) -> bool:
            return SCRIPTS["finish"].digest.encode() in piece and b":reconcile" in piece and key in piece

        key = Ref(SCALED_JOB, "default", "list-rare").key.encode()
        with self.running.to_broker.hold_requests(settles) as gate:
            await self._burst("list-rare")
            if not await _within(AIM, lambda: bool(gate.held)):
                return
            self.note(f"an outcome is late by {BEYOND_LEASE:g} s")
            await asyncio.sleep(BEYOND_LEASE)
            with self.running.to_cluster.hold_answers():
                await self._created("list-rare")
                gate.opened.set()
                await asyncio.sleep(LAST)

    async def _burst(self, name: str) -> None:
        """Feeds a list with several pieces in one step, which one reading counts."""
        load = self.loads[name]
        works = [f"{name}-burst-{self.bursts}-{number}" for number in range(BURST)]
        self.bursts += 1
        load.promise.works += works
        await self.world.truth.rpush(name, *works)

    async def _created(self, name: str) -> bool:
        """Feeds it, and returns True once a new Job is there."""
        before = await self._jobs(name)
        await self._burst(name)
        until = time.monotonic() + AIM
        while time.monotonic() < until:
            if await self._jobs(name) - before:
                return True
            await asyncio.sleep(0.02)
        return False

    async def _jobs(self, name: str) -> set[str]:
        found = (await insist(lambda: self.world.cluster.list(JOB, "default")))[0]
        return {job["metadata"]["name"] for job in found if job["metadata"]["name"].startswith(f"{name}-")}

    def _holder(self, lane: str, name: str) -> int:
        key = Ref(SCALED_JOB, "default", name).key
        return witness.holder(self.running.notes, f"{lane}:{key}") or 0

    def _signal(self, pid: int, number: signal.Signals, what: str) -> None:
        """Sends a signal to one of the parts; any other process is left alone."""
        if pid in self.running.pids().values():
            self.note(f"{number.name} to the process {what}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    async def _resumed(self, pid: int, lane: str, name: str) -> None:
        """Lets a stopped process go on once another has its key, or after a while."""
        try:
            await _within(2 * BEYOND_LEASE, lambda: self._holder(lane, name) != pid)
            # The other one has the key in hand for a moment.
            await asyncio.sleep(self.chance.uniform(0, 0.5))
        finally:
            if pid in self.running.pids().values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextlib.asynccontextmanager
    async def _stopped(self, name: str, seconds: float) -> AsyncIterator[None]:
        """Stops a process for the body, and for so many seconds at least."""
        pid = self.running.pids().get(name)
        if pid is None:
            yield
            return
        self.note(f"SIGSTOP {name} for {seconds:g} s")
        until = time.monotonic() + seconds
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            try:
                yield
                await asyncio.sleep(max(0.0, until - time.monotonic()))
            finally:
                os.kill(pid, signal.SIGCONT)

    async def cut(self) -> None:
        name, proxy = self._proxy()
        self.note(f"{proxy.cut()} connections to the {name} cut")

    async def refuse(self) -> None:
        name, proxy = self._proxy()
        seconds = self.chance.uniform(1, 6)
        proxy.refusing = True
        self.note(f"{proxy.cut()} connections to the {name} cut, and none accepted for {seconds:.1f} s")
        try:
            await asyncio.sleep(seconds)
        finally:
            proxy.refusing = False

    async def slow(self) -> None:
        name, proxy = self._proxy()
        seconds, delay = self.chance.uniform(3, 8), self.chance.uniform(0.05, 0.4)
        self.note(f"the {name} answers {delay:.2f} s late for {seconds:.1f} s")
        proxy.delay = delay
        try:
            await asyncio.sleep(seconds)
        finally:
            proxy.delay = 0.0

    async def overload(self) -> None:
        """The API server takes few of the workers' requests."""
        await self._answered(refuses(429, retry_after=1.0), "is too busy for")

    async def fail(self) -> None:
        """The API server tells workers that it failed; it may have done what they asked for."""
        fault, what = self.chance.choice(
            (
                (refuses(500, "Internal error"), "fails at"),
                (fails_afterwards, "does, and says that it failed at,"),
                (loses_the_answer, "does, and does not answer,"),
            )
        )
        await self._answered(fault, what)

    async def _answered(self, fault: Fault, what: str) -> None:
        """Some of the workers' requests are answered by this for a while."""
        seconds, share = self.chance.uniform(2, 8), self.chance.uniform(0.2, 1.0)
        answers = self.running.answers
        rule = answers.rule(lambda _: self.chance.random() < share, fault)
        self.note(f"the API server {what} {share:.0%} of the workers' requests, for {seconds:.1f} s")
        try:
            await asyncio.sleep(seconds)
        finally:
            answers.rules.remove(rule)

    def _proxy(self):  # type: ignore[no-untyped-def]
        return self.chance.choice((("broker", self.running.to_broker), ("API server", self.running.to_cluster)))


async def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Returns True as soon as the condition holds, False if it does not in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.05)
    return True


async def edit_forever(world: World, loads: list[Load], chance: random.Random, note: Callable[[str], None]) -> None:
    """One edit after the other of an object that is to be edited; a paused one is resumed before the next."""
    edited = [load for load in loads if load.edited]
    while True:
        await asyncio.sleep(chance.uniform(4, 12))
        load = chance.choice(edited)
        note(f"{load.name}: {await chance.choice(load.edited)(world, load)}")
