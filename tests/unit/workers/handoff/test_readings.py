"""The store of readings: what comes back, what a poll without a lease may not do, and marks that cannot get lost."""

import pytest
from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.queue import Done, Finished, Lane, Lease, Requeue, RequeueAt
from tests.support.stored_readings import store_readings
from tests.support.tables import cases, for_each
from workers.decision.snapshot import Reading, TriggerSample
from workers.handoff.readings import Readings, ReadingsStored

KEYS = Keys("test")
WORK = "scaledjobs.keda.sh/team/work"
OTHER = "scaledjobs.keda.sh/team/other"


def reading(id: int = 100, **changes: object) -> Reading:
    fields = {"id": id, "started": id, "generation": 1, "uid": "u1"}
    return Reading(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
async def lane(client: Redis) -> Lane:
    lane = Lane(client, "reconcile", KEYS)
    await lane.open()
    return lane


async def claimed(lane: Lane) -> list[str]:
    return sorted(lease.key for lease in (await lane.claim(10)).leases)


@cases(
    ("without samples", reading()),
    ("with a problem", reading(problem='trigger 0: "ä" is wrong')),
    (
        "with samples",
        reading(
            samples=(
                TriggerSample("s0-redis-a", "redis", 3.5, 2.0, True),
                TriggerSample("s1-redis-b", "redis", error="no"),
            )
        ),
    ),
    ("at today's instants", reading(id=1_790_000_000_123_456, started=1_790_000_000_123_455)),
)
async def test_a_reading_comes_back_as_it_was_stored(stored: Reading, client: Redis, lane: Lane) -> None:
    readings = Readings(client, KEYS)
    await store_readings(readings, {WORK: stored}, lane)
    assert await readings.get_many([OTHER, WORK]) == [None, stored]
    assert await Readings(client, KEYS).get_many([OTHER, WORK]) == [None, stored], "as another process decodes it"


@for_each((99, True), (100, True), (101, False))
async def test_a_reading_from_before_the_broker_lost_data_counts_as_missing(
    began: int, counts: bool, client: Redis, lane: Lane
) -> None:
    here = Readings(client, KEYS)
    await store_readings(here, {WORK: reading(100)}, lane)
    await client.set(KEYS.generation, f"id {began}")
    for readings in (here, Readings(client, KEYS)):
        assert await readings.get_many([WORK]) == [reading(100) if counts else None]


async def test_readings_in_a_broken_entry_count_as_none(
    client: Redis, lane: Lane, caplog: pytest.LogCaptureFixture
) -> None:
    await client.set("{test}:readings", "garbage")
    assert await Readings(client, KEYS).get_many([WORK]) == [None]
    await client.delete(KEYS.generation)
    await client.rpush(KEYS.generation, "garbage")
    assert await Readings(client, KEYS).get_many([WORK]) == [None]
    aside = [getattr(record, "key", "") for record in caplog.records if "set aside" in record.message]
    assert aside == ["{test}:readings", KEYS.generation]


async def polled(client: Redis, *keys: str) -> tuple[Lane, tuple[Lease, ...]]:
    """The lane of polls, and the leases of these keys in it."""
    poll = Lane(client, "poll", KEYS)
    await poll.open()
    await poll.mark(keys)
    return poll, (await poll.claim(len(keys))).leases


async def test_readings_are_handed_over_with_their_leases_in_one_call(
    client: Redis, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll, leases = await polled(client, WORK, OTHER)
    readings = Readings(client, KEYS)
    called: list[str] = []
    evalsha = client.evalsha

    async def count(digest: str, *more: object) -> object:
        called.append(digest)
        return await evalsha(digest, *more)  # type: ignore[misc, arg-type]

    monkeypatch.setattr(client, "evalsha", count)
    # The first call may find the script unknown.
    await readings.hand_over({}, lane, [], poll)
    measured = {lease.key: reading() for lease in leases}
    outcomes = [(lease, RequeueAt(2e9)) for lease in leases]
    stored, finished = await readings.hand_over(measured, lane, outcomes, poll, news={WORK})
    assert len(set(called)) == 1
    assert len(called) <= 2
    assert stored == ReadingsStored(frozenset(), 1)
    assert finished == Finished((), 0)
    assert await readings.get_many([WORK, OTHER]) == [reading(), reading()]
    assert await claimed(lane) == [WORK]
    stats = await poll.stats()
    assert (stats.leased, stats.later) == (0, 2)


async def test_a_lease_that_was_lost_and_a_reading_that_is_old_are_told(client: Redis, lane: Lane) -> None:
    poll, leases = await polled(client, WORK, OTHER)
    readings = Readings(client, KEYS)
    await store_readings(readings, {WORK: reading(200)}, lane)
    await poll.finish([(leases[1], Done())])
    measured = {lease.key: reading(100) for lease in leases}
    stored, finished = await readings.hand_over(measured, lane, [(lease, Done()) for lease in leases], poll)
    assert stored.refused == {WORK}
    assert finished.stale == (leases[1],)


async def test_more_readings_than_one_call_takes_are_handed_over_whole(
    client: Redis, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.handoff.readings.PIECE", 3)
    keys = [f"scaledjobs.keda.sh/team/work-{number}" for number in range(8)]
    poll, leases = await polled(client, *keys)
    readings = Readings(client, KEYS)
    await store_readings(readings, {leases[7].key: reading(200)}, lane)
    await poll.finish([(leases[4], Done())])
    for each in (lane, poll):
        await client.hset(each.keys.of("meta"), mapping={"spread": 1, "notifications": 0})
    measured = {lease.key: reading(100) for lease in leases}
    outcomes = [(lease, Requeue()) for lease in leases]
    stored, finished = await readings.hand_over(measured, lane, outcomes, poll, news=keys)
    assert stored.refused == {leases[7].key}
    assert finished.stale == (leases[4],)
    assert (await poll.stats()).leased == 0
    # Of all calls: one for each key that is ready.
    assert (stored.notifications, finished.notifications) == (7, 7)


async def test_a_reading_that_this_process_stored_is_not_decoded_again_until_it_changes(
    client: Redis, lane: Lane
) -> None:
    here, elsewhere, stored = Readings(client, KEYS), Readings(client, KEYS), reading(100)
    await store_readings(here, {WORK: stored}, lane)
    [again] = await here.get_many([WORK])
    assert again is stored
    await store_readings(elsewhere, {WORK: reading(200)}, lane)
    assert await here.get_many([WORK]) == [reading(200)]


async def test_a_process_remembers_its_last_readings_and_forgets_what_it_drops(
    client: Redis, lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.handoff.readings._REMEMBERED", 2)
    readings, stored = Readings(client, KEYS), {key: reading(100) for key in ("first", "second", "third")}
    await store_readings(readings, stored, lane)
    found = dict(zip(stored, await readings.get_many(stored), strict=True))
    assert [key for key in stored if found[key] is stored[key]] == ["second", "third"]
    await readings.drop(["third"])
    await store_readings(Readings(client, KEYS), stored, lane)
    again = dict(zip(stored, await readings.get_many(stored), strict=True))
    assert [key for key in stored if again[key] is stored[key]] == ["second"]


async def test_only_keys_in_news_are_marked(client: Redis, lane: Lane) -> None:
    readings = Readings(client, KEYS)
    stored = await store_readings(readings, {WORK: reading(), OTHER: reading()}, lane, news={OTHER})
    assert stored.refused == frozenset()
    assert stored.notifications == 1
    assert await claimed(lane) == [OTHER]


async def test_a_reading_older_than_the_stored_one_is_refused_and_not_marked(client: Redis, lane: Lane) -> None:
    readings = Readings(client, KEYS)
    await store_readings(readings, {WORK: reading(200)}, lane)
    stored = await store_readings(readings, {OTHER: reading(100), WORK: reading(199)}, lane, news={WORK})
    assert stored.refused == {WORK}
    assert await readings.get_many([WORK, OTHER]) == [reading(200), reading(100)]
    assert await claimed(lane) == []


async def test_the_same_call_again_changes_nothing(client: Redis, lane: Lane) -> None:
    readings = Readings(client, KEYS)
    for _ in range(2):
        stored = await store_readings(readings, {WORK: reading(200)}, lane, news={WORK})
        assert stored.refused == frozenset()
    assert await claimed(lane) == [WORK]


async def test_a_dropped_reading_is_gone(client: Redis, lane: Lane) -> None:
    readings = Readings(client, KEYS)
    await store_readings(readings, {WORK: reading(), OTHER: reading()}, lane)
    await readings.drop([WORK, "never stored"])
    assert await readings.get_many([WORK, OTHER]) == [None, reading()]


async def test_nothing_costs_no_round_trip(real_redis: Redis) -> None:
    lane, readings = Lane(real_redis, "reconcile", KEYS), Readings(real_redis, KEYS)
    before = (await real_redis.info("stats"))["total_commands_processed"]
    assert await readings.get_many([]) == []
    assert await store_readings(readings, {}, lane) == ReadingsStored(frozenset(), 0)
    await readings.drop([])
    assert (await real_redis.info("stats"))["total_commands_processed"] - before == 1


async def test_what_cannot_be_read_counts_as_none(client: Redis, lane: Lane, caplog: pytest.LogCaptureFixture) -> None:
    await client.hset("{test}:readings", mapping={WORK: b"7 {", OTHER: b'7 {"id": 7}'})
    assert await Readings(client, KEYS).get_many([WORK, OTHER]) == [None, None]
    assert [record.key for record in caplog.records] == [WORK, OTHER]  # type: ignore[attr-defined]
    assert caplog.text.count("cannot be read") == 2


async def test_a_missing_reading_is_no_fault(client: Redis, caplog: pytest.LogCaptureFixture) -> None:
    assert await Readings(client, KEYS).get_many([WORK]) == [None]
    assert caplog.records == []


async def test_fields_of_a_later_version_are_ignored(client: Redis, lane: Lane) -> None:
    await client.hset("{test}:readings", WORK, b'7 {"id": 7, "started": 6, "generation": 1, "mood": "good"}')
    assert await Readings(client, KEYS).get_many([WORK]) == [Reading(id=7, started=6, generation=1)]
