"""The keyed work queue, promise by promise; the property tests cover how the promises mix."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as BrokerAway

from scheduler.keys import Keys
from scheduler.queue import Done, Failed, Lane, Outcome, Postponed, Requeue, RequeueAt, RetryBackoff, Stats
from tests.support.bookings import book
from tests.support.tables import cases, for_each
from tests.unit.scheduler.conftest import Clock

A, B, C = (f"jobs.batch/default/{name}" for name in "abc")

NewLane = Callable[..., Lane]


async def keys_of(lane: Lane, n: int = 100) -> list[str]:
    """Claims what is ready."""
    return [lease.key for lease in (await lane.claim(n)).leases]


async def work_off(lane: Lane, outcome: Outcome, n: int = 100) -> list[str]:
    """Claims what is ready and finishes all of it with one outcome."""
    claim = await lane.claim(n)
    await lane.finish((lease, outcome) for lease in claim.leases)
    return [lease.key for lease in claim.leases]


async def test_a_thousand_marks_are_one_reconcile(lane: Lane) -> None:
    for _ in range(10):
        await lane.mark([A] * 100)
    assert await work_off(lane, Done()) == [A]
    assert await keys_of(lane) == []


async def test_a_thousand_marks_during_a_reconcile_are_one_more(lane: Lane) -> None:
    await lane.mark([A])
    (lease,) = (await lane.claim(1)).leases
    for _ in range(10):
        await lane.mark([A] * 100)
    assert await keys_of(lane) == []
    await lane.finish([(lease, Done())])
    assert await work_off(lane, Done()) == [A]
    assert await keys_of(lane) == []


async def test_more_keys_than_fit_into_one_call_are_all_marked_claimed_and_finished(lane: Lane) -> None:
    keys = [f"jobs.batch/default/{n}" for n in range(9_500)]
    assert (await lane.mark(keys)).ready == len(keys)
    claim = await lane.claim(10_000)
    assert sorted(lease.key for lease in claim.leases) == sorted(keys)
    assert await lane.renew(claim.leases) == frozenset()
    assert (await lane.finish((lease, Done()) for lease in claim.leases)).stale == ()
    stats = await lane.stats()
    assert (stats.ready, stats.leased, stats.later) == (0, 0, 0)


async def test_more_keys_than_fit_into_one_command_are_swept_in_one_call(
    lane: Lane, fake_redis: Redis, clock: Clock
) -> None:
    await book(fake_redis, lane.keys, {f"jobs.batch/default/{n}": clock.seconds for n in range(9_500)})
    assert (await lane.sweep(10_000)).moved == 9_500
    assert (await lane.stats()).ready == 9_500


async def test_a_key_that_is_due_does_not_wait_behind_a_namespace_with_thousands(
    lane: Lane, fake_redis: Redis, clock: Clock
) -> None:
    crowd, others = [f"jobs.batch/crowd/{n}" for n in range(2_000)], ["jobs.batch/a/x", "jobs.batch/z/x"]
    due = dict.fromkeys([*crowd, *others], clock.seconds)
    await book(fake_redis, lane.keys, {**due, "jobs.batch/m/later": clock.seconds + 1})
    clock.forward(2)
    moved, found = 0, set[str]()
    while swept := (await lane.sweep(100)).moved:
        if not moved:
            claimed = [lease.key for lease in (await lane.claim(100)).leases]
            assert {*others, "jobs.batch/m/later"} < set(claimed)
            found.update(claimed)
        moved += swept
    assert moved == 2_003
    found.update(lease.key for lease in (await lane.claim(5_000)).leases)
    assert found == {*crowd, *others, "jobs.batch/m/later"}


async def test_a_wait_grows_with_each_failure_in_a_row_to_the_cap_and_success_resets_it(
    lane: Lane, clock: Clock
) -> None:
    waits = []
    await lane.mark([A])
    for _ in range(8):
        assert await work_off(lane, Failed("no")) == [A]
        due = (await lane.sweep()).next
        assert due is not None
        waits.append(due - clock.seconds)
        clock.now = round(due * 1e6)
        await lane.sweep()
    assert waits == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60])

    await work_off(lane, Done())
    await lane.mark([A])
    (lease,) = (await lane.claim(1)).leases
    assert (lease.failures, lease.reason) == (0, None)


async def test_a_key_that_was_not_worked_on_keeps_its_failures_and_comes_back_when_it_was_told(
    lane: Lane, clock: Clock
) -> None:
    await lane.mark([A])
    await work_off(lane, Failed("no"))
    clock.forward(1)
    await lane.sweep()
    await work_off(lane, Postponed(0.5))
    clock.forward(0.5)
    await lane.sweep()
    (lease,) = (await lane.claim(1)).leases
    assert (lease.failures, lease.reason) == (1, "no")


async def test_a_wait_is_shortened_by_chance_and_never_by_more_than_the_jitter(fake_redis: Redis, clock: Clock) -> None:
    lane = Lane(fake_redis, "jittery", Keys("test"), backoff=RetryBackoff(base=10, cap=60, jitter=0.5), clock=clock)
    await lane.open()
    keys = [f"jobs.batch/default/{n}" for n in range(50)]
    await lane.mark(keys)
    await work_off(lane, Failed("no"))
    waits = [at / 1e6 - clock.seconds for _, at in await fake_redis.zrange(lane.keys.all()[3], 0, -1, withscores=True)]
    assert len(set(waits)) > 25
    assert all(5 <= wait <= 10 for wait in waits)


async def test_the_reason_of_a_failure_travels_with_the_next_claim(lane: Lane, clock: Clock) -> None:
    await lane.mark([A])
    await work_off(lane, Failed("422: spec.template: Required value — ü"))
    clock.forward(1)
    await lane.sweep()
    (lease,) = (await lane.claim(1)).leases
    assert (lease.failures, lease.reason) == (1, "422: spec.template: Required value — ü")


async def test_a_key_that_kills_its_holders_waits_for_longer_each_time(lane: Lane, clock: Clock) -> None:
    await lane.mark([A])
    rests = []
    for _ in range(6):
        assert await keys_of(lane) == [A]
        clock.forward(10)
        due = (await lane.sweep()).next
        rests.append(0 if due is None else due - clock.seconds)
        clock.forward(rests[-1])
        await lane.sweep()
    # 1, 2, 4 and 8 seconds are over before the lease of 10 is; 16 and 32 are not.
    assert rests == pytest.approx([0, 0, 0, 0, 6, 22])
    (lease,) = (await lane.claim(1)).leases
    assert lease.failures == 6
    assert clock.now - lease.expired == 22_000_000
    assert lease.reason == f"the lease expired at {lease.expired}: its holder died or stood still"


async def test_a_new_keyspace_is_closed_until_every_holder_from_before_must_be_dead(
    new_lane: NewLane, clock: Clock
) -> None:
    lane = new_lane(lease=10)
    await lane.mark([A])
    claim = await lane.claim(1)
    assert (claim.leases, claim.opens) == ((), 10.0)
    clock.forward(9.999)
    assert (await lane.claim(1)).leases == ()
    clock.forward(0.001)
    claim = await lane.claim(1)
    assert (len(claim.leases), claim.opens) == (1, None)


async def test_a_claim_has_the_time_of_the_broker(fake_redis: Redis) -> None:
    lane = Lane(fake_redis, "reconcile", Keys("test"))
    await lane.open()
    times = [await fake_redis.time(), (await lane.claim(1)).now, await fake_redis.time()]
    before, now, after = (each if isinstance(each, int) else each[0] * 1_000_000 + each[1] for each in times)
    assert before <= now <= after


async def test_of_several_leases_those_that_are_lost_are_told(lane: Lane) -> None:
    await lane.mark([A, B, C])
    first, second, third = (await lane.claim(3)).leases
    await lane.finish([(second, Done())])
    assert await lane.renew([first, second, third]) == {second}


async def test_a_flush_closes_an_open_lane_and_refuses_what_old_holders_say(
    lane: Lane, clock: Clock, fake_redis: Redis
) -> None:
    await lane.mark([A])
    (old,) = (await lane.claim(1)).leases
    await fake_redis.flushall()
    await lane.mark([A])
    assert await keys_of(lane) == []
    assert await lane.renew([old]) == {old}
    assert (await lane.finish([(old, Done())])).stale == (old,)
    clock.forward(10)
    (new,) = (await lane.claim(1)).leases
    assert new.generation != old.generation
    assert new.token > old.token


async def test_opening_one_lane_leaves_the_others_as_they_are(new_lane: NewLane) -> None:
    reconcile, poll = new_lane("reconcile"), new_lane("poll")
    await reconcile.open()
    await reconcile.mark([A])
    await poll.mark([A])
    assert await keys_of(poll) == []
    await poll.open()
    assert await keys_of(poll) == [A]
    assert await keys_of(reconcile) == [A]


async def test_opening_gives_back_what_a_crash_left_leased(lane: Lane) -> None:
    await lane.mark([A, B])
    await lane.claim(2)
    await lane.mark([A])
    await lane.open()
    claim = await lane.claim(2)
    assert sorted((lease.key, lease.failures) for lease in claim.leases) == [(A, 0), (B, 0)]
    await lane.finish((lease, Done()) for lease in claim.leases)
    assert await keys_of(lane) == []


async def test_claims_that_find_nothing_close_nothing(lane: Lane) -> None:
    assert await keys_of(lane) == await keys_of(lane) == []
    await lane.mark([A])
    assert await keys_of(lane) == [A]


async def test_one_call_settles_leases_of_all_outcomes_and_names_the_stale_ones(lane: Lane, clock: Clock) -> None:
    outcomes = [Done(), Requeue(), RequeueAt(clock.seconds + 30), Failed("no")]
    keys = [f"jobs.batch/default/{n}" for n in range(3 * len(outcomes))]
    await lane.mark(keys)
    leases = (await lane.claim(len(keys))).leases
    stale = leases[1::3]
    given = [(replace(lease, token=lease.token - 1) if lease in stale else lease) for lease in leases]
    finished = await lane.finish(zip(given, [outcome for outcome in outcomes for _ in range(3)], strict=True))
    assert [lease.key for lease in finished.stale] == [lease.key for lease in stale]
    stats = await lane.stats()
    assert (stats.ready, stats.later, stats.failing, stats.leased) == (2, 4, 2, len(stale))


async def test_numbers_of_a_lane(lane: Lane, fake_redis: Redis, clock: Clock) -> None:
    await lane.mark([A, B, C])
    clock.forward(3)
    claim = await lane.claim(2)
    await lane.mark([claim.leases[0].key])
    await lane.finish([(claim.leases[1], Failed("no"))])
    await book(fake_redis, lane.keys, {"jobs.batch/default/d": clock.seconds + 5})
    clock.forward(2)
    stats = await lane.stats()
    expected = Stats(
        ready=1, later=2, due=1, leased=1, expired=0, dirty=1, failing=1, notifications=stats.notifications, oldest=5.0
    )
    assert stats == expected


class TestNotifications:
    async def test_one_key_sends_one_notification_and_further_marks_none(self, lane: Lane) -> None:
        assert (await lane.mark([A])).notifications == 1
        assert (await lane.mark([A])).notifications == 0
        assert (await lane.mark([B])).notifications == 0

    async def test_no_more_notifications_are_under_way_than_there_are_slots(self, lane: Lane) -> None:
        keys = [f"jobs.batch/default/{n}" for n in range(500)]
        assert sum([(await lane.mark([key])).notifications for key in keys]) == lane.slots

    async def test_a_consumed_notification_makes_room_for_another(self, lane: Lane) -> None:
        await lane.mark([A])
        claim = await lane.claim(1, notified=True)
        assert (await lane.mark([B])).notifications == 1
        assert (await lane.finish([(claim.leases[0], Done())])).notifications == 0

    async def test_each_consumed_notification_counts_as_one(self, lane: Lane) -> None:
        assert (await lane.mark(f"jobs.batch/default/{n}" for n in range(20))).notifications == 3
        await lane.claim(1, notified=True)
        assert (await lane.stats()).notifications == 2

    async def test_a_notification_stands_for_as_many_keys_as_the_consumers_want(self, lane: Lane) -> None:
        consumers = Lane(lane._client, lane.name, Keys("test"), clock=lane._clock, spread=64)
        assert (await lane.mark(f"jobs.batch/default/{n}" for n in range(24))).notifications == 3
        for _ in range(3):
            await consumers.claim(0, notified=True)
        await consumers.claim(24)
        assert (await lane.mark(f"jobs.batch/other/{n}" for n in range(64))).notifications == 1
        assert (await lane.mark(["jobs.batch/other/64"])).notifications == 1
        await lane.claim(0)
        assert (await lane.mark(f"jobs.batch/another/{n}" for n in range(64))).notifications == lane.slots - 2

    async def test_finishing_rings_for_what_is_left(self, lane: Lane) -> None:
        await lane.mark([A, B])
        claim = await lane.claim(1, notified=True)
        assert (await lane.finish([(claim.leases[0], Done())])).notifications == 1

    async def test_marking_nothing_rings_for_what_is_left(self, lane: Lane) -> None:
        await lane.mark([A, B])
        await lane.claim(1, notified=True)
        assert (await lane.mark([])).notifications == 1

    async def test_a_lost_notification_is_sent_again_after_a_second(self, lane: Lane, clock: Clock) -> None:
        await lane.mark([A])
        clock.forward(0.9)
        assert (await lane.sweep()).notifications == 0
        clock.forward(0.1)
        assert (await lane.sweep()).notifications == 1

    async def test_an_idle_lane_gives_a_new_notification_its_time(self, lane: Lane, clock: Clock) -> None:
        await lane.mark([A])
        await work_off(lane, Done())
        clock.forward(3600)
        await lane.mark([A])
        assert (await lane.sweep()).notifications == 0

    async def test_without_workers_notifications_do_not_pile_up(self, lane: Lane, clock: Clock) -> None:
        await lane.mark([A])
        notified = 0
        for _ in range(600):
            clock.forward(1)
            notified += (await lane.sweep()).notifications
        # Twice as patient each time, up to 32 s: 1, 2, 4, 8, 16, then every 32.
        assert notified == 5 + (600 - 31) // 32

    async def test_without_workers_a_backlog_that_grows_sends_no_more(self, lane: Lane, clock: Clock) -> None:
        keys = (f"jobs.batch/default/{n}" for n in range(1000))
        notified = (await lane.mark(islice(keys, 400))).notifications
        assert notified == lane.slots
        for _ in range(600):
            clock.forward(1)
            notified += (await lane.mark(islice(keys, 1))).notifications
            notified += (await lane.sweep()).notifications
        assert notified == lane.slots + 5 + (600 - 31) // 32
        await lane.claim(8, notified=True)
        assert (await lane.mark([])).notifications == lane.slots, "whoever claims has the others notified at once"

    async def test_a_closed_lane_sends_no_notification(self, new_lane: NewLane, clock: Clock) -> None:
        lane = new_lane(lease=10)
        await lane.claim(1)
        assert (await lane.mark([A])).notifications == 0
        clock.forward(5)
        assert (await lane.sweep()).notifications == 0
        clock.forward(5)
        assert (await lane.sweep()).notifications == 1


@cases(
    ("done", Done(), None),
    ("come back", RequeueAt(1_700_000_030), 30),
    ("requeued", Requeue(), "as booked"),
    ("failed", Failed("no"), 1),
    ("put off", Postponed(30.0), 30),
)
@cases(("no booking", None), ("an earlier booking", 20), ("a later booking", 50))
async def test_an_outcome_replaces_a_booking_unless_it_only_asks_for_another_turn(
    booked: int | None, outcome: Outcome, due: int | str | None, lane: Lane, clock: Clock
) -> None:
    await lane.mark([A])
    if booked:
        await work_off(lane, RequeueAt(clock.seconds + booked))
        await lane.mark([A])
    await work_off(lane, outcome)
    found = (await lane.sweep()).next
    assert (found and found - clock.seconds) == (booked if due == "as booked" else due)


@for_each(False, True)
async def test_marks_made_during_a_lease_are_news_once(expires: bool, lane: Lane, clock: Clock) -> None:
    await lane.mark([A])
    (lease,) = (await lane.claim(1)).leases
    await lane.mark([A])
    if expires:
        clock.forward(10)
        await lane.sweep()
    else:
        await lane.finish([(lease, Done())])
    assert await work_off(lane, Done()) == [A]
    assert await keys_of(lane) == []


async def test_the_answers_of_calls_are_kept_for_one_lease(new_lane: NewLane, fake_redis: Redis) -> None:
    # So long that the time of the test is nothing against it.
    lane = new_lane(lease=1e6)
    await lane.open()
    await lane.mark([A])
    await work_off(lane, Done())
    kept = await fake_redis.keys(lane.keys.call("*"))
    assert [1e6 - 500 < await fake_redis.pttl(key) / 1000 <= 1e6 for key in kept] == [True, True]


class Flaky:
    """A client whose broker carries a call out and then cannot say so."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def evalsha(self, *args: Any) -> Any:
        await self._client.evalsha(*args)
        raise BrokerAway("connection reset")

    async def script_load(self, *args: Any) -> Any:
        return await self._client.script_load(*args)


