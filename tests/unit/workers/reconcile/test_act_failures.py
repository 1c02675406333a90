"""Plans when something refuses: the API server, the broker, or a lease that is lost."""

import asyncio
from contextlib import suppress

import pytest

from scheduler.queue import Done
from tests.support.tables import cases, for_each
from tests.unit.workers.acting import OWNER, ActorRig
from workers.api.kinds import JOB, SCALED_JOB, TRIGGER_AUTHENTICATION, Ref, ref_of
from workers.cache.store import ObjectVersion
from workers.client.concurrency_limit import Bounds
from workers.client.request_limiter import Priority, RequestLimiter, context_of
from workers.decision.claims import ClaimOrder
from workers.decision.plan import Create, Delete, EditList, PatchStatus, Plan, PollNow, RecordEvent, Together
from workers.decision.snapshot import Snapshot
from workers.errors import AlreadyExists, Conflict, Forbidden, Invalid, Throttled, Unavailable
from workers.reconcile.act import MOST_BUSY, SOON, UNCERTAIN
from workers.reconcile.creation_circuit import IN_A_ROW
from workers.runtime.leases import LeaseLost

FAILED = RecordEvent("Warning", "Failed", "{error}")
STATUS = PatchStatus({"a": 1})
BUSY = Unavailable("too many requests", status=429, retry_after=1.0)
QUOTA = Forbidden("exceeded quota", status=403)
NO_NAMESPACE = {"details": {"causes": [{"reason": "NamespaceTerminating"}]}}


@for_each(Conflict, Invalid)
async def test_a_refusal_of_the_object_itself_is_decided_on_afresh(error, rig):
    _, step = await rig.held()
    rig.cluster.refuse_with(error("too many writers at once, or an admission that says no"), verb="patch")
    with pytest.raises(error):
        await rig.act(step)
    assert await rig.children() == {"a": False}


@cases(
    ("forbidden", Forbidden("no", status=403), Forbidden, [("Failed", "no")]),
    ("its namespace is terminating", Forbidden("no", status=403, body=NO_NAMESPACE), Forbidden, []),
    ("a conflict", Conflict("changed", status=409), Conflict, []),
    ("a name that becomes free", AlreadyExists("a is being deleted", status=409), Conflict, []),
)
async def test_an_event_tells_of_a_refusal_but_not_of_one_that_is_expected(error, raised, recorded, rig):
    rig.cluster.refuse_with(error)
    stage = Together((Create(JOB, rig.job("a")),), otherwise=FAILED)
    with pytest.raises(raised):
        await rig.act(stage, RecordEvent("Normal", "Never", "said"))
    assert rig.recorder.records == recorded


