"""Odd contents of the broker: every part that reads them goes on, and what is lost comes again."""

import asyncio
from typing import Any

import pytest
import redis.asyncio as redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.broker import clients
from scheduler.keys import TYPES, type_of
from tests.fuzz.broker_world import ROUNDS, broker_world, channel_keys

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


def test_no_content_stops_anything(filled: Dump, redis_server: str) -> None:
    # Data whose format is no known number are left alone: what they say is not ours to mend.
    keys = sorted(key for key in filled if not key.endswith(b":format"))

    @FEW
    @given(st.lists(st.tuples(st.sampled_from(keys), CHANGES), min_size=1, max_size=3))
    def goes_on(changes: list[tuple[bytes, Any]]) -> None:
        async def scenario() -> None:
            async with clients.client(redis_server) as client:
                await _stored(client, filled)
                for key, (how, *words) in changes:
                    if await client.exists(key):
                        await HOW[how](client, key.decode(), *words)
                async with broker_world(client, redis_server) as world:
                    for _ in range(ROUNDS):
                        faults = await world.round()
                        assert not faults, (faults, str(changes)[:600])
                        if await world.recovered():
                            return
                    raise AssertionError(f"the ScaledJob was not decided on: {str(changes)[:600]}")

        asyncio.run(scenario())

    goes_on()