@cases(("done", Done()), ("again", Requeue()), ("come back", RequeueAt(2e9)), ("failed", Failed("no")))
async def test_an_outcome_that_is_settled_twice_counts_once(
    outcome: Outcome, lane: Lane, fake_redis: Redis, clock: Clock
) -> None:
    await lane.mark([A])
    (lease,) = (await lane.claim(1)).leases
    flaky = Lane(cast(Redis, Flaky(fake_redis)), "reconcile", Keys("test"), clock=clock)
    with pytest.raises(BrokerAway):
        await flaky.finish([(lease, outcome)])
    before = await lane.stats()
    # A second call of our own, not a replay: it is refused, and nothing is done twice.
    assert (await lane.finish([(lease, outcome)])).stale == (lease,)
    assert await lane.stats() == before


async def test_a_claim_whose_answer_was_lost_comes_back_when_its_lease_is_over(
    lane: Lane, fake_redis: Redis, clock: Clock
) -> None:
    await lane.mark([A])
    flaky = Lane(cast(Redis, Flaky(fake_redis)), "reconcile", Keys("test"), lease=10, clock=clock)
    with pytest.raises(BrokerAway):
        await flaky.claim(1)
    assert await keys_of(lane) == []
    clock.forward(10)
    await lane.sweep()
    assert await keys_of(lane) == [A]