async def test_what_changed_since_it_was_observed_is_not_deleted_and_stops_the_plan(rig):
    body = rig.cluster.add(JOB, rig.job("a"))
    ref, uid, version = Ref(JOB, "default", "a"), body["metadata"]["uid"], body["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        await rig.act(Delete(ref, uid, resource_version="an older one"))
    assert ref in rig.cluster.objects
    await rig.act(Delete(ref, uid, resource_version=version))
    assert ref not in rig.cluster.objects


@cases(("the object is the same", True), ("what has the name is not known", False))
async def test_a_deletion_that_is_refused_as_a_conflict_is_decided_on_afresh(readable, rig):
    """Nothing was deleted, so no change of the object would ask for it again."""
    body = rig.cluster.add(JOB, rig.job("a"))
    ref = Ref(JOB, "default", "a")
    rig.cluster.refuse = lambda verb, _ref: (
        Conflict("the storage is busy", status=409) if verb == "delete" else None if readable else Unavailable("away")
    )
    with pytest.raises(Conflict):
        await rig.act(Delete(ref, body["metadata"]["uid"]))
    assert ref in rig.cluster.objects


async def test_a_write_to_an_object_that_changed_meanwhile_is_a_conflict(rig):
    rig.cluster.add(SCALED_JOB, rig.cluster.objects[OWNER])
    with pytest.raises(Conflict):
        await rig.act(PatchStatus({"a": 1}))
    assert rig.cluster.objects[OWNER]["status"] == {}


async def test_after_the_first_refusal_nothing_new_is_started_and_both_halves_are_recorded(rig):
    rig.cluster.refuse = lambda _verb, ref: QUOTA if ref.name >= "j4" else None
    stage = Together(
        rig.jobs(9),
        then=RecordEvent("Normal", "KEDAJobsCreated", "Created {done} jobs"),
        otherwise=RecordEvent("Warning", "KEDAJobCreateFailed", "Failed: {error}"),
    )
    with pytest.raises(Forbidden):
        await rig.act(stage, PatchStatus({"a": 1}))
    assert rig.recorder.records == [
        ("KEDAJobsCreated", "Created 4 jobs"),
        ("KEDAJobCreateFailed", "Failed: exceeded quota"),
    ]
    # Four in flight: at most those four were refused, and the status was not written.
    assert len(rig.cluster.log) <= 8
    assert rig.cluster.objects[OWNER]["status"] == {}


@cases(
    ("too many requests", Unavailable("too many requests", status=429), True),
    ("a webhook fails", Unavailable("a webhook failed", status=500), True),
    ("a conflict", Conflict("the name is being deleted", status=409), True),
    ("a quota", Forbidden("exceeded quota", status=403), True),
    ("the namespace is going", Forbidden("no", status=403, body=NO_NAMESPACE), False),
    ("nobody answers", Unavailable("no route to host"), False),
)
async def test_a_refusal_that_says_nothing_of_the_others_keeps_nothing_else_waiting(error, goes_on, rig, monkeypatch):
    monkeypatch.setattr("workers.reconcile.act.REPEATS", ())
    rig.cluster.refuse_with(error, name="j0")
    stage = Together(rig.jobs(9), meanwhile=(PatchStatus({"a": 1}), RecordEvent("Normal", "Others", "go on")))
    with pytest.raises(type(error)) as raised:
        await rig.act(stage, RecordEvent("Normal", "Never", "said"))
    assert raised.value.within == SOON
    assert ({"j8"} <= set(await rig.children())) is goes_on
    assert rig.cluster.objects[OWNER]["status"] == {"a": 1}
    assert rig.recorder.records == [("Others", "go on")]


async def test_of_many_refusals_only_some_are_recorded(rig):
    rig.cluster.refuse = lambda _verb, ref: Forbidden(f"{ref.name} is forbidden", status=403)
    with pytest.raises(Forbidden):
        await rig.act(Together(rig.jobs(9), otherwise=FAILED, meanwhile=()))
    assert len(rig.cluster.log) == 9
    assert len(rig.recorder.records) == rig.actor.in_flight


@cases(
    ("before the next write", 1, None, lambda rig: rig.jobs(2), ["j0"]),
    ("what would go on meanwhile", 1, None, lambda rig: (Together(rig.jobs(9), meanwhile=(STATUS,)),), ["j0"]),
    (
        "beside a refusal",
        2,
        "j0",
        lambda rig: (Together(rig.jobs(4), meanwhile=(RecordEvent("Normal", "Others", "go on"),)),),
        ["j0", "j1"],
    ),
    (
        "what is not vital",
        0,
        None,
        lambda rig: (Together((Delete(Ref(JOB, "default", "j0"), "u"),), vital=False), STATUS),
        [],
    ),
    ("an order", 0, None, lambda _rig: (PollNow(ClaimOrder(id=7, of="ledger", limit=3)),), []),
)
async def test_a_lost_lease_stops_the_plan(checks, refused, steps, written, rig):
    if refused:
        rig.cluster.refuse_with(QUOTA, name=refused)
    rig.lost_after = checks
    with pytest.raises(LeaseLost):
        await rig.act(*steps(rig))
    assert [name for _, name in rig.cluster.log] == written
    assert rig.cluster.objects[OWNER]["status"] == {}
    assert rig.recorder.records == []
    assert await rig.actor.orders.get_many([OWNER.key]) == [None]


async def test_an_unexpected_error_is_not_hidden_by_a_refusal(rig):
    rig.cluster.refuse = lambda _verb, ref: QUOTA if ref.name == "j0" else TypeError("a mistake")
    with pytest.raises(TypeError):
        await rig.act(Together(rig.jobs(4), meanwhile=()))


@cases(
    ("it may have been made", Unavailable("no route to host"), UNCERTAIN),
    ("asked to wait", Unavailable("slowly", status=429, retry_after=30.0), 30.0),
    ("just refused", Forbidden("no", status=403), None),
)
async def test_of_several_refusals_all_are_waited_for(error, after, rig, monkeypatch):
    monkeypatch.setattr("workers.reconcile.act.REPEATS", ())
    quota = Forbidden("exceeded quota", status=403)
    rig.cluster.refuse = lambda _verb, ref: quota if ref.name == "j0" else error
    with pytest.raises(Forbidden) as raised:
        await rig.act(Together(rig.jobs(4), meanwhile=()))
    assert (raised.value.retry_after, raised.value.within) == (after, SOON)
    assert raised.value.uncertain is (after == UNCERTAIN)


@for_each(Conflict("too many writers", status=409), Unavailable("no route to host"))
async def test_what_fails_meanwhile_changes_nothing_in_when_it_is_tried_again(another, rig):
    slowly = Unavailable("slowly", status=429, retry_after=30.0)
    rig.cluster.refuse = lambda verb, _ref: slowly if verb == "create" else another
    stage = Together((Create(JOB, rig.job("a")),), meanwhile=(PatchStatus({"a": 1}),))
    with pytest.raises(type(another)) as raised:
        await rig.act(stage)
    assert raised.value is another
    assert (another.retry_after, another.within) == (30.0, SOON)


async def test_a_step_that_is_not_vital_may_be_refused_and_is_recorded(rig):
    _, taken_off = await rig.held()
    rig.cluster.refuse_with(Forbidden("no", status=403), verb="delete")
    stage = Together(
        (Delete(taken_off.ref, taken_off.uid),),
        otherwise=RecordEvent("Warning", "FailedDelete", "{error}"),
        vital=False,
    )
    await rig.act(stage, PatchStatus({"a": 1}))
    assert rig.recorder.records == [("FailedDelete", "no")]
    assert rig.cluster.objects[OWNER]["status"] == {"a": 1}


async def test_a_lease_that_is_lost_while_a_write_waits_for_its_turn_writes_nothing(fake_redis, monkeypatch):
    rig = ActorRig(fake_redis)
    rig.own()
    flying, most, held = 0, 0, True
    create, limiter = rig.cluster.create, RequestLimiter(Bounds(floor=2, start=2, most=2))

    def check():
        if not held:
            raise LeaseLost("it ran out")

    async def slow(kind, body):
        # As workers.client.rest sends it.
        nonlocal flying, most, held
        context = context_of("POST")
        ticket = await limiter.enter(context.priority, "default")
        try:
            context.check()
            flying += 1
            most = max(most, flying)
            await asyncio.sleep(0.01)
            held = False
            flying -= 1
            return await create(kind, body)
        finally:
            limiter.leave(ticket)

    monkeypatch.setattr(rig.cluster, "create", slow)
    acts = (rig.actor.act(Snapshot(OWNER, rig.owner), Plan((step,)), check) for step in rig.jobs(10))
    ended = await asyncio.gather(*acts, return_exceptions=True)
    assert most == 2
    assert [type(outcome) for outcome in ended].count(LeaseLost) == 8
    assert len(rig.cluster.log) == 2


async def test_each_step_says_the_class_of_its_requests(rig, monkeypatch):
    said = {}
    write = rig.cluster._write

    def noted(verb, ref):
        said[verb.partition(" ")[0]] = context_of("GET").priority
        write(verb, ref)

    monkeypatch.setattr(rig.cluster, "_write", noted)
    await rig.act(Together(rig.jobs(1)), PatchStatus({"a": 1}), Delete(Ref(JOB, "default", "j0"), "uid-2"))
    assert said == {"create": Priority.START, "patch": Priority.FINISH, "delete": Priority.FINISH}


@cases(
    ("a broken connection", ConnectionResetError(), 0),
    ("no answer in time", TimeoutError(), 0),
    ("storage that did not confirm in time", None, 500),
    ("a proxy that did not wait", None, 504),
)
async def test_a_create_whose_answer_got_lost_is_asked_for_by_its_name(broke, status, rig, monkeypatch):
    monkeypatch.setattr("workers.reconcile.act.REPEATS", (0, 0))
    create = rig.cluster.create

    async def loses_the_answer(kind, body):
        await create(kind, body)
        raise Unavailable("the answer got lost", status=status) from broke

    rig.cluster.create = loses_the_answer
    await rig.act(Create(JOB, rig.job("a")))
    assert rig.cluster.log == [("create", "a")]
    assert await rig.children() == {"a": False}


async def test_a_create_that_took_too_long_is_not_posted_again_while_it_may_be_under_way(rig, monkeypatch):
    monkeypatch.setattr("workers.reconcile.act.REPEATS", (0, 0))
    error = Unavailable("no answer in time")
    error.__cause__ = TimeoutError()
    rig.cluster.refuse_with(error)
    with pytest.raises(Unavailable) as raised:
        await rig.act(Create(JOB, rig.job("a")))
    assert (len(rig.cluster.log), raised.value.retry_after) == (1, UNCERTAIN)


async def test_a_busy_server_keeps_the_other_creations_of_a_plan_from_nothing(rig):
    rig.cluster.refuse = lambda _, ref: BUSY if ref.name in ("j0", "j3") else None
    with pytest.raises(Unavailable) as raised:
        await rig.act(Together(rig.jobs(9)), STATUS)
    assert len(await rig.children()) == 7
    assert raised.value.retry_after == 1.0
    assert rig.cluster.objects[OWNER]["status"] == {}


async def test_a_server_that_refuses_everything_is_not_asked_for_each_step(rig):
    rig.cluster.refuse_with(BUSY)
    with pytest.raises(Unavailable):
        await rig.act(Together(rig.jobs(500)))
    assert len(rig.cluster.log) <= MOST_BUSY + 1 + rig.actor.in_flight


@pytest.mark.parametrize("meanwhile", [None, ()])
async def test_what_the_limiter_holds_back_stops_the_stage(rig, meanwhile):
    rig.cluster.refuse_with(Throttled("not sent", retry_after=2.0))
    with pytest.raises(Throttled) as raised:
        await rig.act(Together(rig.jobs(100), meanwhile=meanwhile))
    assert len(rig.cluster.log) <= rig.actor.in_flight
    assert raised.value.retry_after == 2.0


async def test_a_quota_that_is_used_up_is_not_asked_for_each_object(rig):
    rig.cluster.refuse_with(QUOTA)
    with pytest.raises(Forbidden, match="exceeded quota") as raised:
        await rig.act(Together(rig.jobs(100), meanwhile=(PatchStatus({"a": 1}),)))
    assert [verb for verb, _ in rig.cluster.log].count("create") < IN_A_ROW + rig.actor.in_flight
    assert raised.value.retry_after > 0
    with pytest.raises(Forbidden, match="not tried"):
        await rig.act(Create(JOB, rig.job("another")))
    assert ("create", "another") not in rig.cluster.log


async def test_an_unanswered_create_is_not_decided_on_before_the_watch_can_show_it(rig, monkeypatch):
    monkeypatch.setattr("workers.reconcile.act.REPEATS", (0, 0))
    rig.cluster.refuse_with(Unavailable("no route"))
    with pytest.raises(Unavailable) as raised:
        await rig.act(Create(JOB, rig.job("a")))
    assert raised.value.retry_after > 10
    assert len(rig.cluster.log) == 3


@cases(
    ("storage that did not confirm in time", Unavailable("etcdserver: request timed out", status=500), True),
    ("a proxy that did not wait", Unavailable("gateway timeout", status=504), True),
    ("a webhook that failed", Unavailable("failed calling webhook", status=500), False),
    ("a server that takes nothing", Unavailable("shutting down", status=503), False),
)
async def test_an_answer_that_does_not_say_what_became_of_a_create_is_waited_for(error, waits, rig):
    rig.cluster.refuse_with(error)
    with pytest.raises(Unavailable) as raised:
        await rig.act(Create(JOB, rig.job("a")))
    assert raised.value.uncertain is waits
    assert ((raised.value.retry_after or 0) > 10) is waits
    assert len(rig.cluster.log) == 1


async def test_a_server_that_says_it_is_overloaded_is_not_asked_again_at_once(rig):
    rig.cluster.refuse_with(Unavailable("too many requests", status=429, retry_after=3))
    with pytest.raises(Unavailable) as raised:
        await rig.act(Create(JOB, rig.job("a")))
    assert (len(rig.cluster.log), raised.value.retry_after) == (1, 3)


async def test_a_failed_step_stops_the_plan(rig):
    rig.cluster.refuse_with(Unavailable("the server is overloaded", status=503))
    with pytest.raises(Unavailable):
        await rig.act(Create(JOB, rig.job("a")), RecordEvent("Normal", "Never", "said"))
    assert rig.recorder.records == []


async def test_what_a_plan_did_is_in_the_store_also_when_its_time_is_over(rig):
    create, made = rig.cluster.create, 0

    async def stuck(kind, body):
        nonlocal made
        if body["metadata"]["name"] == "j3":
            await asyncio.Event().wait()
        stored = await create(kind, body)
        made += 1
        if made == 5:
            patience.reschedule(asyncio.get_running_loop().time() + 0.05)
        return stored

    rig.cluster.create = stuck
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as patience:
            await rig.act(Together(rig.jobs(6)))
    assert sorted(await rig.children()) == ["j0", "j1", "j2", "j4", "j5"]


async def test_effects_that_the_broker_did_not_take_are_offered_once_more(rig, monkeypatch):
    write_through = rig.store.write_through
    refused = []

    async def unsure(kind, changes, acting, **options):
        if not refused:
            refused.append(len(changes))
            raise ConnectionError("the broker went away")
        return await write_through(kind, changes, acting, **options)

    monkeypatch.setattr(rig.store, "write_through", unsure)
    with pytest.raises(ConnectionError):
        await rig.act(Together(rig.jobs(80)))
    created = [name for verb, name in rig.cluster.log if verb == "create"]
    assert sorted(await rig.children()) == sorted(created)


@cases(("what was made under it does not", None, []), ("what it was lost after does", 1, [OWNER.key]))
async def test_effects_mark_their_key_once_the_lease_is_lost(lost_after, marked, rig):
    """Another process may have decided without them."""
    await rig.store.apply(SCALED_JOB, [ObjectVersion(rig.owner)])
    (lease,) = (await rig.lane.claim(1)).leases
    rig.lost_after = lost_after
    with suppress(LeaseLost):
        await rig.act(*rig.jobs(4))
    await rig.lane.finish([(lease, Done())])
    assert set(await rig.claimed()) - {ref.key for ref in rig.cluster.objects if ref.kind == JOB} == set(marked)


async def test_lists_of_users_are_kept_only_under_the_lease(rig):
    login = rig.cluster.add(TRIGGER_AUTHENTICATION, {"metadata": {"name": "login", "namespace": "default"}})
    step = EditList(ref_of(TRIGGER_AUTHENTICATION, login), "scaledjobs", "work")
    rig.lost_after = 0
    with pytest.raises(LeaseLost):
        await rig.act(step)
    assert "status" not in rig.cluster.objects[step.ref]
    rig.lost_after = None
    await rig.act(step)
    assert rig.cluster.objects[step.ref]["status"] == {"scaledjobs": "work"}
