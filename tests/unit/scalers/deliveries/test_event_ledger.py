"""The ledger of an EventJob: from the intake to a claim, and from a claim to an end."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
import redis.asyncio as redis
from redis import exceptions

from penstock.client import beside
from penstock.connections import Connections
from penstock.scaler import SourceError
from scalers.claimable import ClaimRequest
from scalers.deliveries import event_ledger
from scalers.deliveries.eventjob_scaler import EventJobScaler
from scalers.sources.events import intake
from scalers.sources.redis.connection import RedisLink
from tests.support.event_jobs import KEYS, MUCH_LATER, PolledEventJob, event_of, spec_of
from tests.support.tables import cases
from workers.decision.claims import ClaimOrder, ClaimSettlement


async def test_an_event_becomes_a_claim_with_the_whole_event(job: PolledEventJob) -> None:
    await job.push("1", data='{"total": 12}', datacontenttype="application/json")
    found = await job.poll(5)
    [claim] = found.claims
    assert orjson.loads(claim.item or "") == event_of("1", data='{"total": 12}', datacontenttype="application/json")
    assert (claim.attempt, claim.encoding, claim.size) == (0, "json", len(claim.item or ""))
    assert found.applied
    assert found.counts is not None
    assert found.counts["running"] == 1
    assert found.last_arrival == int(claim.id.partition("-")[0]) * 1000


async def test_a_poll_without_an_order_takes_events_in_and_claims_nothing(job: PolledEventJob) -> None:
    await job.push("1", "2")
    found = await job.carry_out(None)
    assert (found.waiting, found.claims, found.applied, found.again) == (2.0, (), False, None)


async def test_claims_follow_the_order_of_arrival_up_to_the_limit(job: PolledEventJob) -> None:
    await job.push(*"abcd")
    await job.poll(2)
    assert list(job.claims) == ["a", "b"]
    await job.settle("done", "a", limit=2)
    assert list(job.claims) == ["b", "c"]
    assert await job.ids("done") == ["a"]


async def test_an_event_that_was_seen_is_no_second_delivery(job: PolledEventJob) -> None:
    await job.push("1", "1", "2")
    found = await job.poll()
    assert found.waiting == 2.0


async def test_an_order_is_carried_out_once(job: PolledEventJob) -> None:
    await job.push("1")
    await job.poll(1)
    order = ClaimOrder(50, "events", 1, settlements=(ClaimSettlement(job.claims["1"].id, "returned"),))
    first = await job.carry_out(order)
    again = await job.carry_out(order)
    assert [each.id for each in first.claims] == [each.id for each in again.claims]
    assert not (await job.carry_out(ClaimOrder(49, "events", 5))).applied


async def test_a_returned_event_is_first_again_under_another_claim(job: PolledEventJob) -> None:
    await job.push("1", "2")
    await job.poll(1)
    before = job.claims["1"].id
    await job.settle("returned", "1", limit=1)
    assert list(job.claims) == ["1"]
    assert job.claims["1"].id == f"{before}-1"


async def test_a_retried_event_waits_for_its_time_with_its_next_attempt(job: PolledEventJob) -> None:
    await job.push("1", "2")
    await job.poll(1)
    found = await job.settle("retried", "1", attempt=1, delay=60_000_000, reason="exit 1", limit=1)
    assert list(job.claims) == ["2"]
    assert found.again is not None
    assert 59_990 < found.again <= 60_000
    [retrying] = await job.deliveries.of_event(job.uid, "1")
    assert (retrying.state, retrying.attempts[0].outcome, retrying.attempts[0].job) == ("retrying", "failed", "job-1")
    await job.settle("done", "2")
    await job.client.zadd(KEYS.deliveries(job.uid).of("due"), {retrying.entry: 1})
    await job.poll(1)
    assert job.claims["1"].attempt == 1


async def test_a_parked_event_stays_with_its_reason(job: PolledEventJob) -> None:
    await job.push("1", data="x")
    await job.poll(1)
    found = await job.settle("parked", "1", reason="exit 1", limit=1)
    assert found.claims == ()
    [parked] = await job.deliveries.of_event(job.uid, "1")
    assert (parked.state, parked.reason, parked.data) == ("parked", "exit 1", "x")


ORDERED = spec_of(concurrency={"total": 10, "orderingKey": "event.subject"})


async def test_events_of_one_key_run_one_after_the_other(job: PolledEventJob) -> None:
    job.spec = ORDERED
    await job.push("a1", "a2", subject="a")
    await job.push("b1", subject="b")
    await job.poll(5)
    assert set(job.claims) == {"a1", "b1"}
    await job.settle("retried", "a1", attempt=1, delay=60_000, limit=5)
    assert set(job.claims) == {"b1"}
    await job.deliveries.drop(job.uid, [await job.entry("a1")])
    await job.poll(5)
    assert set(job.claims) == {"a2", "b1"}


async def test_a_parked_event_unblocks_its_key_and_comes_back_behind_the_others(job: PolledEventJob) -> None:
    job.spec = ORDERED
    await job.push("1", "2", "3", subject="a")
    await job.poll(5)
    await job.settle("parked", "1", limit=5)
    assert set(job.claims) == {"2"}
    assert await job.deliveries.replay(job.uid, [await job.entry("1")]) == 1
    await job.settle("done", "2", limit=5)
    assert set(job.claims) == {"3"}
    await job.settle("done", "3", limit=5)
    assert set(job.claims) == {"1"}
    assert job.claims["1"].id.endswith("-2")
    [replayed] = await job.deliveries.of_event(job.uid, "1")
    assert (replayed.replays, len(replayed.attempts), replayed.state) == (1, 1, "running")


async def test_an_event_that_is_delayed_holds_its_key(job: PolledEventJob) -> None:
    job.spec = ORDERED
    await job.push("first", subject="a")
    await job.push("later", subject="a", notbefore=MUCH_LATER)
    await job.push("now", subject="a")
    await job.poll(5)
    found = await job.settle("done", "first", limit=5)
    assert found.claims == ()
    assert found.counts is not None
    assert (found.counts["delayed"], found.counts["waiting"]) == (1, 1)
    assert await job.client.hget(beside(job.intake, "unfinished"), job.uid) == b"2"


async def test_an_event_that_is_put_off_for_too_long_is_parked(job: PolledEventJob) -> None:
    await job.push("later", notbefore=MUCH_LATER)
    await job.push("never", notbefore="3026-01-01T00:00:00Z")
    await job.poll(5)
    assert await job.ids("parked") == ["never"]
    assert await job.ids("delayed") == ["later"]


async def test_a_rate_limit_bounds_the_jobs_that_begin(job: PolledEventJob) -> None:
    await job.push("unlimited")
    await job.poll(1)
    assert await job.client.hget(KEYS.deliveries(job.uid).of("meta"), "full") is None  # type: ignore[misc]
    await job.settle("done", "unlimited")
    job.spec = spec_of(rateLimit={"jobs": 1, "periodSeconds": 3600, "burst": 2})
    await job.push(*"abc")
    found = await job.poll(10)
    assert list(job.claims) == ["a", "b"]
    assert found.again is not None
    assert 3000 < found.again <= 3600
    found = await job.settle("done", "a", "b", limit=10)
    assert found.claims == ()
    job.spec = spec_of(rateLimit={"jobs": 1000, "periodSeconds": 1, "burst": 1000})
    found = await job.poll(10)
    assert found.again is not None
    assert found.again <= 0.001
    while not job.claims:
        await job.poll(10)
    assert list(job.claims) == ["c"]


async def test_nothing_is_claimed_while_too_many_are_parked(job: PolledEventJob) -> None:
    job.spec = spec_of(deadLetter={"limit": 1})
    await job.push("1", "2")
    await job.poll(1)
    found = await job.settle("parked", "1", limit=1)
    assert (found.claims, found.waiting) == ((), 1.0)
    await job.deliveries.drop(job.uid, [await job.entry("1")])
    await job.poll(1)
    assert list(job.claims) == ["2"]


async def test_what_the_filter_does_not_take_is_counted(job: PolledEventJob) -> None:
    job.spec = spec_of(filter={"exact": {"type": "paid"}})
    await job.push("1", "2")
    await job.push("3", type="paid")
    found = await job.poll(5)
    assert list(job.claims) == ["3"]
    assert found.counts is not None
    assert found.counts["filtered"] == 2


async def test_an_expression_that_fails_parks_the_event(job: PolledEventJob) -> None:
    job.spec = spec_of(concurrency={"orderingKey": "event.data.customer"})
    await job.push("1")
    found = await job.poll(5)
    assert found.claims == ()
    [parked] = await job.deliveries.of_event(job.uid, "1")
    assert parked.state == "parked"
    assert parked.reason.startswith("spec.concurrency.orderingKey: ")


async def test_the_key_of_deduplication_makes_duplicates(job: PolledEventJob) -> None:
    job.spec = spec_of(dedup={"key": "event.subject"})
    await job.push("1", "2", subject="same")
    found = await job.poll()
    assert found.counts is not None
    assert (found.waiting, found.counts["duplicates"]) == (1.0, 1)
    remembered = await job.client.pttl(KEYS.deliveries(job.uid).of("seen"))
    window = job.spec.dedup.window_seconds * 1000
    assert window / 2 < remembered <= window


async def test_every_event_job_of_a_channel_gets_every_event(client: redis.Redis) -> None:
    jobs = [PolledEventJob(client, uid=uid) for uid in ("u1", "u2")]
    for job in jobs:
        await job.poll()
    await jobs[0].push("1", "2")
    for job in jobs:
        await job.poll(5)
        assert list(job.claims) == ["1", "2"]
    accepted = beside(jobs[0].intake, "accepted")
    assert await client.xlen(accepted) == 0
    await jobs[0].settle("done", "1")
    assert await jobs[1].ids("running") == ["2", "1"]


async def test_an_accepted_event_stays_until_every_event_job_has_it(client: redis.Redis) -> None:
    jobs = [PolledEventJob(client, uid=uid) for uid in ("u1", "u2")]
    for job in jobs:
        await job.poll()
    await jobs[0].push("1")
    await jobs[0].poll(5)
    assert await client.xlen(beside(jobs[0].intake, "accepted")) == 1


async def test_a_channel_takes_no_more_than_its_limit(job: PolledEventJob) -> None:
    job.spec = spec_of(maxEvents=3)
    await job.push(*"abcde")
    assert (await job.poll()).waiting == 3.0
    await job.poll(1)
    await job.settle("done", "a")
    await job.push(*"fgh")
    assert (await job.poll()).waiting == 3.0


async def test_a_parked_event_is_pushed_to_the_dead_letter_channel_once(job: PolledEventJob) -> None:
    job.spec = spec_of(deadLetter={"channel": "failures"})
    await job.push("1", data="x")
    await job.poll(1)
    order = ClaimOrder(90, "events", 1, settlements=(ClaimSettlement(job.claims["1"].id, "parked", "exit\n1"),))
    await job.carry_out(order)
    await job.carry_out(order)
    dead = PolledEventJob(job.client, uid="u2", channel="failures")
    [claim] = (await dead.poll(5)).claims
    event = orjson.loads(claim.item or "")
    assert (event["type"], event["eventjob"], event["reason"]) == ("dev.penstock.parked", "default/orders", "exit 1")
    assert orjson.loads(event["data"]) == event_of("1", data="x")


async def test_a_dead_letter_channel_without_a_taker_grows_to_a_bound(job: PolledEventJob) -> None:
    job.spec = spec_of(deadLetter={"channel": "failures"})
    failures = KEYS.channel("default", "failures")
    async with job.client.pipeline(transaction=False) as pipeline:
        for _ in range(9_999):
            pipeline.xadd(failures, {"id": "x"})
        await pipeline.execute()
    await job.push("1", "2")
    await job.poll(2)
    await job.settle("parked", "1", "2", limit=2)
    assert sorted(await job.ids("parked")) == ["1", "2"]
    assert await job.client.xlen(failures) == 10_000


async def test_a_parked_event_that_tells_of_one_is_not_pushed_on(job: PolledEventJob) -> None:
    job.spec = spec_of(deadLetter={"channel": "orders"})
    await job.push("1")
    await job.poll(5)
    await job.settle("parked", "1", limit=5)
    await job.poll(5)
    [id] = job.claims
    await job.settle("parked", id, limit=5)
    assert (await job.poll(5)).claims == ()


async def test_done_events_are_kept_up_to_the_limit_of_the_history(job: PolledEventJob) -> None:
    job.spec = spec_of(history={"limit": 2})
    await job.push(*"abc")
    await job.poll(3)
    found = await job.settle("done", *"abc")
    assert found.counts is not None
    assert found.counts["done"] == 3
    assert await job.ids("done") == ["c", "b"]
    assert await job.deliveries.of_event(job.uid, "a") == ()


async def test_done_events_are_kept_for_as_long_as_the_history_says(job: PolledEventJob) -> None:
    job.spec = spec_of(history={"seconds": 3600})
    await job.push(*"abc")
    await job.poll(3)
    await job.settle("done", *"abc")
    await job.client.zadd(KEYS.deliveries(job.uid).of("ended"), {await job.entry("a"): 1})
    await job.poll()
    assert await job.ids("done") == ["c", "b"]


async def test_an_event_that_is_forgotten_leaves_another_one_of_its_id(job: PolledEventJob) -> None:
    job.spec = spec_of(history={"limit": 1})
    for source in ("/one", "/two"):
        await job.push("1", source=source)
    found = await job.poll(2)
    await job.poll(0, *(ClaimSettlement(each.id, "done") for each in found.claims))
    [left] = await job.deliveries.of_event(job.uid, "1")
    assert left.attributes["source"] == "/two"


async def test_another_channel_is_joined_when_the_former_is_empty(job: PolledEventJob) -> None:
    await job.push("1")
    await job.poll()
    await job.push("2")
    await job.client.xadd(beside(job.intake, "accepted"), dict(event_of("2")), id="1900000000000-0")  # type: ignore[arg-type]
    job.channel = "other"
    await job.client.xadd(beside(job.intake, "accepted"), dict(event_of("3")), id="1900000000000-0")  # type: ignore[arg-type]
    await job.poll(5)
    assert list(job.claims) == ["1", "2", "3"]
    assert not await job.client.exists(beside(KEYS.channel("default", "orders"), "accepted"))


async def test_a_spec_that_cannot_be_used_settles_and_takes_nothing(job: PolledEventJob) -> None:
    await job.push("1", "2")
    await job.poll(1)
    job.usable = False
    await job.push("3")
    found = await job.settle("done", "1", limit=5)
    assert (found.claims, found.waiting, found.applied) == ((), 1.0, True)


@cases(("by its poll", False), ("by force", True))
async def test_nothing_is_left_of_an_event_job_that_is_gone(forced: bool, job: PolledEventJob) -> None:
    job.spec = spec_of(deadLetter={"limit": 5}, dedup={"key": "event.id"}, concurrency={"orderingKey": "event.id"})
    await job.push(*"abcd")
    await job.poll(2)
    await job.settle("parked", "a", reason="no", limit=1)
    await job.deliveries.drop(job.uid, [await job.entry("c")])
    if forced:
        await job.deliveries.remove(job.uid)
        assert await job.client.keys() == []
        return
    job.deleting = True
    await job.settle("returned", "b")
    [left] = await job.client.keys()
    assert left.decode() == KEYS.deliveries(job.uid).of("meta")
    assert await job.client.ttl(left) > 0
    job.deleting = False
    late = [await job.carry_out(ClaimOrder(id, "events", 5)) for id in (1, 99)]
    assert [each.applied for each in late] == [False, True]
    assert await job.client.keys() == [left]


async def test_the_last_event_job_of_a_channel_leaves_what_was_not_taken_in(job: PolledEventJob) -> None:
    await job.client.xadd(job.intake, {"no": "event"})
    await job.push("1")
    await job.poll()
    await job.client.hset(beside(job.intake, "unfinished"), "another", "1")
    assert await job.client.xlen(beside(job.intake, "parked")) == 1
    await job.push("2")
    await job.deliveries.remove(job.uid)
    assert await job.client.keys() == [job.intake.encode()]
    assert await job.client.xlen(job.intake) == 1


async def test_a_group_of_jobs_keeps_the_events_that_no_event_job_takes_any_more(job: PolledEventJob) -> None:
    await job.poll()
    accepted = beside(job.intake, "accepted")
    await job.client.xgroup_create(accepted, "jobs")
    await job.client.xadd(accepted, {"id": "1"})
    await job.deliveries.remove(job.uid)
    assert await job.client.xlen(accepted) == 1


async def test_the_events_of_a_channel_outlive_one_of_its_event_jobs(client: redis.Redis) -> None:
    jobs = [PolledEventJob(client, uid=uid) for uid in ("u1", "u2")]
    for job in jobs:
        await job.poll()
    await jobs[0].push("1")
    await jobs[0].poll()
    await jobs[0].deliveries.remove("u1")
    await jobs[1].poll(5)
    assert list(jobs[1].claims) == ["1"]


@cases(("one", "u1", "u2", "u3"), ("another", "u2", "u1", "u3"), ("the third", "u3", "u2", "u1"))
async def test_what_the_slowest_event_job_of_a_channel_has_not_taken_stays(
    slow: str, fast: str, next_: str, client: redis.Redis
) -> None:
    jobs = [PolledEventJob(client, uid=uid) for uid in ("u1", "u2", "u3", "u4")]
    for job in jobs:
        await job.poll()
    accepted = beside(jobs[0].intake, "accepted")
    for entry in ("5-7", "5-8", "9-2", "9-3"):
        await client.xadd(accepted, {"id": entry}, id=entry)
    for uid, taken in ((slow, "5-7"), (fast, "9-2"), (next_, "5-8"), ("u4", "9-3")):
        await client.xgroup_setid(accepted, f"eventjob:{uid}", taken)
    rest = [b"5-8", b"9-2", b"9-3"]
    for gone, left in (("u4", rest), (next_, rest), (slow, [b"9-3"])):
        await jobs[0].deliveries.remove(gone)
        assert [entry for entry, _ in await client.xrange(accepted)] == left


class CountedLink(RedisLink):
    """A link that counts its round trips."""

    trips = 0

    async def run(self, commands: Sequence[Sequence[str | int]]) -> list[Any]:
        self.trips += 1
        return await super().run(commands)


async def test_a_poll_without_news_is_one_round_trip_and_writes_nothing(job: PolledEventJob) -> None:
    await job.push("1")
    order = ClaimOrder(5, "events", 1)
    await job.carry_out(order)
    link = CountedLink(job.client)
    before = {key: await job.client.dump(key) for key in await job.client.keys()}
    await job.ledger.carry_out(link, ClaimRequest("default/orders", job.uid, order))
    assert link.trips == 1
    assert {key: await job.client.dump(key) for key in await job.client.keys()} == before


async def test_of_many_claims_each_has_its_own_event_and_attempt(job: PolledEventJob) -> None:
    names = [f"event-{number}" for number in range(40)]
    await job.push(*names)
    await job.poll(40)
    again = [ClaimSettlement(job.claims[name].id, "returned") for name in names[3:20]]
    again += [ClaimSettlement(job.claims[name].id, "retried", attempt=7) for name in names[20:37]]
    await job.poll(40, *again)
    await job.poll(40)
    whole = job.claims
    assert list(whole) == names
    assert [whole[name].attempt for name in names] == [0] * 20 + [7] * 17 + [0] * 3
    bound = [whole[name].id for name in names[::2]]
    found = await job.poll(40, bound=bound)
    assert [each.id for each in found.claims] == [whole[name].id for name in names]
    assert [each.attempt for each in found.claims] == [whole[name].attempt for name in names]
    items = [None if place % 2 == 0 else whole[name].item for place, name in enumerate(names)]
    assert [each.item for each in found.claims] == items
    assert {each.encoding for each in found.claims} == {"json"}
    known = await job.poll(40, bound=[whole[name].id for name in names])
    assert [each.item for each in known.claims] == [None] * 40


async def test_keys_of_a_wrong_type_are_named_and_left_alone(job: PolledEventJob) -> None:
    await job.push("1")
    await job.poll(1)
    wrong = KEYS.deliveries(job.uid).of("running")
    await job.client.delete(wrong)
    await job.client.set(wrong, "not ours")
    with pytest.raises(SourceError, match=f": {wrong}: WRONGTYPE"):
        await job.poll(1)
    assert await job.client.get(wrong) == b"not ours"


async def test_a_poll_answers_only_so_many_bytes_and_the_rest_follows(
    job: PolledEventJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_ledger, "BUDGET", 2_500)
    await job.push(*"abc", data="x" * 1_000)
    first = await job.poll(3)
    assert [each.item is not None for each in first.claims] == [True, True, False]
    rest = await job.poll(3, bound=[each.id for each in first.claims[:2]])
    assert [each.item is not None for each in rest.claims] == [False, False, True]


class LateLink(RedisLink):
    """Somebody pushes and takes in an event after the channel was read, and before claims are."""

    job: PolledEventJob

    async def run(self, commands: Sequence[Sequence[str | int]]) -> list[Any]:
        if len(commands) != 3 or self.job.spec.max_events == 0:
            return await super().run(commands)
        answers = await super().run(commands[:2])
        if len(await self.job.client.xrange(self.job.intake)) == 0 and not await self.job.client.exists("pushed"):
            await self.job.client.set("pushed", 1)
            await self.job.push("late")
            await super().run(commands[:1])
        return answers + await super().run(commands[2:])


async def test_an_event_that_comes_between_a_read_and_its_claims_is_routed_first(job: PolledEventJob) -> None:
    await job.push("early")
    await job.poll(5)
    link = LateLink(job.client)
    link.job = job
    job.last = await job.ledger.carry_out(link, ClaimRequest("default/orders", job.uid, ClaimOrder(99, "events", 5)))
    assert await job.client.exists("pushed")
    assert list(job.claims) == ["early", "late"]
    assert job.last.applied


async def test_a_wave_is_routed_in_pieces_and_the_rest_follows_at_once(
    job: PolledEventJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_ledger, "BATCH", 3)
    monkeypatch.setattr(event_ledger, "VISITS", 2)
    await job.push(*"abcdefghij")
    found = await job.poll()
    assert (found.again, found.waiting) == (0.0, 9.0)
    found = await job.poll()
    assert (found.again, found.waiting) == (None, 10.0)


async def test_a_large_wave_is_read_in_pieces_of_bytes(job: PolledEventJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_ledger, "BYTES", 100)
    monkeypatch.setattr(event_ledger, "VISITS", 1)
    await job.push("1", "2", "3", data="x" * 100)
    assert (await job.poll()).waiting == 2.0


async def test_a_late_settlement_does_not_meet_a_later_claim_of_its_event(job: PolledEventJob) -> None:
    await job.push("1")
    await job.poll(1)
    late = ClaimSettlement(job.claims["1"].id, "done")
    await job.settle("returned", "1", limit=1)
    await job.poll(1, late)
    assert list(job.claims) == ["1"]
    await job.settle("retried", "1", attempt=1, limit=1)
    await job.poll(1, late)
    assert job.claims["1"].attempt == 1
    assert await job.ids("done") == []


async def test_a_group_that_was_removed_goes_on_where_it_was(client: redis.Redis) -> None:
    jobs = [PolledEventJob(client, uid=uid) for uid in ("u1", "u2")]
    for job in jobs:
        await job.push("1")
        await job.poll()
    accepted = beside(jobs[0].intake, "accepted")
    await client.xadd(accepted, dict(event_of("2")))  # type: ignore[arg-type]
    await client.xgroup_destroy(accepted, "eventjob:u1")
    await jobs[0].poll(5)
    assert list(jobs[0].claims) == ["1", "2"]


async def test_a_full_dead_letter_leaves_events_in_the_channel(job: PolledEventJob) -> None:
    job.spec = spec_of(filter={"cel": "event.data.total > 1"}, deadLetter={"limit": 1})
    await job.push("1")
    await job.poll(5)
    await job.push("2", "3")
    found = await job.poll(5)
    assert (await job.ids("parked"), found.again) == (["1"], None)
    assert await job.client.xlen(beside(job.intake, "accepted")) == 2
    await job.deliveries.drop(job.uid, [await job.entry("1")])
    await job.poll(5)
    assert await job.ids("parked") == ["3", "2"]


async def test_a_channel_is_not_left_with_events_that_arrived_since_it_was_read(job: PolledEventJob) -> None:
    await job.push("1")
    await job.poll()
    await job.client.xadd(beside(job.intake, "accepted"), dict(event_of("2")))  # type: ignore[arg-type]
    call = event_ledger.removal(KEYS.deliveries(job.uid), job.intake, KEYS.channel("default", "other"))
    assert await call.script(job.client, call.keys, call.args) == 0
    job.channel = "other"
    await job.poll(5)
    assert list(job.claims) == ["1", "2"]


async def test_a_broker_without_memory_takes_nothing_in_and_lets_events_end(job: PolledEventJob) -> None:
    await job.push("1", "2")
    await job.poll(1)
    await job.push("3")
    await job.client.config_set("maxmemory", 1)
    try:
        found = await job.settle("done", "1", limit=1)
        assert (list(job.claims), found.counts and found.counts["done"]) == (["2"], 1)
        assert await job.client.xlen(job.intake) == 1
        pushed = job.ledger.intake.push(event_of("4"))
        with pytest.raises(exceptions.OutOfMemoryError):
            await job.client.execute_command(*pushed)
        job.deleting = True
        await job.poll(0)
        await job.settle("returned", "2")
        assert await job.client.exists(KEYS.deliveries(job.uid).of("records")) == 0
    finally:
        await job.client.config_set("maxmemory", 0)


async def test_an_event_that_its_quotes_make_too_large_for_a_job_is_claimed_without_it(
    job: PolledEventJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_ledger, "LARGEST", 300)
    await job.push("1", data='"' * 150)
    await job.push("2", data="x" * 150)
    found = await job.poll(2)
    assert [(each.size > 300, each.item is None) for each in found.claims] == [(True, True), (False, False)]


async def test_one_poll_goes_on_behind_duplicates_that_one_script_takes_in(
    job: PolledEventJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "BATCH", 3)
    await job.push(*["seen"] * 8, "new")
    await job.poll(5)
    assert list(job.claims) == ["seen", "new"]
    await job.settle("done", "seen", "new", limit=5)
    await job.push(*["seen"] * 8, "newer")
    await job.poll(5)
    assert list(job.claims) == ["newer"]


async def test_the_scaler_carries_an_order_out_on_a_connection_to_its_own_broker(job: PolledEventJob) -> None:
    link, connections = RedisLink(job.client), Connections()

    class Broker:
        """Lends a link for these connections alone."""

        @asynccontextmanager
        async def using(self, given: Connections) -> AsyncIterator[RedisLink]:
            assert given is connections
            yield link

    await job.push("1")
    scaler = EventJobScaler.model_construct(broker=Broker(), ledger=job.ledger)
    order = ClaimOrder(1, "events", 1)
    found = await scaler.carry_out(ClaimRequest("default/orders", job.uid, order), connections)
    assert (found.applied, len(found.claims)) == (True, 1)
