"""Observe, decide, act: what is decided on, and what becomes of the key afterwards."""

import asyncio
import time
from datetime import timedelta

from redis.exceptions import ConnectionError as BrokerAway

from scheduler.queue import Done
from tests.support.conditions import eventually
from tests.support.tables import cases, for_each
from tests.unit.workers.acting import OWNER, owned
from tests.unit.workers.reconciling import NOON
from workers.api.kinds import JOB, SCALED_JOB
from workers.decision.limits import LimitReservation
from workers.decision.plan import NOTHING, ComeBack, Create, PatchStatus, Plan, Together
from workers.errors import Invalid, Unavailable
from workers.reconcile.act import UNCERTAIN


async def test_no_work_goes_on_after_its_lease_was_given_back_for_another_ones_error(worker, monkeypatch):
    worker = await worker(lambda snapshot, now: Plan((Create(JOB, owned(snapshot.ref.name, snapshot.body)),)))
    worker.cluster.add(SCALED_JOB, {"metadata": {"name": "slow", "namespace": "default"}, "spec": {}})
    await worker.follow()
    slow_is_at_work, may_go_on = asyncio.Event(), asyncio.Event()
    create, finish = worker.cluster.create, worker.lane.finish
    finished = []

    async def creating(kind, body):
        if body["metadata"]["name"] == "slow":
            slow_is_at_work.set()
            await may_go_on.wait()
        return await create(kind, body)

    async def finishing(outcomes):
        finished.append({lease.key: type(outcome) for lease, outcome in outcomes})
        if len(finished) == 1:
            await slow_is_at_work.wait()
            asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, may_go_on.set)
            raise ConnectionError("the broker went away")
        return await finish(outcomes)

    monkeypatch.setattr(worker.cluster, "create", creating)
    monkeypatch.setattr(worker.lane, "finish", finishing)
    await worker.consume()
    key = "scaledjobs.keda.sh/default/slow"
    assert [outcomes[key] for outcomes in finished if key in outcomes] == [Done]


async def test_an_object_that_is_not_ours_is_left_alone(worker):
    worker = await worker(accepts=lambda body: False)
    await worker.lane.mark([OWNER.key])
    await worker.consume()
    assert worker.snapshots == []
    stats = await worker.lane.stats()
    assert (stats.ready, stats.leased, stats.failing) == (0, 0, 0)


@for_each("nonsense", "widgets.example/default/a", "scaledjobs.keda.sh/default/gone")
async def test_keys_that_name_nothing_are_dropped(key, worker):
    worker = await worker()
    await worker.consume()
    await worker.lane.mark([key])
    assert await worker.consume() == 1
    stats = await worker.lane.stats()
    assert (stats.ready, stats.later, stats.leased, stats.failing) == (0, 0, 0, 0)


async def test_a_plan_that_says_when_books_the_key(worker):
    worker = await worker(lambda snapshot, now: Plan((ComeBack(now + timedelta(days=365)),)))
    await worker.consume()
    stats = await worker.lane.stats()
    assert (stats.later, stats.due, stats.failing) == (1, 0, 0)


@cases(("now", timedelta(0)), ("over", timedelta(days=1)))
async def test_a_plan_that_comes_back_now_is_decided_on_again_at_once(late, worker):
    again = iter((True, True, False))
    worker = await worker(lambda snapshot, now: Plan((ComeBack(now - late),)) if next(again) else NOTHING)
    assert await worker.consume() == 3
    stats = await worker.lane.stats()
    assert (len(worker.snapshots), stats.ready, stats.later, stats.failing) == (3, 0, 0, 0)


async def test_a_refused_step_comes_back_with_backoff_and_the_next_decision_gets_the_reason(worker):
    worker = await worker(lambda snapshot, now: Plan((Create(JOB, owned("a", worker.owner)),)))

    worker.cluster.refuse_with(Invalid('Job "a" is invalid: spec.template: Required value', status=422))
    await worker.consume()
    stats = await worker.lane.stats()
    assert (stats.failing, stats.later, stats.ready) == (1, 1, 0)
    await worker.lane.mark([OWNER.key], forgive=False)
    await worker.lane.sweep()
    claim = await worker.lane.claim(1)
    if not claim.leases:
        # Still in its backoff: it is booked, not lost.
        assert (await worker.lane.stats()).later == 1
        return
    assert claim.leases[0].reason == 'Job "a" is invalid: spec.template: Required value'


async def test_a_decision_that_crashes_fails_its_own_key_and_no_other(worker):
    def decide(snapshot, now):
        if snapshot.ref.name == "work":
            raise KeyError("spec")
        return NOTHING

    worker = await worker(decide)
    worker.cluster.add(SCALED_JOB, {"metadata": {"name": "fine", "namespace": "default"}, "spec": {}})
    await worker.follow()
    await worker.consume()
    assert {snapshot.ref.name for snapshot in worker.snapshots} == {"work", "fine"}
    stats = await worker.lane.stats()
    assert (stats.failing, stats.leased) == (1, 0)


