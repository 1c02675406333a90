"""Transcripts of lanes: what every script answers and writes, one call after the other."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.queue import ClaimedKeys, Done, Failed, Lane, Outcome, Requeue, RequeueAt
from scheduler.scripts import Script, load
from tests.support.keyspaces import KeyspaceTranscript
from tests.support.tables import for_each
from tests.unit.scheduler.conftest import Clock

A, B, C, D = (f"jobs.batch/default/{name}" for name in "abcd")
ELSEWHERE = "jobs.batch/other/x"


class ToldLane:
    """A lane whose calls are added to a transcript."""

    def __init__(self, lane: Lane, transcript: KeyspaceTranscript) -> None:
        self.lane = lane
        self.transcript = transcript

    async def open(self) -> None:
        await self.lane.open()
        await self.transcript.after("open")

    async def mark(self, *keys: str, priority: int = 0, forgive: bool = False) -> None:
        found = await self.lane.mark(keys, priority=priority, forgive=forgive)
        await self.transcript.after(f"mark {' '.join(keys)} {priority=} {forgive=}", found)

    async def claim(self, n: int = 10, *, notified: bool = False) -> ClaimedKeys:
        found = await self.lane.claim(n, notified=notified)
        await self.transcript.after(f"claim {n} {notified=}", found)
        return found

    async def renew(self, claimed: ClaimedKeys) -> None:
        found = sorted(lease.key for lease in await self.lane.renew(claimed.leases))
        await self.transcript.after("renew", found)

    async def finish(self, claimed: ClaimedKeys, *outcomes: Outcome) -> None:
        found = await self.lane.finish(zip(claimed.leases, outcomes, strict=False))
        await self.transcript.after(f"finish {' '.join(map(str, outcomes))}", found)

    async def sweep(self, limit: int = 1000) -> None:
        await self.transcript.after(f"sweep {limit}", await self.lane.sweep(limit))

    async def stats(self) -> None:
        await self.transcript.after("stats", await self.lane.stats())

    @property
    def now(self) -> float:
        clock = self.lane._clock
        assert clock is not None
        return clock() / 1e6


@pytest.fixture
def transcript(fake_redis: Redis, clock: Clock) -> KeyspaceTranscript:
    return KeyspaceTranscript(
        Path(__file__).parent / "transcripts", fake_redis, clock, "{test}:lane:", "{test}:", "jobs.batch/"
    )


@pytest.fixture
def told(new_lane: Callable[..., Lane], transcript: KeyspaceTranscript) -> ToldLane:
    return ToldLane(new_lane(slots=3), transcript)


async def test_keys_from_a_mark_to_every_outcome(told: ToldLane, clock: Clock, transcript: KeyspaceTranscript) -> None:
    await told.open()
    await told.mark(A, B, ELSEWHERE)
    await told.mark(C, priority=2)
    transcript.note("the same priority moves nothing, a higher one does")
    await told.mark(B, C, priority=2)
    await told.mark(C, priority=99)
    clock.forward(0.5)
    first = await told.claim(2, notified=True)
    second = await told.claim(2)
    await told.mark(A, C, D)
    await told.stats()
    clock.forward(1)
    await told.renew(second)
    await told.finish(first, Done(), Requeue())
    at = RequeueAt(told.now + 50)
    await told.finish(second, at, Failed("no", within=0.5))
    await told.stats()
    await told.finish(second, Done(), Done())
    third = await told.claim(notified=True)
    await told.finish(third, *[Failed("again", after=7)] * len(third.leases))
    transcript.note("a key in backoff is not marked unless it is forgiven")
    await told.mark(B)
    await told.mark(B, forgive=True)
    clock.forward(2)
    await told.sweep(1)
    await told.sweep(1)
    clock.forward(100)
    await told.sweep()
    await told.claim()
    assert transcript.text == transcript.expected("outcomes")


async def test_bookings_and_what_replaces_them(told: ToldLane, clock: Clock, transcript: KeyspaceTranscript) -> None:
    await told.open()
    await told.mark(A, B, C, D)
    await told.finish(await told.claim(), *[RequeueAt(told.now + 5)] * 4)
    transcript.note("a mark leaves the booking, and the outcome decides on it")
    await told.mark(A, B, C, D)
    await told.finish(await told.claim(), Requeue(), RequeueAt(told.now + 60), Done(), Failed("no"))
    clock.forward(3)
    await told.sweep()
    clock.forward(2)
    await told.sweep()
    assert transcript.text == transcript.expected("bookings")


async def test_leases_that_expire(told: ToldLane, clock: Clock, transcript: KeyspaceTranscript) -> None:
    await told.open()
    await told.mark(A, B)
    claimed = await told.claim(1, notified=True)
    clock.forward(5)
    await told.renew(claimed)
    await told.mark(A)
    clock.forward(10)
    await told.sweep()
    await told.renew(claimed)
    await told.finish(claimed, Done())
    for _ in range(5):
        claimed = await told.claim(notified=True)
        await told.renew(claimed)
        clock.forward(10)
        await told.sweep(1)
        await told.sweep(1)
    clock.forward(6)
    await told.sweep()
    assert transcript.text == transcript.expected("expiry")


async def test_notifications_that_are_lost(
    new_lane: Callable[..., Lane], clock: Clock, transcript: KeyspaceTranscript
) -> None:
    told = ToldLane(new_lane(slots=2), transcript)
    await told.open()
    for first, last in ((0, 8), (8, 9), (9, 17)):
        await told.mark(*(f"jobs.batch/default/{number:02}" for number in range(first, last)))
    await told.mark(A)
    for _ in range(10):
        clock.forward(2)
        await told.sweep()
    transcript.note("whoever claims is alive")
    claimed = await told.claim(3, notified=True)
    await told.claim(16, notified=True)
    await told.claim(16, notified=True)
    clock.forward(2)
    await told.sweep()
    await told.finish(claimed, *[Requeue()] * 3)
    clock.forward(2)
    await told.sweep()
    assert transcript.text == transcript.expected("notifications")


@for_each(1, 2)
async def test_a_spread_of_its_own(
    spread: int, fake_redis: Redis, clock: Clock, transcript: KeyspaceTranscript
) -> None:
    lane = Lane(fake_redis, "poll", Keys("test"), lease=10.0, slots=5, spread=spread, clock=clock)
    told = ToldLane(lane, transcript)
    await told.open()
    await told.mark(A, B, C)
    await told.claim(1, notified=True)
    await told.mark(A, B, C, D, ELSEWHERE)
    assert transcript.text == transcript.expected(f"spread-{spread}")


async def test_a_lane_that_lost_data(
    new_lane: Callable[..., Lane], fake_redis: Redis, clock: Clock, transcript: KeyspaceTranscript
) -> None:
    told = ToldLane(new_lane(), transcript)
    transcript.note("a new keyspace is closed for one lease")
    await told.mark(A, B, C)
    await told.claim()
    clock.forward(10)
    claimed = await told.claim(2, notified=True)
    await told.mark(A)
    await told.claim(1)
    lane = told.lane.keys
    transcript.note("without the deadlines")
    await fake_redis.delete(lane.all()[5])
    await told.sweep()
    clock.forward(4)
    await fake_redis.zrem(lane.all()[5], A)
    await told.sweep()
    await told.renew(claimed)
    transcript.note("what was left behind is taken back")
    await fake_redis.delete(lane.all()[5])
    await told.open()
    transcript.note("an older token: data were lost")
    await fake_redis.hset(lane.of("meta"), "token", "5")  # type: ignore[misc]
    await told.claim()
    transcript.note("the run id of another server")
    generation, _, began = (await fake_redis.get("{test}:generation") or b"").split()
    await fake_redis.set("{test}:generation", b" ".join((generation, b"elsewhere", began)))
    clock.forward(1)
    await told.claim()
    await told.open()
    await told.claim()
    transcript.note("nothing is left")
    await fake_redis.flushall()
    await told.claim(notified=True)
    assert transcript.text == transcript.expected("loss")


async def test_calls_whose_answers_were_lost(
    told: ToldLane, fake_redis: Redis, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sends the same call again."""
    await told.open()
    await told.mark(A, B, C, D)

    class Fixed:
        hex = "0" * 32

    monkeypatch.setattr(uuid, "uuid4", Fixed)
    claimed = await told.claim(3)
    told.transcript.note("one of its keys was renewed, one is another holder's")
    renewed, lost, _ = claimed.leases
    clock.forward(1)
    await told.lane.renew([renewed])
    await fake_redis.hset(told.lane.keys.all()[4], lost.key, 7)  # type: ignore[misc]
    await told.claim(3)
    monkeypatch.setattr(Fixed, "hex", "1" * 32)
    await told.finish(claimed, Done(), Requeue(), Failed("no"))
    await told.finish(claimed, Done(), Requeue(), Failed("no"))
    assert told.transcript.text == told.transcript.expected("replays")


