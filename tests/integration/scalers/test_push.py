"""The `push` trigger on a real server: what is accepted, what is parked, dropped or seen before, and what counts."""

import random
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.claimable import ClaimRequest
from scalers.sources.events.intake import OUTCOMES
from scalers.sources.events.push import Push
from tests.integration.scalers.servers import commands
from tests.integration.scalers.test_wakeups import listening, woken
from tests.integration.scalers.world import build, scaled_job
from tests.support.tables import cases
from tests.unit.scalers.sources.test_push_parameters import EVENTS, GOOD
from workers.decision.claims import ClaimOrder
from workers.metrics.process import PUSHED

STREAM = "{penstock}:events:team/orders"
ACCEPTED, PARKED, COUNTS, SEEN = (f"{STREAM}:{part}" for part in ("accepted", "parked", "counts", "seen"))


class Intake:
    """One object's events. client: of those who push."""

    def __init__(self, url: str, client: Redis, connections: Connections, **metadata: str) -> None:
        own = {"namespace": "team", "owner": "orders", "broker": url, "prefix": "penstock"}
        self.scaler = Push.parse(Trigger(0, "push", metadata=metadata, **own))
        self.client = client
        self.connections = connections

    async def push(self, *ids: int, **more: Any) -> None:
        for id_ in ids:
            await self.client.xadd(STREAM, {**GOOD, "id": str(id_), **more})

    async def measure(self) -> Measure:
        (answer,) = await Push.read([self.scaler], self.connections)
        assert isinstance(answer, Measure), answer
        return answer

    async def waiting(self) -> float:
        return (await self.measure()).value

    async def take(self, number: int = 1, consumer: str = "job") -> list[tuple[bytes, dict[bytes, bytes]]]:
        """As a Job does."""
        answer = await self.client.xreadgroup("penstock", consumer, {ACCEPTED: ">"}, count=number)
        return [(entry, fields) for _, entries in answer for entry, fields in entries]

    async def done(self, *entries: bytes) -> None:
        await self.client.xack(ACCEPTED, "penstock", *entries)

    async def counts(self) -> dict[str, int]:
        found = await self.client.hgetall(COUNTS)
        return {name.decode(): int(number) for name, number in found.items()}


@pytest.fixture
def make(redis_url: str, real_redis: Redis, connections: Connections) -> partial[Intake]:
    """Makes the intake with further metadata of its trigger."""
    return partial(Intake, redis_url, real_redis, connections)


@pytest.fixture
def intake(make: partial[Intake]) -> Intake:
    return make()


async def test_an_event_counts_until_it_is_acknowledged(intake: Intake) -> None:
    assert await intake.measure() == Measure(0)
    await intake.push(1, 2, 3, data="x")
    assert await intake.measure() == Measure(3)
    assert await intake.client.xlen(STREAM) == 0, "all of it was taken in"
    first, second = await intake.take(2)
    assert first[1] == {name.encode(): text.encode() for name, text in {**GOOD, "data": "x"}.items()}
    assert await intake.waiting() == 3
    await intake.done(second[0])
    assert await intake.waiting() == 2
    await intake.done(first[0])
    assert await intake.waiting() == 1
    assert await intake.client.xlen(ACCEPTED) == 1, "what is done is not kept"
    (third,) = await intake.take(5)
    await intake.done(third[0])
    await intake.push(4, 5)
    await intake.waiting()
    first, second = await intake.take(2)
    await intake.done(first[0])
    assert await intake.waiting() == 1
    assert await intake.client.xlen(ACCEPTED) == 1, "nor is it before what is in hand"
    await intake.done(second[0])
    assert await intake.waiting() == 0
    assert await intake.client.xlen(ACCEPTED) == 0


async def test_what_jobs_have_taken_can_be_left_out(make: partial[Intake]) -> None:
    intake = make(countTaken="false")
    await intake.push(1, 2, 3)
    assert await intake.waiting() == 3
    await intake.take(2)
    assert await intake.waiting() == 1


async def test_what_jobs_delete_is_done_too(intake: Intake) -> None:
    await intake.push(1, 2, 3)
    await intake.waiting()
    first, second = await intake.take(2)
    await intake.done(second[0])
    await intake.client.xdel(ACCEPTED, second[0])
    assert await intake.waiting() == 2
    await intake.done(first[0])
    await intake.client.xdel(ACCEPTED, first[0])
    assert await intake.waiting() == 1