async def test_a_key_that_finds_its_namespace_full_keeps_its_failures(worker, monkeypatch):
    def decide(snapshot, now):
        raise KeyError("spec")

    worker = await worker(decide)
    await worker.consume()
    monkeypatch.setattr(worker.reconciler._bulkhead, "full", lambda: {"default"})
    monkeypatch.setattr(worker.reconciler._bulkhead, "comes_back", lambda namespace, now: 0.0)
    # The clock of a process may be wrong: the wait is the broker's.
    worker.reconciler._clock = lambda: NOON + timedelta(days=3650)
    await worker.lane.mark([OWNER.key], forgive=False)
    await eventually(lambda: moved(worker))
    await worker.consume()
    await eventually(lambda: moved(worker))
    (lease,) = (await worker.lane.claim(1)).leases
    assert (lease.failures, lease.reason) == (1, "KeyError: 'spec'")


async def moved(worker):
    return (await worker.lane.sweep()).moved


STAGE = Together((Create(JOB, owned("a", {"metadata": {"name": "work", "uid": "u"}})),), meanwhile=())


@cases(
    ("a server that is away", Unavailable("no route to host"), PatchStatus({"a": 1}), True),
    ("a refusal", Invalid("Required value", status=422), PatchStatus({"a": 1}), False),
    ("a refusal that nothing else waits for", Invalid("Required value", status=422), STAGE, True),
)
async def test_only_what_may_be_over_at_any_moment_is_tried_again_soon(error, step, soon, worker):
    worker = await worker(lambda snapshot, now: Plan((step,)))
    worker.lane._base = worker.lane._cap = 3600 * 1_000_000
    worker.cluster.refuse_with(error)
    await worker.consume()
    swept = await worker.lane.sweep()
    assert (swept.next - time.time() < 60) is soon


@cases(
    ("a create", lambda owner: Plan((Create(JOB, owned("a", owner)),)), True),
    ("one of several", lambda owner: Plan((Together((Create(JOB, owned("a", owner)),), meanwhile=()),)), True),
    ("no create", lambda owner: Plan((PatchStatus({"a": 1}),)), False),
)
async def test_what_may_have_been_made_when_the_time_was_over_is_waited_for(plan, waits, worker, monkeypatch):
    """A fresh reading before that could make the same Job under another name."""
    worker = await worker(lambda snapshot, now: plan(worker.owner))
    worker.reconciler._deadline = 0.01

    async def stuck(*args, **options):
        await asyncio.Event().wait()

    monkeypatch.setattr(worker.cluster, "create", stuck)
    monkeypatch.setattr(worker.cluster, "patch", stuck)
    await worker.consume()
    swept = await worker.lane.sweep()
    # A backoff that is over already leaves nothing booked.
    assert ((swept.next or 0) - time.time() > UNCERTAIN - 5) is waits
    await worker.lane.mark([OWNER.key], forgive=True)
    assert ((await worker.lane.stats()).ready == 0) is waits, "a change of the object does not end the wait"


@cases(
    ("a create", lambda owner: Plan((Create(JOB, owned("a", owner)),)), True),
    ("no create", lambda owner: Plan((PatchStatus({"a": 1}),)), False),
)
async def test_what_was_made_and_could_not_be_stored_is_waited_for(plan, waits, worker, monkeypatch):
    """The store may lack the Job when the next reading asks for one."""
    worker = await worker(lambda snapshot, now: plan(worker.owner))

    async def away(*args, **options):
        raise BrokerAway("connection refused")

    monkeypatch.setattr(worker.store, "write_through", away)
    await worker.consume()
    assert await worker.children() == {}
    swept = await worker.lane.sweep()
    assert ((swept.next or 0) - time.time() > UNCERTAIN - 5) is waits


class Answering:
    """Limits that allow so many Jobs, and what they were asked."""

    def __init__(self, allowed):
        self.allowed = allowed
        self.asked = []

    async def ask(self, snapshot, reservation):
        self.asked.append(reservation)
        return self.allowed


def within_limits(snapshot, now):
    if snapshot.allowance is None:
        return Plan(reservation=LimitReservation((), 1, 4))
    return Plan((PatchStatus({"allowed": snapshot.allowance}),), "decided within limits")


async def test_a_decision_that_asks_for_a_reservation_is_made_anew_with_the_answer(worker):
    answering = Answering(3)
    worker = await worker(within_limits, reservations=answering)
    await worker.consume()
    assert answering.asked == [LimitReservation((), 1, 4)]
    assert [snapshot.allowance for snapshot in worker.snapshots] == [None, 3]
    assert worker.cluster.objects[OWNER]["status"] == {"allowed": 3}


async def test_where_no_limits_are_kept_the_key_fails_and_nothing_is_done(worker):
    worker = await worker(within_limits)
    await worker.consume()
    assert "status" not in worker.cluster.objects[OWNER]
    assert (await worker.lane.stats()).failing == 1
