"""Three hundred objects, some of whose servers hang, refuse or trickle: the others are polled as if they were alone.

The bad ones' questions are never given up in the first tests: whatever waits for one of them waits for ever, and the
test hangs. There is nothing to measure by the clock.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from scalers.auth.lookups import Lookups
from scalers.polling.poll_worker import LINGER
from scalers.polling.single import AT_ONCE
from tests.integration.scalers.servers import refusing
from tests.integration.scalers.world import World, build, from_config_map, key, redis_trigger, scaled_job
from tests.support.conditions import eventually
from tests.support.servers import behaving, hang
from tests.support.tables import cases
from workers.api.kinds import Object, Ref
from workers.controllers.keda.scaledjob.status import ScaledJobConditions
from workers.decision.snapshot import Reading
from workers.handoff.readings import Readings
from workers.runtime.consumer import Consumer
from workers.runtime.leases import LeaseKeeper
from workers.settings import Settings

#: Notifications that are handled side by side, as by one worker process.
SLOTS = Settings().slots
#: Polls that each good object must have.
POLLS = 5
FOR_EVER = 3600.0


class Counted(Readings):
    """Readings, and how many there were of each object."""

    polls: Counter[str]

    async def hand_over(self, readings: Mapping[str, Reading], *args: Any, **options: Any) -> Any:
        self.polls.update(key.rpartition("/")[2] for key in readings)
        return await super().hand_over(readings, *args, **options)


class ScalerProcess:
    """A scaler process: notifications are handled by so many threads, the sweep makes ready what is due."""

    def __init__(self, world: World, polls: Counter[str]) -> None:
        self.world, self.polls = world, polls

    def least(self, names: Collection[str]) -> int:
        return min(self.polls[name] for name in names)


@asynccontextmanager
async def scaler_process(
    client: Redis, *, timeout: float, interval: float = 30.0, lookups: Lookups | None = None
) -> AsyncIterator[ScalerProcess]:
    world = await build(client, lookups=lookups)
    polls: Counter[str] = Counter()
    world.readings.__class__ = Counted
    world.readings.polls = polls  # type: ignore[attr-defined]
    notifications: set[asyncio.Task[Any]] = set()
    slots = asyncio.Semaphore(SLOTS)

    async def notified() -> None:
        async with slots:
            await consumer.consume()

    async def notify(missing: Mapping[str, int]) -> None:
        for _ in range(missing.get("poll", 0)):
            notifications.add(task := asyncio.create_task(notified()))
            task.add_done_callback(notifications.discard)

    poller = world.poller(timeout=timeout, base=0.05, cap=interval, probe=timeout)
    keeper = LeaseKeeper(world.poll, notify, lease=15.0)
    consumer = Consumer(keeper, poller.handle, notify, batch=64, work=1.0, linger=LINGER)
    sweeping = asyncio.create_task(consumer.sweep_forever(every=0.05))
    try:
        yield ScalerProcess(world, polls)
    finally:
        for task in (sweeping, *notifications):
            task.cancel()
        await asyncio.gather(sweeping, *notifications, return_exceptions=True)
        await consumer.close(0.0)
        await keeper.close()
        await poller.close()


class Servers:
    """Servers of every kind; asked: connections accepted, by kind; open: those that are."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.asked: Counter[str] = Counter()
        self.open: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def start(self, behaviour: str) -> int:
        """Its port."""
        if behaviour == "refuses":
            return refusing()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.asked[behaviour] += 1
            self.open[behaviour] += 1
            self.most[behaviour] = max(self.most[behaviour], self.open[behaviour])
            try:
                await getattr(self, f"_{behaviour}")(reader, writer)
            finally:
                self.open[behaviour] -= 1

        return await self._stack.enter_async_context(behaving(serve))

    _hangs = staticmethod(hang)

    async def _trickles(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A byte a second, of an answer that never ends."""
        gone = asyncio.create_task(self._hangs(reader, writer))
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not gone.done():
            writer.write(b"x")
            await writer.drain()
            await asyncio.wait({gone}, timeout=1)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """At /fast at once, at /slow never."""
        while True:
            asked = await reader.readuntil(b"\r\n\r\n")
            if b"/slow" in asked:
                await self._hangs(reader, writer)
                return
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"v":5}')


def told(reading: Reading | None) -> str:
    """The conditions of a ScaledJob with this reading."""
    assert reading is not None
    return str(ScaledJobConditions.observed({"status": {}}).with_samples(reading.samples, active=False))


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        yield Servers(stack)


def asking(name: str, port: int, path: str = "fast", milliseconds: int = 1000) -> Object:
    metadata = {"url": f"http://u:hunter2@127.0.0.1:{port}/{path}", "valueLocation": "v", "targetValue": "1"}
    trigger = {"type": "metrics-api", "metadata": metadata}
    return scaled_job(name, trigger, pollingInterval=1, pollingIntervalMilliseconds=milliseconds)


def good_lists(port: int, number: int, milliseconds: int) -> dict[str, Object]:
    trigger = redis_trigger(port, "queue")
    return {
        f"list-{i}": scaled_job(f"list-{i}", trigger, pollingIntervalMilliseconds=milliseconds) for i in range(number)
    }


@cases(("one server of each kind", False), ("a server for each object", True))
async def test_the_others_are_polled_on_time_while_the_bad_ones_are_asked(
    apart: bool, real_redis: Redis, port: int, servers: Servers
) -> None:
    bad: dict[str, Object] = {}
    for kind in ("hangs", "refuses", "trickles"):
        shared = await servers.start(kind)
        for i in range(30):
            bad[f"{kind}-{i}"] = asking(f"{kind}-{i}", await servers.start(kind) if apart and i else shared)
    answering = await servers.start("answers")
    good = good_lists(port, 150, 1000)
    good |= {f"web-{i}": asking(f"web-{i}", answering) for i in range(60)}
    async with scaler_process(real_redis, timeout=FOR_EVER) as running:
        await running.world.apply(*bad.values(), *good.values())
        least: Callable[[], object] = lambda: running.least(good) >= POLLS  # noqa: E731
        await eventually(least)
        stuck = [name for name in bad if not name.startswith("refuses")]
        assert not any(running.polls[name] for name in stuck), "they are being asked still"
        waiting = 30 if apart else AT_ONCE * 3 // 4
        assert (servers.open["hangs"], servers.open["trickles"]) == (waiting, waiting)
        assert running.least([name for name in bad if name.startswith("refuses")]) >= 1


async def test_slow_questions_leave_turns_to_those_of_the_same_server_that_are_answered(
    real_redis: Redis, servers: Servers
) -> None:
    port = await servers.start("answers")
    good = {f"fast-{i}": asking(f"fast-{i}", port, milliseconds=200) for i in range(30)}
    async with scaler_process(real_redis, timeout=FOR_EVER) as running:
        await running.world.apply(*good.values())
        await eventually(lambda: running.least(good) >= 1)
        slow = {f"slow-{i}": asking(f"slow-{i}", port, "slow") for i in range(30)}
        await running.world.apply(*slow.values())
        await eventually(lambda: servers.open["answers"] >= AT_ONCE * 3 // 4)
        before = Counter(running.polls)
        await eventually(lambda: min(running.polls[name] - before[name] for name in good) >= POLLS)
        assert not any(running.polls[name] for name in slow)
        assert servers.most["answers"] <= AT_ONCE


async def test_one_slow_trigger_of_many_holds_up_its_own_object_alone(real_redis: Redis, servers: Servers) -> None:
    """Also where that object asks the same server a hundred things."""
    port = await servers.start("answers")
    good = {f"fast-{i}": asking(f"fast-{i}", port, milliseconds=200) for i in range(5)}
    greedy = asking("greedy", port)
    greedy["spec"]["triggers"] = [
        {**trigger, "metadata": {**trigger["metadata"], "url": f"http://127.0.0.1:{port}/{'slow' if i < 20 else i}"}}
        for i, trigger in enumerate(greedy["spec"]["triggers"] * 100)
    ]
    async with scaler_process(real_redis, timeout=FOR_EVER) as running:
        await running.world.apply(*good.values())
        await eventually(lambda: running.least(good) >= 1)
        await running.world.apply(greedy)
        await eventually(lambda: servers.open["answers"] >= AT_ONCE * 3 // 4)
        before = Counter(running.polls)
        await eventually(lambda: min(running.polls[name] - before[name] for name in good) >= POLLS)
        assert running.polls["greedy"] == 0


async def test_the_bad_ones_say_what_is_wrong_and_are_asked_less_and_less(
    real_redis: Redis, port: int, servers: Servers
) -> None:
    said = {"hangs": "no answer within 0.3 s", "refuses": "cannot be reached", "trickles": "no answer within 0.3 s"}
    ports = {kind: await servers.start(kind) for kind in said}
    bad = {
        f"{kind}-{i}": asking(f"{kind}-{i}", port, milliseconds=100) for kind, port in ports.items() for i in range(30)
    }
    good = good_lists(port, 30, 100)
    async with scaler_process(real_redis, timeout=0.3, interval=3600) as running:
        await running.world.apply(*bad.values(), *good.values())

        async def all_left_alone() -> bool:
            readings = await running.world.readings.get_many(map(key, bad))
            return all(each is not None and each.samples and each.samples[0].alone_since for each in readings)

        await eventually(all_left_alone)

        async def all_say_why() -> bool:
            """On a busy machine the first refusals may come too late to count as such."""
            words = [told(each) for each in await running.world.readings.get_many(map(key, bad))]
            assert "hunter2" not in str(words)
            kinds = [name.partition("-")[0] for name in bad]
            where = [f"s0-metric-api-v: http://127.0.0.1:{ports[kind]}: {said[kind]}" for kind in kinds]
            return all(one in each for one, each in zip(where, words, strict=True))

        await eventually(all_say_why)
        # A server hears that a connection is closed a moment after the next one is opened.
        assert servers.most["hangs"] <= 2 * AT_ONCE
        assert servers.most["trickles"] <= 2 * AT_ONCE
        # While they are left alone, they are polled on and nobody asks: nothing is open, nothing goes on.
        await eventually(lambda: not (servers.open["hangs"] or servers.open["trickles"]))
        asked, before = Counter(servers.asked), Counter(running.polls)
        await eventually(lambda: min(running.polls[name] - before[name] for name in (*bad, *good)) >= 20)
        attempts = sum((Counter(servers.asked) - asked).values())
        assert attempts < 20 * 60 / 2, "twenty polls of sixty objects"
        assert len(asyncio.all_tasks()) < 100


async def test_credentials_that_are_slow_to_come_hold_up_their_own_object_alone(real_redis: Redis, port: int) -> None:
    """A Vault or an API server that hangs is one more server."""
    given = asyncio.Event()

    async def get(ref: Ref) -> Object:
        if "hangs" in ref.name:
            await given.wait()
        if "breaks" in ref.name:
            raise RuntimeError("nobody foresaw this")
        return {"data": {"port": str(port)}}

    good, bad = [f"good-{i}" for i in range(5)], ["hangs", "breaks", "hangs-and-breaks"]
    async with scaler_process(real_redis, timeout=FOR_EVER, lookups=Lookups(get)) as running:
        await running.world.apply(*map(from_config_map, [*bad, *good]))
        await eventually(lambda: running.least([*good, "breaks"]) >= 2)
        assert [running.polls[name] for name in ("hangs", "hangs-and-breaks")] == [0, 0]
        given.set()
        await eventually(lambda: running.least(bad) >= 1)
        for name, raises in (("hangs", False), ("breaks", True), ("hangs-and-breaks", True)):
            problem = (await running.world.reading(name)).problem
            assert ("RuntimeError" in str(problem)) is raises
            assert "foresaw" not in str(problem)