@cases(EVENTS)
async def test_what_is_no_event_is_parked_with_the_reason(
    event: dict[str, str], complaint: str | None, intake: Intake
) -> None:
    entry = await intake.client.xadd(STREAM, event)  # type: ignore[arg-type]
    assert await intake.waiting() == (complaint is None)
    parked = await intake.client.xrange(PARKED)
    if complaint is None:
        assert not parked
        return
    ((_, fields),) = parked
    assert complaint in fields[b"reason"].decode()
    assert fields[b"entry"] == entry
    kept = {f"field.{name}".encode(): text.encode() for name, text in event.items()}
    assert complaint.startswith(("is larger", "more than")) or kept.items() <= fields.items()
    assert len(fields) <= 102
    assert sum(map(len, fields.values())) < 1 << 20
    assert await intake.counts() == {"parked": 1}


async def test_an_attribute_that_is_there_twice(intake: Intake) -> None:
    fields = [text for pair in GOOD.items() for text in pair]
    await intake.client.execute_command("XADD", STREAM, "*", *fields, "type", "other")
    assert await intake.waiting() == 0
    ((_, parked),) = await intake.client.xrange(PARKED)
    assert parked[b"reason"] == b"type is there twice"


async def test_parked_entries_are_bounded(make: partial[Intake], real_redis: Redis) -> None:
    intake = make(maxParked="2")
    await intake.push(1, 2, 3, time="never")
    assert await intake.waiting() == 0
    assert [fields[b"field.id"] for _, fields in await real_redis.xrange(PARKED)] == [b"2", b"3"]


async def test_an_event_comes_once(intake: Intake) -> None:
    await intake.push(1, 1, 2)
    await intake.push(1, source="/elsewhere")
    assert await intake.waiting() == 3
    for entry, _ in await intake.take(3):
        await intake.done(entry)
    await intake.push(1, 2)
    assert await intake.waiting() == 0, "also when the first is done"
    assert await intake.counts() == {"accepted": 3, "duplicates": 3}


async def test_a_window_without_length_keeps_nothing(make: partial[Intake], real_redis: Redis) -> None:
    for metadata in ({"deduplicationWindow": "0s"}, {"deduplicationLimit": "0"}):
        await real_redis.flushall()
        intake = make(**metadata)
        await intake.push(1, 1)
        assert await intake.waiting() == 2, metadata
        assert not await real_redis.exists(SEEN)


async def test_what_was_seen_is_forgotten_after_the_window(intake: Intake) -> None:
    await intake.push(1)
    assert await intake.waiting() == 1
    ((member, score),) = await intake.client.zrange(SEEN, 0, -1, withscores=True)
    assert 0 < await intake.client.pttl(SEEN) <= 3_600_000
    await intake.client.zadd(SEEN, {member: score - 60_000})
    await intake.push(1)
    assert await intake.waiting() == 1
    assert await intake.client.zscore(SEEN, member) == score - 60_000, "the window begins with the first"
    await intake.client.zadd(SEEN, {member: score - 3_600_001})
    await intake.push(1)
    assert await intake.waiting() == 2


async def test_what_is_remembered_is_bounded(make: partial[Intake], real_redis: Redis) -> None:
    intake = make(deduplicationLimit="2")
    for id_ in (1, 2, 3):
        await intake.push(id_)
        await intake.waiting()
    assert await real_redis.zcard(SEEN) == 2


async def test_what_finds_no_room_is_dropped_and_counted(
    make: partial[Intake], caplog: pytest.LogCaptureFixture
) -> None:
    intake = make(maxEvents="3")
    before = {outcome: PUSHED.labels(outcome)._value.get() for outcome in OUTCOMES}
    await intake.push(*range(5))
    assert await intake.waiting() == 3
    assert await intake.counts() == {"accepted": 3, "dropped": 2}
    assert [PUSHED.labels(outcome)._value.get() - number for outcome, number in before.items()] == [3, 0, 0, 2]
    assert [(record.dropped, record.stream) for record in caplog.records] == [(2, STREAM)]  # type: ignore[attr-defined]
    taken = await intake.take(2)
    await intake.push(5)
    assert await intake.waiting() == 3, "taken is not done"
    await intake.done(*(entry for entry, _ in taken))
    await intake.push(6, 7)
    assert await intake.waiting() == 3
    assert [fields[b"id"] for _, fields in await intake.take(9)] == [b"2", b"6", b"7"]


