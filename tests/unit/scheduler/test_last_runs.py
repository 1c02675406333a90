"""Last runs of periodic entries in a broker that lost or broke them."""

from dataclasses import replace

from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.last_runs import LastRuns, RunLease
from tests.support.tables import cases

RUNS = "{test}:beat:runs"


@cases(
    ("the one that the caller knows", "200", RunLease),
    ("a later one", "300", 300),
    ("an older one, of a broker that was restored", "100", RunLease),
    ("one that cannot be read", "garbage", RunLease),
    ("one that Lua alone reads", "0x1000", RunLease),
    ("a fraction", "300.5", RunLease),
    ("one still to come, recorded before the clock was set back", str(2**60), RunLease),
    ("none", None, RunLease),
)
async def test_a_run_is_leased_unless_a_later_one_is_known(
    stored: str | None, answer: int | type[RunLease], fake_redis: Redis
) -> None:
    runs = LastRuns(fake_redis, Keys("test"))
    if stored is not None:
        await fake_redis.hset(RUNS, "report", stored)
    lease = await runs.acquire("report", 200)
    if answer is RunLease:
        assert isinstance(lease, RunLease)
        assert await runs.release(lease, 210)
        assert await runs.load({"report": 0}) == {"report": 210}
    else:
        assert lease == answer


async def test_a_last_run_that_cannot_be_read_counts_as_unknown(fake_redis: Redis) -> None:
    await fake_redis.hset(RUNS, "report", "garbage")
    runs = LastRuns(fake_redis, Keys("test"))
    assert await runs.load({"report": 7, "other": 8}) == {"report": 7, "other": 8}
    assert isinstance(await runs.acquire("report", 0), RunLease)


async def test_of_two_beats_one_gets_a_run_until_it_gives_it_back_or_has_emitted_it(fake_redis: Redis) -> None:
    one, other = LastRuns(fake_redis, Keys("test")), LastRuns(fake_redis, Keys("test"))
    lease = await one.acquire("report", 200)
    assert isinstance(lease, RunLease)
    assert await other.acquire("report", 200) is None
    assert not await other.release(replace(lease, id="another"), 210)
    assert await other.acquire("report", 200) is None
    assert await one.release(lease, None)
    lease = await other.acquire("report", 200)
    assert isinstance(lease, RunLease)
    assert await other.release(lease, 210)
    assert await one.acquire("report", 200) == 210
    assert isinstance(await one.acquire("report", 210), RunLease)
