"""The faults of a soak: each says when it happened, for a failure to be looked into."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from tests.soak.installation import Installation
from tests.soak.loads import Load, World

#: Seconds of a stop: beyond the lease of the parts (5 s), and one in which a server is merely slow.
BEYOND_LEASE, SLOW = 8.0, 2.0
#: Seconds between two faults, at least and at most.
PAUSE = (2.0, 9.0)
SERVERS = ("broker", "apiserver")


@dataclass
class Disasters:
    """The faults so far. record: (epoch seconds, text). kubelets: when kubelets died. chance: chooses."""

    running: Installation
    chance: random.Random
    record: list[tuple[float, str]] = field(default_factory=list)
    kubelets: list[float] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.record.append((time.time(), text))

    async def forever(self) -> None:
        """One fault after the other, in rounds: a short soak has some of each kind, too."""
        kinds: list[Callable[[], Awaitable[None]]] = [self.kill, self.kill, self.kill, self.stop, self.cut]
        kinds += [self.refuse, self.slow, self.two_at_once, self.forget, self.freeze]
        while True:
            self.chance.shuffle(kinds)
            for kind in kinds:
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

    def _proxy(self):  # type: ignore[no-untyped-def]
        return self.chance.choice((("broker", self.running.to_broker), ("API server", self.running.to_cluster)))


async def edit_forever(world: World, loads: list[Load], chance: random.Random, note: Callable[[str], None]) -> None:
    """One edit after the other of an object that is to be edited; a paused one is resumed before the next."""
    edited = [load for load in loads if load.edited]
    while True:
        await asyncio.sleep(chance.uniform(4, 12))
        load = chance.choice(edited)
        note(f"{load.name}: {await chance.choice(load.edited)(world, load)}")