async def test_pushing_by_script_is_refused_at_the_bound(make: partial[Intake], real_redis: Redis) -> None:
    intake = make(maxEvents="2")
    event = {**GOOD, "data": "x"}
    for id_ in ("1", "2"):
        assert await real_redis.execute_command(*intake.scaler.question.push({**event, "id": id_}))
    with pytest.raises(ResponseError, match="FULL 2 events are waiting"):
        await real_redis.execute_command(*intake.scaler.question.push({**event, "id": "3"}))
    assert await intake.waiting() == 2
    await intake.take(2)
    with pytest.raises(ResponseError, match="FULL"):
        await real_redis.execute_command(*intake.scaler.question.push({**event, "id": "3"}))
    assert await intake.counts() == {"accepted": 2}


async def test_a_large_intake_is_taken_in_pieces(intake: Intake) -> None:
    pipeline = intake.client.pipeline()
    for id_ in range(5000):
        pipeline.xadd(STREAM, {**GOOD, "id": str(id_)})
    await pipeline.execute()
    first = await intake.measure()
    assert (first.value, first.again) == (4000, 0)
    assert await intake.measure() == Measure(5000)


async def test_intakes_are_measured_together(
    make: partial[Intake], real_redis: Redis, connections: Connections
) -> None:
    await real_redis.set("{bad}:accepted", "no stream")
    scalers = [make(stream=name).scaler for name in ("a", "bad", "b", "a")]
    await real_redis.xadd("a", GOOD)  # type: ignore[arg-type]
    before = await commands(real_redis)
    one, bad, other, same = await Push.read(scalers, connections)
    after = await commands(real_redis)
    assert (one, other, same) == (Measure(1), Measure(0), Measure(1))
    assert isinstance(bad, SourceError)
    assert "WRONGTYPE" in str(bad)
    assert after["eval"] - before.get("eval", 0) == 3


async def test_a_pushed_event_wakes_its_object(redis_url: str, real_redis: Redis) -> None:
    world = await build(real_redis)
    world.triggers.broker, world.triggers.prefix = redis_url, "penstock"
    async with listening(world, scaled_job("orders", {"type": "push", "metadata": {}})) as (_, polling):
        await real_redis.xadd(STREAM, GOOD)  # type: ignore[arg-type]
        assert await woken(world) == {"orders"}
        await polling.again("orders")
        reading = await world.reading("orders")
        assert [sample.value for sample in reading.samples] == [1]


async def test_events_can_be_claimed(intake: Intake) -> None:
    await intake.push(1, 1, 2, 3)
    request = ClaimRequest("team/orders", "uid", ClaimOrder(id=1, of="", limit=2))
    found = await intake.scaler.carry_out(request, intake.connections)
    assert (found.waiting, found.applied, len(found.claims)) == (1, True, 2)
    assert [claim.encoding for claim in found.claims] == ["json", "json"]
    assert '"id":"1"' in (found.claims[0].item or "")
    assert await intake.waiting() == 3, "claimed is not done"


async def test_any_order_of_pushing_taking_and_ending_counts_right(make: partial[Intake], real_redis: Redis) -> None:
    """Against a model: which ids were accepted, which of those are taken, and which are done."""
    intake = make(maxEvents="20")
    draw = random.Random(7)
    pushed: list[int] = []
    seen: set[int] = set()
    waiting: list[int] = []
    taken: dict[bytes, int] = {}
    for step in range(600):
        match draw.randrange(6):
            case 0 | 1:
                pushed.append(draw.randrange(150))
                await intake.push(pushed[-1])
            case 2:
                await real_redis.xadd(STREAM, {"nonsense": str(step)})
            case 3:
                for entry, fields in (
                    await intake.take(draw.randrange(1, 4)) if await real_redis.exists(ACCEPTED) else ()
                ):
                    taken[entry] = int(fields[b"id"])
                    waiting.remove(taken[entry])
            case 4 if taken:
                entry = draw.choice(sorted(taken))
                del taken[entry]
                await intake.done(entry)
            case _:
                for id_ in pushed:
                    if len(waiting) + len(taken) < 20 and id_ not in seen:
                        seen.add(id_)
                        waiting.append(id_)
                pushed.clear()
                assert await intake.waiting() == len(waiting) + len(taken), step
    counts = await intake.counts()
    assert min(counts[name] for name in ("accepted", "duplicates", "parked", "dropped")) > 0
    assert counts["accepted"] == len(seen)
