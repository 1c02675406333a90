"""Odd contents of the broker: every part that reads them goes on, what is lost returns, what is set aside is told."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import redis.asyncio as redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.client import beside
from scheduler.broker import clients
from scheduler.keys import TYPES, type_of
from tests.fuzz.broker_world import KEYS, ROUNDS, UID, BrokerWorld, broker_world, channel_keys
from tests.integration.scalers.test_event_jobs import INTAKE, REF

pytestmark = pytest.mark.broker
FEW = settings(
    max_examples=(settings.default.max_examples if settings.default else 100) // 2,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
Dump = dict[bytes, bytes]

TEXTS = st.sampled_from(
    [
        *(b"", b"garbage", b"\xff\xfe\x00", b"-1", b"0", b"1e400", b"nan", b"9" * 400, b"1 []", b"1 {}", b"null"),
        *(b"[]", b"5", b'"x"', b"{", b'{"s":5}', b'{"s":"running","h":[[1]]}', b'{"id":"x","started":"y"}'),
        *(b"5 7 uid-child - - - - 1 00 {}", b"[" * 5000, b"x" * 3_000_000, b" ", b"1-1", b"\n", b"0x10", b"1.5"),
    ]
)
SCORES = st.sampled_from([0.0, -1.0, 1e300, float("inf"), float("-inf"), 0.5])


async def _wrong_type(client: redis.Redis, key: str, text: bytes) -> None:
    kind = await client.type(key)
    await client.delete(key)
    await (client.rpush(key, text) if kind == b"string" else client.set(key, text))


async def _other(client: redis.Redis, key: str, text: bytes, score: float, place: int) -> None:
    """Writes this text somewhere into the key, in the way of its type."""
    match await client.type(key):
        case b"string":
            await client.set(key, text)
        case b"list":
            await client.rpush(key, text)
        case b"set":
            await client.sadd(key, text)
        case b"hash":
            fields = sorted(await client.hkeys(key))
            await client.hset(key, fields[place % len(fields)] if fields else b"x", text)
            if place % 3 == 0:
                await client.hset(key, text, text)
        case b"zset":
            members = await client.zrange(key, 0, -1)
            await client.zadd(key, {text if place % 2 else members[place % len(members)]: score})
        case b"stream":
            await client.xadd(key, {text: text})


async def _half(client: redis.Redis, key: str, place: int) -> None:
    """Takes one entry out."""
    match await client.type(key):
        case b"hash":
            fields = sorted(await client.hkeys(key))
            await client.hdel(key, fields[place % len(fields)])
        case b"zset":
            await client.zpopmin(key)
        case b"set":
            await client.spop(key)
        case b"stream":
            [(id, _), *_] = await client.xrange(key) or [(b"0-1", {})]
            await client.xdel(key, id)
        case _:
            await client.delete(key)


@pytest.fixture(scope="module")
def filled(redis_server: str) -> Dump:
    """The dump of a broker in which every kind of key has content."""

    async def fill() -> Dump:
        async with clients.client(redis_server) as client:
            await client.flushall()
            async with broker_world(client, redis_server) as world:
                await world.fill()
            return {key: await client.dump(key) or b"" async for key in client.scan_iter()}

    return asyncio.run(fill())


def test_every_kind_of_key_is_changed(filled: Dump) -> None:
    names = {key.decode() for key in filled}
    assert {type_of(name) for name in names} >= set(TYPES.values())
    lacking = set(channel_keys()) - names
    assert not lacking


CHANGES = st.one_of(
    st.tuples(st.just("wrong type"), TEXTS),
    st.tuples(st.just("other"), TEXTS, SCORES, st.integers(0, 30)),
    st.tuples(st.just("half"), st.integers(0, 30)),
    st.tuples(st.just("gone")),
)
HOW: dict[str, Any] = {
    "wrong type": _wrong_type,
    "other": _other,
    "half": _half,
    "gone": lambda client, key: client.delete(key),
}


async def _stored(client: redis.Redis, dump: Dump) -> None:
    await client.flushall()
    pipeline = client.pipeline(transaction=False)
    for key, value in dump.items():
        pipeline.restore(key, 0, value)
    await pipeline.execute()


#: What every record has.
_PLAIN = frozenset(vars(logging.makeLogRecord({})))


def _is_waiting_list(key: bytes) -> bool:
    """Returns whether a lane hands out keys from this one."""
    return b":lane:" in key and key.endswith((b":ready", b":later", b":leases"))


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Collects what is logged as a warning or worse: message and further fields, as text."""
    lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # As a log shows it: the repr of what is a repr already would hide names behind doubled backslashes.
            more = (f"{name}={value}" for name, value in vars(record).items() if name not in _PLAIN)
            lines.append(" ".join((record.getMessage(), *more)))

    collector = Collector(logging.WARNING)
    logging.getLogger().addHandler(collector)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(collector)


