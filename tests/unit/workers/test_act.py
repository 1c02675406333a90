"""Carrying out plans: order, fences, effects that are there already, and the mirror that sees everything at once."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from prometheus_client import REGISTRY

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.unit.workers.clusters import MemoryCluster
from workers import metrics
from workers.act import Actor
from workers.api.kinds import HORIZONTAL_POD_AUTOSCALER, JOB, SCALED_JOB, SECRET, TRIGGER_AUTHENTICATION, Ref, ref_of
from workers.claims import Order
from workers.controllers.scaledobject import rivals
from workers.errors import AlreadyExists, Conflict, Forbidden, Invalid, Unavailable
from workers.holding import LeaseLost
from workers.mirror import Change, Mirror
from workers.orders import Orders
from workers.plan import (
    ComeBack,
    Create,
    Delete,
    Discard,
    Enlist,
    Mark,
    Measure,
    Metric,
    Patch,
    PatchStatus,
    Plan,
    Poll,
    Record,
    Rest,
    Together,
    Unfinalize,
)
from workers.snapshot import Snapshot

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
OWNER = Ref(SCALED_JOB, "default", "work")


class Told:
    def __init__(self):
        self.records = []
        self.regarding = []

    def record(self, kind, regarding, record):
        self.regarding.append((kind, regarding))
        self.records.append((record.reason, record.message))


class World:
    """An actor with everything it acts on."""

    def __init__(self, client, *, in_flight=4):
        keys = Keys("test")
        self.lanes = {name: Lane(client, name, keys) for name in ("reconcile", "poll")}
        self.cluster = MemoryCluster()
        self.mirror = Mirror(
            client,
            keys,
            {
                SCALED_JOB.id: (self.lanes["reconcile"], self.lanes["poll"]),
                JOB.id: (self.lanes["reconcile"],),
            },
        )
        self.told = Told()
        self.rung = {}
        self.actor = Actor(
            cluster=self.cluster,
            mirror=self.mirror,
            recorder=self.told,
            orders=Orders(client, keys),
            reconcile=self.lanes["reconcile"],
            poll=self.lanes["poll"],
            ring=self.ring,
            in_flight=in_flight,
        )
        self.owner = self.cluster.add(SCALED_JOB, {"metadata": {"name": "work", "namespace": "default"}, "status": {}})
        self.checks = 0
        self.lost_after = None

    async def ring(self, bells):
        for lane, count in bells.items():
            self.rung[lane] = self.rung.get(lane, 0) + count

    def check(self):
        self.checks += 1
        if self.lost_after is not None and self.checks > self.lost_after:
            raise LeaseLost("it ran out")

    async def act(self, *steps):
        return await self.actor.act(Snapshot(OWNER, self.owner), Plan(steps), self.check)

    def job(self, name, **status):
        reference = {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledJob",
            "name": "work",
            "uid": self.owner["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"name": name, "namespace": "default", "ownerReferences": [reference]}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "status": status}

    async def children(self):
        entries = await self.mirror.children(JOB, self.owner["metadata"]["uid"])
        return {entry.ref.name: entry.gone for entry in entries}


@pytest.fixture
async def world(fake_redis):
    world = World(fake_redis)
    for lane in world.lanes.values():
        await lane.open()
    return world


async def test_what_was_created_is_seen_by_the_next_decision_and_wakes_its_own_controller(world):
    await world.act(Create(JOB, world.job("a")))
    assert await world.children() == {"a": False}
    claim = await world.lanes["reconcile"].claim(10)
    assert [lease.key for lease in claim.leases] == ["jobs.batch/default/a"]
    assert world.rung["reconcile"] == 1


async def test_creating_what_is_there_and_ours_is_success(world):
    world.cluster.add(JOB, world.job("a"))
    await world.act(Create(JOB, world.job("a")))
    assert await world.children() == {"a": False}


async def test_a_child_that_was_there_already_is_news_for_its_owner_whatever_became_of_it(world):
    await world.mirror.apply(SCALED_JOB, [Change(world.owner)])
    lane = world.lanes["reconcile"]
    await lane.claim(10)
    world.cluster.add(JOB, world.job("a", succeeded=1))
    await world.act(Create(JOB, world.job("a")), Create(JOB, world.job("b")))
    assert (await lane.stats()).dirty == 1, "its watch brings the same version and would say nothing more"


async def test_a_name_taken_by_a_stranger_stops_the_plan_and_says_so(world):
    world.cluster.add(JOB, {"metadata": {"name": "a", "namespace": "default"}})
    with pytest.raises(AlreadyExists, match="Job default/a exists and belongs to somebody else"):
        await world.act(Create(JOB, world.job("a")), Create(JOB, world.job("b")))
    assert ("create", "b") not in world.cluster.log


TAKEN = Record("Warning", "NameTaken", "Job a is somebody else's")


async def test_a_plan_that_foresees_a_taken_name_says_so_and_goes_on(world):
    world.cluster.add(JOB, {"metadata": {"name": "a", "namespace": "default"}})
    await world.act(Create(JOB, world.job("a"), taken=TAKEN), Create(JOB, world.job("b"), taken=TAKEN))
    assert world.told.records == [("NameTaken", "Job a is somebody else's")]
    assert await world.children() == {"b": False}


async def test_a_taken_name_is_decided_on_once_more(world):
    await world.mirror.apply(SCALED_JOB, [Change(world.owner)])
    lane = world.lanes["reconcile"]
    await lane.claim(10)
    world.cluster.add(JOB, {"metadata": {"name": "a", "namespace": "default"}})
    await world.act(Create(JOB, world.job("b"), taken=TAKEN))
    assert (await lane.stats()).dirty == 0
    await world.act(Create(JOB, world.job("a"), taken=TAKEN))
    assert (await lane.stats()).dirty == 1


async def test_a_status_refers_to_what_its_plan_has_made(world):
    world.cluster.add(JOB, {"metadata": {"name": "taken", "namespace": "default"}})
    made = tuple(Ref(JOB, "default", name) for name in ("a", "taken", "b"))
    known = {"name": "old", "uid": "uid-old"}
    await world.act(
        *(Create(JOB, world.job(ref.name), taken=TAKEN) for ref in made), PatchStatus({"active": [known]}, made)
    )
    status = (await world.cluster.get(OWNER))["status"]
    assert [each["name"] for each in status["active"]] == ["old", "a", "b"]
    assert all(each["uid"] for each in status["active"])


async def test_a_taken_name_does_not_count_among_what_was_done_together(world):
    world.cluster.add(JOB, {"metadata": {"name": "a", "namespace": "default"}})
    jobs = tuple(Create(JOB, world.job(name), taken=TAKEN) for name in "abc")
    stage = Together(jobs, Record("Normal", "Created", "{done}"), Record("Warning", "Failed", "{error}"))
    await world.act(stage, Record("Normal", "Later", "goes on"))
    assert sorted(world.told.records) == [
        ("Created", "2"),
        ("Later", "goes on"),
        ("NameTaken", "Job a is somebody else's"),
    ]


async def test_a_name_that_is_ours_is_not_taken(world):
    world.cluster.add(JOB, world.job("a"))
    await world.act(Create(JOB, world.job("a"), taken=TAKEN))
    assert world.told.records == []


HELD = "batch.kubernetes.io/job-tracking"


async def held(world, name="a", finalizers=(HELD,), **metadata):
    """A child with finalizers, in the cluster and in the mirror; and the step that takes one off."""
    body = world.job(name)
    body["metadata"] |= {"finalizers": list(finalizers), **metadata}
    body = world.cluster.add(JOB, body)
    await world.mirror.apply(JOB, [Change(body)])
    return body, Unfinalize(ref_of(JOB, body), body["metadata"]["uid"], HELD)


async def test_a_finalizer_is_taken_off_whatever_else_was_written_meanwhile(world):
    body, step = await held(world, finalizers=("other", HELD))
    world.cluster.add(JOB, {**body, "status": {"phase": "Failed"}})
    await world.act(step)
    stored = world.cluster.objects[step.ref]
    assert (stored["metadata"]["finalizers"], stored["status"]) == (["other"], {"phase": "Failed"})
    entry = await world.mirror.get(step.ref)
    assert entry.body == stored


@pytest.mark.parametrize(
    ("metadata", "gone"),
    [
        pytest.param({}, False, id="nobody deletes it"),
        pytest.param({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0}, True, id="its last, being deleted"),
        pytest.param(
            {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0, "finalizers": [HELD, "other"]},
            False,
            id="another one holds it",
        ),
        pytest.param({"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30}, False, id="its kubelet is at work"),
    ],
)
async def test_the_mirror_knows_at_once_whether_the_object_went_with_its_finalizer(world, metadata, gone):
    _, step = await held(world, **metadata)
    await world.act(step)
    assert (step.ref not in world.cluster.objects) is gone
    assert await world.children() == {"a": gone}


async def test_taking_a_finalizer_off_what_is_gone_is_success_and_leaves_a_tombstone(world):
    _, step = await held(world)
    del world.cluster.objects[step.ref]
    await world.act(step)
    assert await world.children() == {"a": True}


async def test_another_object_of_the_name_keeps_its_finalizer_and_ours_counts_as_gone(world):
    _, step = await held(world)
    del world.cluster.objects[step.ref]
    world.cluster.add(JOB, {"metadata": {"name": "a", "namespace": "default", "finalizers": [HELD]}})
    await world.act(step)
    assert world.cluster.objects[step.ref]["metadata"]["finalizers"] == [HELD]
    assert await world.children() == {"a": True}


@pytest.mark.parametrize("error", [Conflict, Invalid])
async def test_a_refusal_that_is_about_the_object_itself_is_decided_on_afresh(world, error):
    _, step = await held(world)

    def refuse(verb, ref):
        if verb == "patch":
            raise error("too many writers at once, or an admission that says no")

    world.cluster.refuse = refuse
    with pytest.raises(error):
        await world.act(step)
    assert await world.children() == {"a": False}


async def test_finalizers_go_together_and_are_counted(world):
    steps = tuple([(await held(world, f"p{number}"))[1] for number in range(9)])
    await world.act(Together(steps, then=Record("Normal", "Let", "{done} go")))
    assert world.told.records == [("Let", "9 go")]
    assert not any(world.cluster.objects[step.ref]["metadata"].get("finalizers") for step in steps)


@pytest.mark.parametrize(
    ("causes", "told"),
    [([{"reason": "NamespaceTerminating"}], []), ([], [("Failed", "no")])],
    ids=["its namespace is going", "forbidden"],
)
async def test_nobody_is_told_that_a_namespace_that_goes_takes_nothing_new(world, causes, told):
    def refuse(verb, ref):
        raise Forbidden("no", status=403, body={"details": {"causes": causes}})

    world.cluster.refuse = refuse
    stage = Together((Create(JOB, world.job("a")),), otherwise=Record("Warning", "Failed", "{error}"))
    with pytest.raises(Forbidden):
        await world.act(stage, Record("Normal", "Never", "said"))
    assert world.told.records == told


async def test_another_object_is_marked_and_its_bell_rung(world):
    await world.act(Mark(Ref(JOB, "default", "parent")))
    claim = await world.lanes["reconcile"].claim(10)
    assert [lease.key for lease in claim.leases] == ["jobs.batch/default/parent"]
    assert world.rung == {"reconcile": 1}


async def test_a_rest_keeps_the_key_and_what_comes_after_it_waits(world, monkeypatch):
    rested = []

    async def sleep(seconds):
        rested.append((seconds, dict(world.rung)))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await world.act(Rest(0.2), Mark(Ref(JOB, "default", "parent")))
    assert (rested, world.rung) == ([(0.2, {})], {"reconcile": 1})


async def test_an_event_may_be_about_another_object(world):
    other = {"metadata": {"name": "other"}}
    await world.act(Record("Normal", "Waits", "for room", about=(JOB, other)), Record("Normal", "Own", "word"))
    assert world.told.records == [("Waits", "for room"), ("Own", "word")]
    assert world.told.regarding == [(JOB, other), (SCALED_JOB, world.owner)]


def measured(name, **labels):
    return REGISTRY.get_sample_value(f"penstock_{name}", labels) or 0.0


async def test_what_is_measured_counts_once_the_steps_before_it_worked(world):
    counter, labels = "job_controller_job_pods_finished_total", {"completion_mode": "Indexed", "result": "failed"}
    skew = "cronjob_controller_job_creation_skew_duration_seconds"
    before = measured(counter, **labels), measured(f"{skew}_sum"), measured(f"{skew}_bucket", le="1.0")
    steps = (
        Measure("job_pods_finished", 3, ("Indexed", "failed")),
        Measure("job_creation_skew", 0.5),
        Measure("job_creation_skew", 90),
    )
    await world.act(PatchStatus({"a": 1}), *steps)
    world.owner = {**world.owner, "metadata": {**world.owner["metadata"], "resourceVersion": "an older one"}}
    with pytest.raises(Conflict):
        await world.act(PatchStatus({"a": 2}), *steps)
    after = measured(counter, **labels), measured(f"{skew}_sum"), measured(f"{skew}_bucket", le="1.0")
    assert [new - old for new, old in zip(after, before, strict=True)] == [3, 90.5, 1]


def test_every_name_that_decisions_may_measure_by_stands_for_a_metric():
    assert set(get_args(Metric)) == set(metrics.MEASURES)


async def test_deleting_what_is_gone_is_success_and_leaves_a_tombstone(world):
    await world.act(Create(JOB, world.job("a")))
    [(ref, body)] = [(ref, body) for ref, body in world.cluster.objects.items() if ref.kind is JOB]
    del world.cluster.objects[ref]
    await world.act(Delete(ref, body["metadata"]["uid"]))
    assert await world.children() == {"a": True}


async def test_another_object_under_the_same_name_is_not_deleted(world):
    world.cluster.add(JOB, world.job("a"))
    await world.act(Delete(Ref(JOB, "default", "a"), "the uid of an older one"))
    assert Ref(JOB, "default", "a") in world.cluster.objects


async def test_what_changed_since_it_was_observed_is_not_deleted_and_stops_the_plan(world):
    body = world.cluster.add(JOB, world.job("a"))
    ref, uid, version = Ref(JOB, "default", "a"), body["metadata"]["uid"], body["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        await world.act(Delete(ref, uid, resource_version="an older one"))
    assert ref in world.cluster.objects
    await world.act(Delete(ref, uid, resource_version=version))
    assert ref not in world.cluster.objects


async def test_an_equal_status_is_not_written(world):
    world.owner = world.cluster.add(SCALED_JOB, {**world.owner, "status": {"a": 1, "conditions": [{"type": "Ready"}]}})
    await world.act(PatchStatus({"a": 1, "conditions": [{"type": "Ready"}]}))
    assert world.cluster.log == []


async def test_a_status_is_computed_whole_so_what_it_lacks_is_removed(world):
    world.owner = world.cluster.add(SCALED_JOB, {**world.owner, "status": {"old": 1, "kept": 2}})
    await world.act(PatchStatus({"kept": 2, "new": 3}))
    assert world.cluster.objects[OWNER]["status"] == {"kept": 2, "new": 3}


async def test_a_write_to_an_object_that_changed_meanwhile_is_a_conflict(world):
    world.cluster.add(SCALED_JOB, world.cluster.objects[OWNER])
    with pytest.raises(Conflict):
        await world.act(PatchStatus({"a": 1}))
    assert world.cluster.objects[OWNER]["status"] == {}


async def test_the_own_writes_of_a_plan_do_not_conflict_with_each_other(world):
    version = world.owner["metadata"]["resourceVersion"]
    finalizers = {"metadata": {"finalizers": ["finalizer.keda.sh"]}}
    await world.act(Patch(OWNER, finalizers, version), PatchStatus({"a": 1}), PatchStatus({"a": 2}))
    stored = world.cluster.objects[OWNER]
    assert (stored["metadata"]["finalizers"], stored["status"]) == (["finalizer.keda.sh"], {"a": 2})


async def test_the_acting_object_is_not_marked_by_its_own_writes(world):
    await world.act(PatchStatus({"a": 1}), Create(JOB, world.job("a")))
    claim = await world.lanes["reconcile"].claim(10)
    assert [lease.key for lease in claim.leases] == ["jobs.batch/default/a"]


async def test_steps_together_are_told_of_once_with_the_number_that_worked(world):
    jobs = tuple(Create(JOB, world.job(f"j{number}")) for number in range(7))
    await world.act(Together(jobs, then=Record("Normal", "KEDAJobsCreated", "Created {done} jobs")))
    assert world.told.records == [("KEDAJobsCreated", "Created 7 jobs")]
    assert len(await world.children()) == 7


async def test_after_the_first_refusal_nothing_new_is_started_and_both_halves_are_told(world):
    def refuse(verb, ref):
        if ref.name >= "j4":
            raise Forbidden("exceeded quota", status=403)

    world.cluster.refuse = refuse
    jobs = tuple(Create(JOB, world.job(f"j{number}")) for number in range(9))
    stage = Together(
        jobs,
        then=Record("Normal", "KEDAJobsCreated", "Created {done} jobs"),
        otherwise=Record("Warning", "KEDAJobCreateFailed", "Failed: {error}"),
    )
    with pytest.raises(Forbidden):
        await world.act(stage, PatchStatus({"a": 1}))
    assert world.told.records == [
        ("KEDAJobsCreated", "Created 4 jobs"),
        ("KEDAJobCreateFailed", "Failed: exceeded quota"),
    ]
    # Four in flight: at most those four were refused, and the status was not written.
    assert len(world.cluster.log) <= 8
    assert world.cluster.objects[OWNER]["status"] == {}


async def test_what_is_not_vital_may_be_refused_and_is_told_of(world):
    _, taken_off = await held(world)

    def refuse(verb, ref):
        if verb == "delete":
            raise Forbidden("no", status=403)

    world.cluster.refuse = refuse
    stage = Together(
        (Delete(taken_off.ref, taken_off.uid),), otherwise=Record("Warning", "FailedDelete", "{error}"), vital=False
    )
    await world.act(stage, PatchStatus({"a": 1}))
    assert world.told.records == [("FailedDelete", "no")]
    assert world.cluster.objects[OWNER]["status"] == {"a": 1}


async def test_a_lost_lease_stops_the_plan_also_in_what_is_not_vital(world):
    _, taken_off = await held(world)
    world.lost_after = 0
    with pytest.raises(LeaseLost):
        await world.act(Together((Delete(taken_off.ref, taken_off.uid),), vital=False), PatchStatus({"a": 1}))
    assert world.cluster.log == []


async def test_no_more_requests_are_in_flight_than_allowed(fake_redis):
    world = World(fake_redis, in_flight=3)
    flying, most = 0, 0
    create = world.cluster.create

    async def slow(kind, body):
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        flying -= 1
        return await create(kind, body)

    world.cluster.create = slow
    await world.act(Together(tuple(Create(JOB, world.job(f"j{number}")) for number in range(10))))
    assert most == 3


async def test_somebody_elses_object_does_where_anybodys_will(world):
    world.cluster.add(JOB, {"metadata": {"name": "a", "namespace": "default"}})
    await world.act(Create(JOB, world.job("a"), anybodys=True), Create(JOB, world.job("b")))
    assert await world.children() == {"b": False}
    assert (await world.lanes["reconcile"].stats()).dirty == 0


def keys(world):
    """A Secret of the owner, without what is still to be made for it."""
    body = world.job("keys")
    return {"metadata": body["metadata"], "stringData": {"config": "Host *"}}


async def test_what_is_minted_is_in_the_object_that_is_created_and_nowhere_else(world):
    step = Create(SECRET, keys(world), mint="ssh-key")
    await world.act(step)
    made = await world.cluster.get(ref_of(SECRET, step.body))
    texts = made["stringData"]
    assert set(texts) == {"config", "id_rsa", "id_rsa.pub", "authorized_keys"}
    assert texts["id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert step.body["stringData"] == {"config": "Host *"}
    assert await world.mirror.children(SECRET, world.owner["metadata"]["uid"]) == ()


async def test_a_key_that_is_there_stays_the_key(world):
    step = Create(SECRET, keys(world), mint="ssh-key")
    await world.act(step)
    first = await world.cluster.get(ref_of(SECRET, step.body))
    await world.act(step)
    assert await world.cluster.get(ref_of(SECRET, step.body)) == first


async def test_keys_of_somebody_else_are_not_taken_for_ours(world):
    world.cluster.add(SECRET, {"metadata": {"name": "keys", "namespace": "default"}})
    with pytest.raises(AlreadyExists, match="Secret default/keys exists and belongs to somebody else"):
        await world.act(Create(SECRET, keys(world), mint="ssh-key"))


@pytest.mark.parametrize("ours", [True, False])
async def test_what_was_never_observed_is_deleted_if_it_is_ours(world, ours):
    ref = Ref(SECRET, "default", "keys")
    world.cluster.add(SECRET, keys(world) if ours else {"metadata": {"name": "keys", "namespace": "default"}})
    await world.act(Discard(ref), Discard(Ref(SECRET, "default", "never-there")))
    assert (("delete", "keys") in world.cluster.log) is ours


async def test_many_plans_share_the_connections_and_a_lease_lost_while_waiting_writes_nothing(fake_redis, monkeypatch):
    world = World(fake_redis, in_flight=1)
    flying, most, held = 0, 0, True
    create = world.cluster.create

    def check():
        if not held:
            raise LeaseLost("it ran out")

    async def slow(kind, body):
        nonlocal flying, most, held
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.01)
        held = False
        flying -= 1
        return await create(kind, body)

    monkeypatch.setattr(world.cluster, "create", slow)
    plans = (Plan((Create(JOB, world.job(f"j{number}")),)) for number in range(10))
    acts = (world.actor.act(Snapshot(OWNER, world.owner), plan, check) for plan in plans)
    ended = await asyncio.gather(*acts, return_exceptions=True)
    assert most == 2
    assert [type(outcome) for outcome in ended].count(LeaseLost) == 8
    assert len(world.cluster.log) == 2


async def test_a_lost_lease_stops_the_plan_before_the_next_write(world):
    world.lost_after = 1
    with pytest.raises(LeaseLost):
        await world.act(Create(JOB, world.job("a")), Create(JOB, world.job("b")))
    assert world.cluster.log == [("create", "a")]


async def test_a_create_whose_answer_got_lost_is_repeated_and_finds_its_own_job(world, monkeypatch):
    monkeypatch.setattr("workers.act.REPEATS", (0, 0))
    create, answers = world.cluster.create, iter((False, True))

    async def loses_the_first_answer(kind, body):
        created = await create(kind, body)
        if not next(answers):
            raise Unavailable("the connection broke")
        return created

    world.cluster.create = loses_the_first_answer
    await world.act(Create(JOB, world.job("a")))
    assert world.cluster.log == [("create", "a"), ("create", "a")]
    assert await world.children() == {"a": False}


async def test_a_create_that_never_gets_an_answer_is_not_decided_on_before_the_watch_has_told(world, monkeypatch):
    monkeypatch.setattr("workers.act.REPEATS", (0, 0))

    def refuse(verb, ref):
        raise Unavailable("no route")

    world.cluster.refuse = refuse
    with pytest.raises(Unavailable) as raised:
        await world.act(Create(JOB, world.job("a")))
    assert raised.value.retry_after > 10
    assert len(world.cluster.log) == 3


async def test_a_server_that_says_it_is_overloaded_is_not_asked_again_at_once(world):
    def refuse(verb, ref):
        raise Unavailable("too many requests", status=429, retry_after=3)

    world.cluster.refuse = refuse
    with pytest.raises(Unavailable) as raised:
        await world.act(Create(JOB, world.job("a")))
    assert (len(world.cluster.log), raised.value.retry_after) == (1, 3)


async def test_a_failed_step_stops_the_plan(world):
    def refuse(verb, ref):
        raise Unavailable("the server is overloaded", status=503)

    world.cluster.refuse = refuse
    with pytest.raises(Unavailable):
        await world.act(Create(JOB, world.job("a")), Record("Normal", "Never", "said"))
    assert world.told.records == []


async def test_the_earliest_of_several_instants_is_when_to_come_back(world):
    assert await world.act(ComeBack(NOON + timedelta(hours=1)), ComeBack(NOON)) == NOON
    assert await world.act() is None


async def test_asking_for_a_reading_makes_the_object_ready_in_the_poll_lane(world):
    await world.act(Poll())
    claim = await world.lanes["poll"].claim(10)
    assert [lease.key for lease in claim.leases] == [OWNER.key]
    assert world.rung == {"poll": 1}


async def test_an_order_is_kept_and_the_object_polled(world):
    order = Order(id=7, of="ledger", limit=3)
    await world.act(Poll(order))
    claim = await world.lanes["poll"].claim(10)
    assert [lease.key for lease in claim.leases] == [OWNER.key]
    assert await world.actor.orders.get_many([OWNER.key]) == [order]


async def test_an_order_is_not_given_without_the_lease(world):
    world.lost_after = 0
    with pytest.raises(LeaseLost):
        await world.act(Poll(Order(id=7, of="ledger", limit=3)))
    assert await world.actor.orders.get_many([OWNER.key]) == [None]


async def test_the_effects_of_a_large_stage_reach_the_mirror_in_few_calls(world, monkeypatch):
    calls = []
    apply = world.mirror.apply

    async def counted(kind, changes, **options):
        calls.append(len(changes))
        return await apply(kind, changes, **options)

    monkeypatch.setattr(world.mirror, "apply", counted)
    await world.act(Together(tuple(Create(JOB, world.job(f"j{number}")) for number in range(200))))
    assert len(await world.children()) == 200
    assert sum(calls) == 200
    assert len(calls) <= 5


async def test_what_a_plan_did_is_in_the_mirror_also_when_its_time_is_over(world):
    create = world.cluster.create

    made = 0

    async def stuck(kind, body):
        nonlocal made
        if body["metadata"]["name"] == "j3":
            await asyncio.Event().wait()
        stored = await create(kind, body)
        made += 1
        if made == 5:
            patience.reschedule(asyncio.get_running_loop().time() + 0.05)
        return stored

    world.cluster.create = stuck
    jobs = tuple(Create(JOB, world.job(f"j{number}")) for number in range(6))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as patience:
            await world.act(Together(jobs))
    assert sorted(await world.children()) == ["j0", "j1", "j2", "j4", "j5"]


async def test_effects_that_the_broker_did_not_take_are_offered_once_more(world, monkeypatch):
    apply = world.mirror.apply
    refused = []

    async def unsure(kind, changes, **options):
        if not refused:
            refused.append(len(changes))
            raise ConnectionError("the broker went away")
        return await apply(kind, changes, **options)

    monkeypatch.setattr(world.mirror, "apply", unsure)
    with pytest.raises(ConnectionError):
        await world.act(Together(tuple(Create(JOB, world.job(f"j{number}")) for number in range(80))))
    created = [name for verb, name in world.cluster.log if verb == "create"]
    assert sorted(await world.children()) == sorted(created)


async def test_an_autoscaler_whose_place_is_taken_is_deleted_and_nothing_stops_where_it_may_not_be(world):
    """Of a kind that nobody follows."""
    made = world.cluster.add(HORIZONTAL_POD_AUTOSCALER, {"metadata": {"name": "hpa", "namespace": "default"}})
    step = rivals.take_away((made,))
    ref = ref_of(HORIZONTAL_POD_AUTOSCALER, made)

    def refuse(verb, _ref):
        raise Forbidden("not you", status=403)

    allowed, world.cluster.refuse = world.cluster.refuse, refuse
    await world.act(step)
    assert ref in world.cluster.objects
    assert world.told.records == [
        ("AutoscalerStays", "The target's HorizontalPodAutoscaler cannot be deleted: not you")
    ]
    world.cluster.refuse = allowed
    await world.act(step)
    assert ref not in world.cluster.objects
    assert world.told.records[1:] == [("AutoscalerReplaced", "Deleted 1 HorizontalPodAutoscaler of this target")]


async def test_lists_of_users_are_kept_only_under_the_lease(world):
    login = world.cluster.add(TRIGGER_AUTHENTICATION, {"metadata": {"name": "login", "namespace": "default"}})
    step = Enlist(ref_of(TRIGGER_AUTHENTICATION, login), "scaledjobs", "work")
    world.lost_after = 0
    with pytest.raises(LeaseLost):
        await world.act(step)
    assert "status" not in world.cluster.objects[step.ref]
    world.lost_after = None
    await world.act(step)
    assert world.cluster.objects[step.ref]["status"] == {"scaledjobs": "work"}
