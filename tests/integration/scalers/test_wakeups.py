"""Wake-ups by keyspace notifications on a real server: what wakes, what does not, and what is never missed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError

from scalers.triggers.parse import Parsed
from scalers.wakeups.redis_listener import ListenerStatus
from scalers.wakeups.wakeups import WaitingObject, Wakeups
from scheduler.queue import Done
from tests.integration.scalers.servers import kill_measuring, refusing
from tests.integration.scalers.world import KEYS, Polling, World, build, key, redis_trigger, ref, scaled_job
from tests.support.tables import cases, for_each
from tests.unit.scalers.cluster import Cluster
from workers.api.kinds import Object, Ref


def wakeups_of(world: World, **options: Any) -> Wakeups:
    return Wakeups(
        client=world.client,
        keys=KEYS,
        poll=world.poll,
        notify=world.notify,
        store=world.store,
        triggers=world.triggers,
        **{"gap": 0.0, "refresh": 0.02, **options},
    )


@asynccontextmanager
async def running(wakeups: Wakeups) -> AsyncIterator[Wakeups]:
    task = asyncio.create_task(wakeups.run())
    try:
        yield wakeups
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.005)


async def nobody_listens(world: World) -> bool:
    return (await world.client.pubsub_numsub("__keyspace@0__:queue"))[0][1] == 0


async def ready(world: World) -> bool:
    return (await world.poll.stats()).ready > 0


async def woken(world: World) -> set[str]:
    """The names of objects that are to be polled now, once there are some; they are booked far away again."""
    await until(lambda: ready(world))
    return await calm(world)


async def calm(world: World) -> set[str]:
    claim = await world.poll.claim(1000, notified=True)
    await world.poll.finish((lease, Done()) for lease in claim.leases)
    return {lease.key.rpartition("/")[2] for lease in claim.leases}


async def connected(wakeups: Wakeups, lists: int = 1) -> None:
    async def told() -> bool:
        return any(status.connected and status.lists == lists for status in wakeups.status())

    await until(told)


@asynccontextmanager
async def listening(
    world: World, body: Object, *, lists: int = 1, **options: Any
) -> AsyncIterator[tuple[Wakeups, Polling]]:
    """The object has been polled, its lists are listened to, and nothing is left to be polled."""
    async with running(wakeups_of(world, **options)) as wakeups, world.polling(wakeups=wakeups) as polling:
        await world.apply(body)
        await polling.once()
        await connected(wakeups, lists)
        woken_first = await woken(world)
        assert woken_first == {body["metadata"]["name"]}, "once when listening begins: a push may have come before"
        yield wakeups, polling


@pytest.fixture
def queue(port: int) -> Object:
    return scaled_job("work", redis_trigger(port, "queue"))


@cases(
    ("lpush", (("LPUSH", "queue", "1"),)),
    ("rpush", (("RPUSH", "queue", "1"),)),
    ("linsert", (("RPUSH", "queue", "1"), ("LINSERT", "queue", "BEFORE", "1", "0"))),
    ("lmove", (("RPUSH", "other", "1"), ("LMOVE", "other", "queue", "LEFT", "RIGHT"))),
    ("rpoplpush", (("RPUSH", "other", "1"), ("RPOPLPUSH", "other", "queue"))),
    ("rename", (("RPUSH", "other", "1"), ("RENAME", "other", "queue"))),
    ("copy", (("RPUSH", "other", "1"), ("COPY", "other", "queue"))),
    ("sort and store", (("RPUSH", "other", "1"), ("SORT", "other", "STORE", "queue"))),
    ("sadd", (("SADD", "queue", "1"),)),
    ("sunionstore", (("SADD", "other", "1"), ("SUNIONSTORE", "queue", "other"))),
    ("zadd", (("ZADD", "queue", "1", "a"),)),
    ("zincrby", (("ZINCRBY", "queue", "1", "a"),)),
    ("zunionstore", (("ZADD", "other", "1", "a"), ("ZUNIONSTORE", "queue", "1", "other"))),
    ("hset", (("HSET", "queue", "a", "1"),)),
    ("hincrby", (("HINCRBY", "queue", "a", "1"),)),
    ("restore", (("RESTORE",),)),
    ("xadd", (("XADD", "queue", "*", "a", "1"),)),
)
async def test_what_makes_a_key_grow_wakes_its_object(steps: tuple[Any, ...], world: World, queue: Object) -> None:
    async with listening(world, queue):
        *before, last = steps
        for step in before:
            await world.client.execute_command(*step)
        if last == ("RESTORE",):
            await world.client.rpush("other", 1)
            await world.client.restore("queue", 0, await world.client.dump("other"))
        else:
            await world.client.execute_command(*last)
        assert await woken(world) == {"work"}
        assert world.notified["poll"] > 0


@cases(("length", {}), ("pending", {"consumerGroup": "group"}), ("lag", {"consumerGroup": "group", "lagCount": "1"}))
async def test_an_entry_added_to_a_stream_wakes_its_object(more: dict[str, str], world: World, port: int) -> None:
    metadata = {"address": f"127.0.0.1:{port}", "stream": "queue", **more}
    async with listening(world, scaled_job("work", {"type": "redis-streams", "metadata": metadata})):
        await world.client.xadd("queue", {"a": 1})
        assert await woken(world) == {"work"}


async def test_what_takes_work_away_wakes_nobody(world: World, queue: Object) -> None:
    await world.client.rpush("queue", 1, 2, 3)
    async with listening(world, queue, gap=60.0) as (wakeups, _):
        marked: list[str] = []
        wakeups._wake = lambda keys: marked.extend(keys)  # type: ignore[method-assign]
        await world.client.lpop("queue")
        await world.client.ltrim("queue", 0, 0)
        await world.client.delete("queue")
        await world.client.rpush("queue", 1)
        await until(lambda: asyncio.sleep(0, bool(marked)))
        assert marked == [key("work")], "only the push"


async def test_only_the_objects_of_a_list_are_woken(world: World, port: int) -> None:
    async with running(wakeups_of(world)) as wakeups, world.polling(wakeups=wakeups) as polling:
        await world.apply(
            scaled_job("one", redis_trigger(port, "queue")),
            scaled_job("two", redis_trigger(port, "other"), redis_trigger(port, "queue")),
            scaled_job("three", redis_trigger(port, "third")),
            scaled_job("elsewhere", redis_trigger(port, "queue", databaseIndex="1")),
        )
        await polling.once()
        await connected(wakeups, lists=3)
        await connected(wakeups, lists=1)
        everybody = {"one", "two", "three", "elsewhere"}
        assert await settled(world, *everybody) == everybody
        await world.client.rpush("queue", 1)
        assert await settled(world, "one", "two") == {"one", "two"}
        async with Redis(port=port, db=1) as first:
            await first.rpush("queue", 1)
        assert await settled(world) == {"elsewhere"}


async def settled(world: World, *expected: str) -> set[str]:
    """Everything that is woken, once these are, until nothing more comes for a moment."""
    names = await woken(world)
    while not names.issuperset(expected):
        names |= await woken(world)
    for _ in range(20):
        await asyncio.sleep(0.005)
        names |= await calm(world)
    return names


async def test_a_list_is_listened_to_by_a_process_that_never_polled_it(world: World, port: int) -> None:
    async with world.polling(wakeups=wakeups_of(world)) as polling, running(wakeups_of(world)) as other:
        await world.apply(scaled_job("work", redis_trigger(port, "queue")))
        await polling.once()
        await connected(other)
        await woken(world)
        await world.client.rpush("queue", 1)
        assert await woken(world) == {"work"}


async def test_no_credential_is_copied_into_the_broker(world: World, port: int) -> None:
    trigger = redis_trigger(port, "queue", username="u", password="hunter2")
    async with world.polling(wakeups=wakeups_of(world)) as polling:
        await world.apply(scaled_job("work", trigger))
        await polling.once()
    shared = await world.client.hgetall("{test}:wakeups")
    assert shared == {key("work").encode(): b"uid-work/1"}
    assert b"hunter2" not in await world.client.hget("{test}:readings", key("work"))


@for_each("deleted", "paused")
async def test_an_object_that_is_gone_or_paused_is_forgotten_everywhere(
    how: str, world: World, port: int, queue: Object
) -> None:
    async with listening(world, queue) as (wakeups, polling), running(wakeups_of(world)) as other:
        await connected(other)
        await calm(world)
        trigger = redis_trigger(port, "queue")
        if how == "deleted":
            await world.delete(scaled_job("work", trigger))
        else:
            paused = {"autoscaling.keda.sh/paused": "true"}
            await world.apply(scaled_job("work", trigger, version=2, annotations=paused))
        await polling.again("work")
        await until(lambda: asyncio.sleep(0, not wakeups.status() and not other.status()))
        assert await world.client.hgetall("{test}:wakeups") == {}
        await until(lambda: nobody_listens(world))


async def test_another_list_in_the_spec_replaces_the_first(world: World, port: int, queue: Object) -> None:
    async with listening(world, queue) as (_, polling):
        await world.apply(scaled_job("work", redis_trigger(port, "second"), version=2, generation=2))
        await polling.once()
        await woken(world)
        await world.client.rpush("second", 1)
        assert await woken(world) == {"work"}
        await until(lambda: nobody_listens(world))


async def test_a_second_object_on_a_list_is_woken_when_it_joins(world: World, port: int, queue: Object) -> None:
    async with listening(world, queue) as (_, polling):
        await world.apply(scaled_job("late", redis_trigger(port, "queue")))
        await polling.once()
        assert await woken(world) == {"late"}
        await world.client.rpush("queue", 1)
        assert await settled(world, "work", "late") == {"work", "late"}


async def test_a_lost_connection_is_made_anew_and_what_was_missed_is_looked_at(world: World, queue: Object) -> None:
    async with listening(world, queue):
        for _ in range(2):
            assert await kill_measuring(world.client) >= 1
            assert await woken(world) == {"work"}, "once after the reconnect: a push may have been missed"
            await world.client.rpush("queue", 1)
            assert await woken(world) == {"work"}


async def test_after_the_broker_was_emptied_the_next_poll_listens_again(world: World, port: int, queue: Object) -> None:
    async with listening(world, queue) as (wakeups, polling):
        await world.client.flushall()
        await until(lambda: asyncio.sleep(0, not wakeups.status()))
        await world.poll.open()
        await world.apply(scaled_job("work", redis_trigger(port, "queue")))
        await polling.once()
        await connected(wakeups)
        await woken(world)
        await world.client.rpush("queue", 1)
        assert await woken(world) == {"work"}


async def test_a_burst_is_not_marked_push_by_push(world: World, queue: Object, monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening(world, queue, gap=0.05) as (wakeups, _):
        marks: list[int] = []
        heard: list[int] = []
        mark, wake = world.poll.mark, wakeups._wake
        monkeypatch.setattr(world.poll, "mark", lambda keys: (marks.append(1), mark(keys))[1])
        monkeypatch.setattr(wakeups, "_wake", lambda keys: (heard.append(1), wake(keys))[1])
        async with world.client.pipeline(transaction=False) as pipeline:
            for number in range(1000):
                pipeline.rpush("queue", number)
            await pipeline.execute()
        await until(lambda: asyncio.sleep(0, len(heard) == 1000))
        assert await woken(world) == {"work"}
    assert 1 <= len(marks) < 100


async def test_a_server_that_is_not_there_is_reported(world: World) -> None:
    port = refusing()
    async with running(wakeups_of(world)) as wakeups, world.polling(wakeups=wakeups) as polling:
        await world.apply(scaled_job("work", redis_trigger(port, "queue")))
        await polling.once()
        await until(lambda: asyncio.sleep(0, any(status.detail for status in wakeups.status())))
        [status] = wakeups.status()
    assert (status.server, status.connected) == (f"127.0.0.1:{port}/0", False)
    assert "onnect" in (status.detail or "")


async def test_a_server_without_notifications_is_reported_and_left_as_it_is(
    world: World, port: int, queue: Object, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await world.client.config_set("notify-keyspace-events", "")
    try:
        async with listening(world, queue) as (wakeups, _):
            [status] = wakeups.status()
        unchanged = await world.client.config_get("notify-keyspace-events")
    finally:
        await world.client.config_set("notify-keyspace-events", "KEA")
    assert status == ListenerStatus(
        server=f"127.0.0.1:{port}/0",
        lists=1,
        connected=True,
        notifications="off",
        detail="notify-keyspace-events is ''; with Klszhtg pushes would be seen at once",
    )
    assert unchanged == {"notify-keyspace-events": ""}
    [told] = [record for record in caplog.records if "pushes" in record.message]
    assert (told.source, told.reason) == (status.server, status.detail)  # type: ignore[attr-defined]


async def test_a_server_that_hides_its_configuration_is_listened_to_all_the_same(world: World, port: int) -> None:
    execute: Any = world.client.execute_command
    await execute("ACL", "SETUSER", "shy", "on", ">s3cret", "~*", "&*", "+@all", "-config")
    try:
        trigger = redis_trigger(port, "queue", username="shy", password="s3cret")
        async with listening(world, scaled_job("work", trigger)) as (wakeups, _):
            await world.client.rpush("queue", 1)
            assert await woken(world) == {"work"}
            [status] = wakeups.status()
    finally:
        await execute("ACL", "DELUSER", "shy")
    assert status.notifications == "unknown"


async def test_listening_writes_nothing_to_the_measured_server(world: World, queue: Object) -> None:
    async with listening(world, queue, refresh=60.0):
        started = await world.client.client_id()
        log = await world.client.client_list()
        own = [client["cmd"] for client in log if not client["name"] and int(client["id"]) > started]
    assert own, "there is a connection that listens"
    assert set(own) <= {"subscribe", "config|get", "eval", "evalsha"}


async def test_when_a_password_changes_the_server_is_listened_to_with_the_new_one(real_redis: Redis, port: int) -> None:
    cluster = Cluster()
    cluster.authentication(secretTargetRef=[{"parameter": "password", "name": "login", "key": "pw"}])
    cluster.secret("login", pw="first")
    world = await build(real_redis, lookups=cluster.lookups())
    execute: Any = real_redis.execute_command
    await execute("ACL", "SETUSER", "reader", "on", ">first", "~*", "&*", "+@all")
    try:
        trigger = {**redis_trigger(port, "queue", username="reader"), "authenticationRef": {"name": "login"}}
        async with listening(world, scaled_job("work", trigger)) as (wakeups, polling):
            cluster.secret("login", pw="second")
            cluster.now += 2
            await execute("ACL", "SETUSER", "reader", "resetpass", ">second")
            await kill_measuring(real_redis)
            for error in ("login refused", None):
                await polling.again("work")
                reading = await world.reading("work")
                [sample] = reading.samples
                assert (error or "None") in str(sample.error)
            await connected(wakeups)
            await settled(world)
            await real_redis.rpush("queue", 1)
            assert await woken(world) == {"work"}
    finally:
        await execute("ACL", "DELUSER", "reader")


async def learned(world: World, name: str, port: int) -> Object:
    """An object that another process has polled, and shared."""
    body = scaled_job(name, redis_trigger(port, "queue"))
    await world.apply(body)
    parsed = await world.triggers.parse(ref(name), body)
    await wakeups_of(world).learn({key(name): WaitingObject.of(body, parsed.probes)})
    return body


async def test_an_object_is_forgotten_by_a_process_that_never_knew_it(world: World, port: int) -> None:
    await world.delete(await learned(world, "work", port))
    await learned(world, "other", port)
    await wakeups_of(world).forget([key("work"), key("nothing")])
    assert set(await world.client.hgetall("{test}:wakeups")) == {key("other").encode()}


async def test_forgetting_what_nobody_waits_for_changes_nothing(world: World, port: int) -> None:
    await learned(world, "work", port)
    before = await world.client.get("{test}:wakeups:version")
    await wakeups_of(world).forget([key("nothing")])
    assert await world.client.get("{test}:wakeups:version") == before


async def test_a_refresh_that_failed_is_made_good_by_the_next(
    world: World, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await learned(world, "work", port)
    wakeups = wakeups_of(world)
    with monkeypatch.context() as broken:
        broken.setattr(world.store, "get_many", AsyncMock(side_effect=ConnectionError("away")))
        with pytest.raises(ConnectionError):
            await wakeups.refresh()
    async with running(wakeups):
        await connected(wakeups)


@for_each("a body that nobody can parse", "a key that names no object")
async def test_one_odd_object_ends_no_refresh(
    how: str, world: World, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await learned(world, "odd", port)
    await learned(world, "work", port)
    parse = world.triggers.parse

    async def parsed(of: Ref, body: Object) -> Parsed:
        if of.name == "odd":
            raise KeyError("spec")
        return await parse(of, body)

    if how.startswith("a body"):
        monkeypatch.setattr(world.triggers, "parse", parsed)
    else:
        await world.client.hset("{test}:wakeups", "odd", "uid/1")
        await world.delete(scaled_job("odd"))
    async with running(wakeups_of(world)) as wakeups:
        await connected(wakeups)