async def _set_aside(client: redis.Redis, changes: Sequence[tuple[bytes, Any]], parked: int) -> Sequence[str]:
    """Returns the name of everything that is no longer where it was written, because it could not be read.

    Those are keys of a wrong type, stored objects, entries of a channel that are no events, and keys of a lane that
    name no object. parked: entries that were parked before.
    """
    names = [key.decode().partition(":unreadable:")[0] async for key in client.scan_iter("*:unreadable:*")]
    aside = f"{KEYS.tag}:unreadable"
    if await client.type(aside) == b"hash":
        names += [field.decode().partition("/")[2] for field in await client.hkeys(aside)]
    lanes = [key for key in [key async for key in client.scan_iter()] if _is_waiting_list(key)]
    held = [key async for key in client.scan_iter("*:leased")]
    for key, (how, *words) in changes:
        if how != "other" or not _is_waiting_list(key) or not words[2] % 2:
            continue
        kept = [each for each in lanes if await client.type(each) == b"zset"]
        scores = [await client.zscore(each, words[0]) for each in kept]
        scores += [await client.hget(each, words[0]) for each in held if await client.type(each) == b"hash"]
        if not any(score is not None for score in scores):
            names.append(repr(words[0])[2:-1][:80])
    if await _parked(client) > parked:
        names.append(INTAKE)
    return names


async def _parked(client: redis.Redis) -> int:
    key = beside(INTAKE, "parked")
    return int(await client.xlen(key)) if await client.type(key) == b"stream" else 0


def test_no_content_stops_anything_and_what_is_set_aside_is_told(filled: Dump, redis_server: str) -> None:
    # Data whose format is no known number are left alone: what they say is not ours to mend.
    keys = sorted(key for key in filled if not key.endswith(b":format"))
    found: list[str] = []

    @FEW
    @given(st.lists(st.tuples(st.sampled_from(keys), CHANGES), min_size=1, max_size=3))
    def goes_on(changes: list[tuple[bytes, Any]]) -> None:
        async def scenario() -> None:
            async with clients.client(redis_server) as client:
                await _stored(client, filled)
                made = []
                for key, (how, *words) in changes:
                    # What an earlier change removed cannot be changed, and one of a key may undo another.
                    if await client.exists(key) and key not in dict(made):
                        await HOW[how](client, key.decode(), *words)
                        made.append((key, (how, *words)))
                parked = await _parked(client)
                with _logged() as lines:
                    async with broker_world(client, redis_server) as world:
                        await recovered(world, changes)
                    said = "\n".join((*lines, *world.told))
                names = await _set_aside(client, made, parked)
                found.extend(names)
                untold = [name for name in names if name not in said]
                assert not untold, (untold, str(changes)[:600], said[:2000])

        asyncio.run(scenario())

    async def recovered(world: BrokerWorld, changes: Sequence[Any]) -> None:
        for _ in range(ROUNDS):
            faults = await world.round()
            assert not faults, (faults, str(changes)[:600])
            if await world.recovered():
                return
        raise AssertionError(f"the ScaledJob was not decided on: {str(changes)[:600]}")

    goes_on()
    assert found, "nothing was set aside: this says nothing about what is told"


async def _told(client: redis.Redis, url: str, changes: Sequence[Any]) -> tuple[Sequence[str], str]:
    """Lets everything work on what the broker holds. Returns what was set aside, and what was told."""
    parked = await _parked(client)
    with _logged() as lines:
        async with broker_world(client, url) as world:
            for _ in range(ROUNDS):
                assert not await world.round()
        said = "\n".join((*lines, *world.told))
    return await _set_aside(client, changes, parked), said


async def test_every_key_of_a_wrong_type_is_told(filled: Dump, redis_server: str) -> None:
    # What is read by listing or not at all (answers of past calls, signs of life), and what says which data these are.
    unread = (":call:", ":present:", ":format", ":generation")
    names = [name for name in map(bytes.decode, filled) if type_of(name) and not any(each in name for each in unread)]
    async with clients.client(redis_server) as client:
        await _stored(client, filled)
        for name in names:
            await _wrong_type(client, name, b"garbage")
        aside, said = await _told(client, redis_server, ())
        kept = {name for name in names if ":deliveries:" in name}
        assert len(kept) > 10
        assert set(aside) == set(names) - kept, "deliveries exist nowhere else: they stay where they are"
        assert [name for name in aside if name not in said] == []
        # Many names in one message are cut.
        assert sum(name in said for name in kept) >= 3


async def test_every_entry_that_cannot_be_read_is_told(filled: Dump, redis_server: str) -> None:
    changes: list[tuple[bytes, Any]] = [
        (key, ("other", b"garbage of " + key, 0.0, 1)) for key in filled if _is_waiting_list(key)
    ]
    fields = {
        f"{KEYS.tag}:readings": REF.key,
        f"{KEYS.tag}:orders": REF.key,
        KEYS.beat("runs"): "entry",
        f"{KEYS.tag}:deliveries:{UID}:records": "",
    }
    async with clients.client(redis_server) as client:
        await _stored(client, filled)
        for name, field in fields.items():
            for each in [field] if field else await client.hkeys(name):
                await client.hset(name, each, b"garbage")
        for key, (how, *words) in changes:
            await HOW[how](client, key.decode(), *words)
        await client.xadd(INTAKE, {b"garbage": b"garbage"})
        aside, said = await _told(client, redis_server, changes)
        assert {*aside} >= {*(f"garbage of {key.decode()}" for key, _ in changes), INTAKE}
        assert [name for name in aside if name not in said] == []
        for what, name in (("reading", REF.key), ("order", REF.key), ("last run", "entry"), ("delivery", "'")):
            assert any(f"{what} that cannot be read" in line and name in line for line in said.splitlines()), what