# The broker's clock is set back by an hour.


async def test_a_lane_that_was_to_open_does_so_within_a_lease(new_lane: NewLane, clock: Clock) -> None:
    lane = new_lane()
    await lane.claim(1)
    await lane.mark([A])
    await set_back(lane, clock)
    assert await keys_of(lane) == []
    clock.forward(10)
    assert await keys_of(lane) == [A]


async def test_the_key_of_a_dead_holder_comes_back_within_a_lease(lane: Lane, clock: Clock) -> None:
    await lane.mark([A])
    await lane.claim(1)
    await set_back(lane, clock)
    assert (await lane.sweep()).moved == 0
    clock.forward(10)
    assert (await lane.sweep()).moved == 1


async def test_a_live_holder_keeps_its_key(lane: Lane, clock: Clock) -> None:
    await lane.mark([A])
    claim = await lane.claim(1)
    await set_back(lane, clock)
    clock.forward(9)
    assert (await lane.sweep()).moved == 0
    assert await lane.renew(claim.leases) == frozenset()


async def test_a_backoff_ends_within_its_cap_and_a_booking_at_its_moment(lane: Lane, clock: Clock) -> None:
    await lane.mark([A])
    await work_off(lane, Failed("no", after=50.0))
    await lane.mark([B])
    await work_off(lane, RequeueAt(clock.seconds + 50))
    await set_back(lane, clock)
    clock.forward(60)
    await lane.sweep()
    assert await work_off(lane, Done()) == [A]
    clock.forward(3600)
    await lane.sweep()
    assert await keys_of(lane) == [B]


async def test_a_lost_notification_is_replaced_as_ever(lane: Lane, clock: Clock) -> None:
    await lane.mark([A])
    await work_off(lane, Done())
    await lane.mark([A])
    await set_back(lane, clock)
    clock.forward(2)
    assert (await lane.sweep()).notifications == 1


async def test_a_generation_that_was_to_begin_has_begun(lane: Lane, clock: Clock, fake_redis: Redis) -> None:
    await fake_redis.set("{test}:generation", f"of-another-server x {clock.now}")
    await lane.claim(1)
    await set_back(lane, clock)
    await lane.claim(1)
    assert Keys.began(await fake_redis.get("{test}:generation")) == clock.now


async def set_back(lane: Lane, clock: Clock) -> None:
    await lane.sweep()
    clock.forward(-3600)
    await lane.sweep()
