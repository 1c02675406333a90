"""The `celery` trigger against real Celery workers: what waits and what is in hand is what is not done."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from redis.asyncio import Redis

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.sources.celery.tasks import CeleryTasks
from tests.integration.scalers.daemons import rabbitmq
from tests.integration.scalers.servers import commands, refusing
from tests.integration.scalers.sources import celery_app
from tests.integration.scalers.test_wakeups import listening, woken
from tests.integration.scalers.world import World, build, scaled_job
from tests.support import valkeys
from tests.support.conditions import eventually
from tests.support.tables import cases

#: Seconds that a worker may take to start on a busy machine.
LONG = 60.0
HOUR = 3600


@dataclass
class Shop:
    """A Celery application on one broker, and its workers. metadata: of the trigger that measures it."""

    broker: str
    folder: Path
    connections: Connections
    options: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.app: Celery = celery_app.build(self.broker, self.options)

    def send(self, *names: str, queue: str = "work", **more: Any) -> None:
        for name in names:
            self.app.send_task("hold", (name,), **({"queue": queue} if "exchange" not in more else {}), **more)

    @contextmanager
    def worker(self, *queues: str, prefetch: int = 2, **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
        """A worker process with two slots; killed at the end."""
        environment = {
            **os.environ,
            "CELERY_TEST_BROKER": self.broker,
            "CELERY_TEST_OPTIONS": json.dumps({**self.options, **options}),
            "CELERY_TEST_FOLDER": str(self.folder),
        }
        words = ["-A", "tests.integration.scalers.sources.celery_app", "worker"]
        words += ["--pool=threads", "--concurrency=2", "--loglevel=WARNING", f"--prefetch-multiplier={prefetch}"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-Q", ",".join(queues or ("work",))]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", *words, *quiet], env=environment, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def of(self, kind: str) -> set[str]:
        """Names of tasks that started, or are done."""
        return {path.name.partition("-")[2] for path in self.folder.glob(f"{kind}-*")}

    def let_go(self, *names: str) -> None:
        for gate in [f"go-{name}" for name in names] or ["go"]:
            (self.folder / gate).touch()

    async def has(self, kind: str, number: int) -> None:
        await eventually(lambda: len(self.of(kind)) >= number, LONG)
        assert len(self.of(kind)) == number, (self.folder / "log").read_text()

    def scaler(self, **metadata: str) -> CeleryTasks:
        given = {"broker": self.broker, "queues": "work", **self.metadata, **metadata}
        return CeleryTasks.parse(Trigger(0, "celery", metadata=given))

    async def measure(self, **metadata: str) -> Measure:
        (answer,) = await CeleryTasks.read([self.scaler(**metadata)], self.connections)
        if isinstance(answer, float):
            return Measure(answer)
        assert isinstance(answer, Measure), answer
        return answer

    async def count(self, **metadata: str) -> float:
        return (await self.measure(**metadata)).value

    async def counts(self, number: float, **metadata: str) -> None:
        """Waits until this is the number. A new queue of RabbitMQ has none for a moment."""

        async def so() -> bool:
            (answer,) = await CeleryTasks.read([self.scaler(**metadata)], self.connections)
            return (answer.value if isinstance(answer, Measure) else answer) == number

        await eventually(so, LONG)


@pytest.fixture
def shop(redis_url: str, tmp_path: Path, connections: Connections) -> Iterator[Shop]:
    opened = Shop(redis_url, tmp_path, connections)
    yield opened
    opened.app.close()


async def held(client: Redis, number: int, key: str = "unacked") -> None:
    """Waits until workers hold so many messages."""

    async def so() -> bool:
        return await client.hlen(key) == number

    await eventually(so, LONG)


async def none_is_on_its_way(client: Redis, lists: Sequence[str], waiting: int, number: int) -> None:
    """Waits until so many messages wait and workers hold so many, which are all that are not done.

    A worker takes a message from its list before it notes that it holds it: in between nothing can be counted.
    """

    async def so() -> bool:
        pipe = client.pipeline(transaction=True)
        for each in lists:
            pipe.llen(each)
        pipe.hlen("unacked")
        *waits, holds = await pipe.execute()
        return (sum(waits), holds) == (waiting, number)

    await eventually(so, LONG)


NAMES = [f"t{number}" for number in range(12)]


async def test_waiting_and_in_hand_is_not_done_whatever_happens_to_workers(shop: Shop, real_redis: Redis) -> None:
    for number, name in enumerate(NAMES):
        shop.send(name, priority=number % 10)
    assert await shop.count() == 12
    assert await real_redis.llen("work") < 12, "there is a list for each priority"
    with shop.worker() as worker:
        await shop.has("started", 2)
        await held(real_redis, 4)
        assert await shop.count() == 12, "two at work, two prefetched"
        shop.let_go(*shop.of("started"))
        await shop.has("done", 2)
        await shop.has("started", 4)
        await none_is_on_its_way(real_redis, shop.scaler().question.lists, waiting=6, number=4)
        assert await shop.count() == 10
        worker.kill()
        worker.wait()
        assert await shop.count() == 10, "what the dead held is not lost"
    shop.let_go()
    with shop.worker(visibility_timeout=1, unacked_restore_interval=1, unacked_restore_throttle=1):
        await shop.has("done", 12)
        await shop.counts(0)
    assert await real_redis.hlen("unacked") == 0


async def test_the_number_is_right_while_workers_work(shop: Shop, real_redis: Redis) -> None:
    """Of what is done at most what one worker holds is not acknowledged yet; one message may be on its way to it."""
    shop.let_go()
    shop.send(*(f"n{number}" for number in range(300)))
    samples = 0
    with shop.worker():
        while (before := len(shop.of("done"))) < 300:
            number = await shop.count()
            assert 300 - len(shop.of("done")) - 1 <= number <= 300 - before + 4
            samples += before > 0
        await shop.counts(0)
    assert samples > 1


async def test_tasks_that_are_not_due_are_no_work_yet(shop: Shop, real_redis: Redis) -> None:
    shop.send("now", "late")
    shop.send("hour", countdown=HOUR)
    naive = (datetime.now(UTC) + timedelta(minutes=30)).replace(tzinfo=None)
    shop.send("half", eta=naive.isoformat())
    shop.send("zone", eta=(datetime.now(UTC) + timedelta(hours=2)).astimezone().isoformat())
    shop.send("past", eta=datetime.now(UTC) - timedelta(minutes=1))
    found = await shop.measure()
    assert found.value == 3
    assert found.again == pytest.approx(1800, abs=60)
    assert await shop.measure(countFutureTasks="true") == Measure(6)
    with shop.worker():
        # An eta raises what a worker prefetches, so all are in hand soon.
        await shop.has("started", 2)
        shop.let_go()
        await shop.has("done", 3)
        await held(real_redis, 3)
        await shop.counts(0)
        assert await shop.count(countFutureTasks="true") == 3
        again = (await shop.measure()).again
        assert again == pytest.approx(1800, abs=LONG * 3)


async def test_a_task_becomes_work_when_it_is_due(shop: Shop, real_redis: Redis) -> None:
    """Without a worker, and long before the next poll."""
    world = await build(real_redis)
    body = scaled_job("work", {"type": "celery", "metadata": {"broker": shop.broker, "queues": "work"}})
    await world.apply({**body, "spec": {**body["spec"], "pollingInterval": HOUR}})
    async with world.polling() as polling:
        # Nothing that takes its time the first time is left for the moments before the task is due.
        shop.send("hour", countdown=HOUR)
        await polling.once()
        shop.send("soon", countdown=3)
        await polling.again("work")
        reading = await world.reading("work")
        assert reading.samples[0].value == 0

        async def is_work() -> bool:
            await world.poll.sweep()
            await polling.once()
            found = await world.reading("work")
            return bool(found and found.samples[0].value == 1)

        await eventually(is_work)


async def test_queues_exchanges_and_prefixes(redis_url: str, tmp_path: Path, connections: Connections) -> None:
    options = {"global_keyprefix": "app:", "priority_steps": [0, 5], "sep": ":"}
    metadata = {"globalKeyprefix": "app:", "prioritySteps": "0,5", "separator": ":"}
    shop = Shop(redis_url, tmp_path, connections, options, metadata)
    async with Redis.from_url(redis_url) as client:
        shop.send("a", "b", priority=7)
        shop.send("o", queue="other")
        every = ("work", "other", "images", "films")
        with shop.worker(*every, prefetch=4):
            await shop.has("started", 2)
            shop.send("i", queue="images", routing_key="image.png")
            shop.send("f", exchange="cinema", routing_key="film")
            await held(client, 5, "app:unacked")
            # A broadcast is published, not listed, and held like any other message.
            await client.hset("app:unacked", "tag", json.dumps([{"headers": {}}, "all", "work"]))
            await client.sadd("app:_kombu.binding.all", "work::bcast.1")

            counts = [await shop.count(queues=queue) for queue in every]
            assert counts == [2, 1, 1, 1]
            assert await shop.count(queues="work,images,films") == 4
            assert await shop.count(globalKeyprefix="") == 0, "another application on the same server"
            shop.let_go()
            await shop.has("done", 5)
            await shop.counts(0, queues="work,other,images,films")
    shop.app.close()


async def test_a_task_that_is_sent_wakes_the_object(shop: Shop, world: World) -> None:
    metadata = {"broker": shop.broker, "queues": "work,other"}
    async with listening(world, scaled_job("work", {"type": "celery", "metadata": metadata}), lists=8):
        shop.send("x", queue="other", priority=6)
        assert await woken(world) == {"work"}


async def test_many_triggers_are_one_look_at_what_workers_hold(
    shop: Shop, real_redis: Redis, connections: Connections
) -> None:
    shop.send("a", "b")
    shop.send("c", queue="other")
    scalers = [shop.scaler(queues=queues) for queues in ("work", "other", "work,other", "none")] * 25
    before = await commands(real_redis)
    answers = await CeleryTasks.read(scalers, connections)
    after = await commands(real_redis)
    assert answers == [Measure(2.0), Measure(1.0), Measure(3.0), Measure(0.0)] * 25
    assert after["hvals"] - before.get("hvals", 0) == 1
    assert after["eval"] - before.get("eval", 0) == 1


@cases(
    ("not json", b"nonsense"),
    ("a scalar", b"5"),
    ("eta of another form", b'{"headers": {"eta": "tomorrow"}}'),
    ("eta that is no text", b'{"headers": {"eta": 5}, "x": {"eta": ""}}'),
    ("eta without headers", b'{"eta": "2999-01-01T00:00:00"}'),
    ("an eta in a text", b'{"headers": {"eta": null, "argsrepr": "{\\"eta\\": \\"2999-01-01T00:00:00\\"}"}}'),
)
async def test_messages_of_other_forms_count_as_tasks(message: bytes, shop: Shop, real_redis: Redis) -> None:
    await real_redis.lpush("work", message)
    await real_redis.hset("unacked", "tag", b"[" + (message if message[:1] == b"{" else b"{}") + b', "", "work"]')
    assert await shop.measure() == Measure(2)


ETAS = {
    "2999-01-01T00:00:00+00:00": "2999-01-01T00:00:00+00:00",
    "2999-12-31T23:59:59.999999": "2999-12-31T23:59:59.999999+00:00",
    "2996-02-29T12:30:15Z": "2996-02-29T12:30:15+00:00",
    "2999-03-01T00:00:00+05:30": "2999-03-01T00:00:00+05:30",
    "2999-07-04 10:00:00.5-0330": "2999-07-04T10:00:00.500000-03:30",
}


@pytest.mark.parametrize(("eta", "instant"), ETAS.items(), ids=ETAS.keys())
async def test_forms_of_an_eta(shop: Shop, real_redis: Redis, eta: str, instant: str) -> None:
    await real_redis.lpush("work", json.dumps({"headers": {"eta": eta}}))
    before = await real_redis.time()
    found = await shop.measure()
    after = await real_redis.time()
    assert found.value == 0
    assert found.again
    looked = datetime.fromisoformat(instant).timestamp() - found.again
    milliseconds = [seconds + micros / 1e6 for seconds, micros in (before, after)]
    assert milliseconds[0] - 0.002 <= looked <= milliseconds[1] + 0.002


async def test_a_held_message_of_a_queue_with_other_letters_counts(shop: Shop, real_redis: Redis) -> None:
    held = json.dumps([{"headers": {}}, "", "w\u00f6rk"])
    assert "\\u00f6" in held
    await real_redis.hset("unacked", "tag", held)  # type: ignore[misc]
    assert await shop.count(queues="w\u00f6rk") == 1
    assert await shop.count() == 0
    await real_redis.hset("unacked", "tag", json.dumps([{}, "\u00e4", "key"]))  # type: ignore[misc]
    await real_redis.sadd("_kombu.binding.\u00e4", "key\x06\x16\x06\x16work")  # type: ignore[misc]
    assert await shop.count() == 1


async def test_what_cannot_be_counted_is_unknown(shop: Shop, real_redis: Redis, connections: Connections) -> None:
    await real_redis.set("work", "no list")
    shop.send("x", queue="other")
    refused, fine = await CeleryTasks.read([shop.scaler(), shop.scaler(queues="other")], connections)
    assert isinstance(refused, SourceError)
    assert "WRONGTYPE" in str(refused)
    assert fine == Measure(1)
    await real_redis.set("unacked", "no hash")
    (refused,) = await CeleryTasks.read([shop.scaler(queues="other")], connections)
    assert isinstance(refused, SourceError)


async def test_more_than_can_be_looked_into_is_unknown(
    shop: Shop, real_redis: Redis, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scalers.sources.celery.backlog.MOST_UNACKED", 1)
    await real_redis.hset("unacked", mapping={"1": "x", "2": "y"})
    (refused,) = await CeleryTasks.read([shop.scaler()], connections)
    assert isinstance(refused, SourceError)
    assert "workers hold 2 messages" in str(refused)


async def test_only_the_oldest_of_a_list_are_looked_into(
    shop: Shop, real_redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scalers.sources.celery.backlog.SCANNED", 2)
    for name in "abc":
        shop.send(name, countdown=HOUR)
    assert await shop.count() == 1


async def test_a_broker_that_is_not_there(tmp_path: Path, connections: Connections) -> None:
    for url in (f"redis://127.0.0.1:{refusing()}/0", "amqp://guest:hush@127.0.0.1"):
        metadata = {"broker": url, **({"management": f"http://127.0.0.1:{refusing()}"} if "amqp" in url else {})}
        with pytest.raises(SourceError, match=r"127\.0\.0\.1:") as failed:
            await CeleryTasks.read([CeleryTasks.parse(Trigger(0, "celery", metadata=metadata))], connections)
        assert "hush" not in str(failed.value)


@pytest.mark.broker
async def test_behind_sentinels(tmp_path: Path, connections: Connections) -> None:
    async with valkeys.sentinel(tmp_path, password="hush", own_password="own") as watched:
        port = watched.sentinel.port
        broker = f"sentinel://:hush@127.0.0.1:{refusing()}/0;sentinel://127.0.0.1:{port}"
        metadata = {"sentinelMaster": "mymaster", "sentinelPassword": "own"}
        shop = Shop(f"redis://:hush@127.0.0.1:{watched.master.port}/0", tmp_path, connections)
        shop.send("a", "b", priority=9)
        (answer,) = await CeleryTasks.read([shop.scaler(broker=broker, **metadata)], connections)
        assert answer == Measure(2)
        shop.app.close()


async def test_on_rabbitmq(tmp_path: Path, connections: Connections) -> None:
    async with rabbitmq(tmp_path / "broker") as (amqp, http):
        metadata = {"management": f"http://127.0.0.1:{http}"}
        shop = Shop(f"amqp://guest:guest@127.0.0.1:{amqp}//", tmp_path, connections, metadata=metadata)
        with shop.worker("work", "other") as worker:
            for number, name in enumerate(NAMES):
                shop.send(name, priority=number % 10)
            shop.send("o", queue="other", countdown=HOUR)
            await shop.has("started", 2)
            await shop.counts(12)
            await shop.counts(13, queues="work,other")
            shop.let_go(*shop.of("started"))
            await shop.has("done", 2)
            await shop.counts(10)
            worker.kill()
            worker.wait()
            await shop.counts(10)
        (missing,) = await CeleryTasks.read([shop.scaler(queues="none")], connections)
        assert isinstance(missing, SourceError)
        shop.let_go()
        with shop.worker("work", "other"):
            await shop.has("done", 12)
            await shop.counts(0)
            await shop.counts(1, queues="work,other")
        shop.app.close()