async def test_leases_are_taken_back_so_many_at_a_time(told: ToldLane, clock: Clock, fake_redis: Redis) -> None:
    await told.open()
    await told.mark(A, B, C)
    await told.claim()
    keys = ["{test}:generation", *told.lane.keys.all()]
    left = [await Script(load("scheduler", "open"))(fake_redis, keys, [clock.now, 2, "id"]) for _ in range(2)]
    assert left == [1, 0]


async def test_a_key_that_had_to_be_set_aside_begins_a_generation(told: ToldLane, fake_redis: Redis) -> None:
    await told.open()
    await Script(load("scheduler", "lose"))(fake_redis, ["{test}:generation"], ["another"])
    assert (await fake_redis.get("{test}:generation") or b"").startswith(b"another ")


async def test_runs_of_periodic_entries(fake_redis: Redis, transcript: KeyspaceTranscript) -> None:
    acquire, release = (Script(load("scheduler", name)) for name in ("acquire_run", "release_run"))

    async def told(script: Script, name: str, *arguments: str | int) -> None:
        answer = await script(fake_redis, ["{test}:runs", f"{{test}}:lease:{name}"], (name, *arguments))
        await transcript.after(f"{'acquire' if script is acquire else 'release'} {name} {arguments}", answer)

    for name, run in (("report", "210"), ("clean", "")):
        for id in ("one", "one", "other"):
            await told(acquire, name, 200, id, 60_000, 300)
        await told(release, name, "other", run)
        await told(release, name, "one", run)
        await told(release, name, "one", run)
        await told(acquire, name, 200, "other", 60_000, 300)
    await fake_redis.hset("{test}:runs", "odd", "garbage")  # type: ignore[misc]
    await transcript.look()
    await told(acquire, "odd", 200, "one", 60_000, 300)
    transcript.note("the clock was set back since the run that is recorded")
    await told(acquire, "report", 200, "another", 60_000, 205)
    assert transcript.text == transcript.expected("runs")


async def test_one_notification_at_a_time(
    new_lane: Callable[..., Lane], clock: Clock, transcript: KeyspaceTranscript
) -> None:
    told = ToldLane(new_lane(slots=1), transcript)
    await told.open()
    names = [f"jobs.batch/default/{number:02}" for number in range(17)]
    await told.mark(*names)
    claimed = await told.claim(17, notified=True)
    await told.finish(claimed, *[Requeue()] * 17)
    await told.finish(await told.claim(17, notified=True), *[RequeueAt(told.now + 5)] * 17)
    clock.forward(5)
    await told.sweep()
    transcript.note("whoever claimed a second ago is alive, though keys have waited for longer")
    await told.claim(1, notified=True)
    await told.mark()
    clock.forward(20)
    await told.claim(1)
    clock.forward(1)
    await told.sweep()
    assert transcript.text == transcript.expected("slots")
