"""Observing: what a decision sees, what it costs, and what cannot be seen is never taken for nothing."""

from dataclasses import replace

import pytest

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.unit.workers.objects import NAMES
from tests.unit.workers.reconciling import OWNER, Counted, nothing, owned
from workers.api.kinds import JOB, POD, SCALE_POLICY, SCALED_JOB, SCALED_OBJECT, Ref, ref_of
from workers.cache.store import ObjectVersion
from workers.errors import Stale
from workers.handoff.readings import Readings
from workers.reconcile.controller import Controller, ScaleTarget
from workers.reconcile.observe import Observer
from workers.reconcile.plan import NOTHING
from workers.reconcile.snapshot import Reading, Scalable
from workers.runtime.wiring import mirror_of


async def test_a_decision_sees_the_object_its_children_and_the_last_reading(house):
    house = await house()
    reading = Reading(id=7, started=1, generation=1)
    await house.readings.put_many({OWNER.key: reading}, house.lane)
    house.cluster.add(JOB, owned("a", house.owner))
    house.cluster.add(JOB, owned("b", {"metadata": {"name": "other", "uid": "uid-of-another"}}))
    await house.follow()
    await house.bell()
    snapshot = house.snapshots[-1]
    assert snapshot.ref == OWNER
    assert snapshot.body["metadata"]["uid"] == house.owner["metadata"]["uid"]
    assert [entry.ref.name for entry in snapshot.children[JOB.id]] == ["a"]
    assert (snapshot.reading.id, snapshot.failures, snapshot.last_error) == (7, 0, None)


async def test_a_decision_never_sees_the_reading_of_a_deleted_namesake(house):
    house = await house()
    old = Reading(id=7, started=1, generation=1, uid="uid-of-a-namesake")
    await house.readings.put_many({OWNER.key: old}, house.lane)
    await house.bell()
    assert house.snapshots[-1].reading is None


@pytest.mark.parametrize(("wants", "seen"), [(True, ["p"]), (False, None)], ids=["asked for", "not asked for"])
async def test_grandchildren_are_read_only_for_decisions_that_ask(house, wants, seen):
    house = await house(spec={"pods": wants})
    job = house.cluster.add(JOB, owned("a", house.owner))
    house.cluster.add(POD, owned("p", job, POD))
    await house.follow()
    await house.bell()
    pods = house.snapshots[-1].children.get(POD.id)
    assert (pods and [entry.ref.name for entry in pods]) == seen


async def test_a_decision_sees_what_nobody_controls_in_its_namespace(house):
    house = await house(adopts=(POD,))
    house.cluster.add(POD, {"metadata": {"name": "loose", "namespace": "default"}})
    house.cluster.add(POD, {"metadata": {"name": "elsewhere", "namespace": "other"}})
    house.cluster.add(POD, owned("p", house.owner, POD))
    await house.follow()
    await house.bell()
    assert [entry.ref.name for entry in house.snapshots[-1].loose[POD.id]] == ["loose"]


async def test_a_decision_sees_what_names_its_object(house):
    house = await house(tied=(JOB,))
    for name, named in (("a", "work"), ("b", "other")):
        house.cluster.add(JOB, {"metadata": {"name": name, "namespace": "default", "annotations": {NAMES: named}}})
    await house.follow()
    await house.bell()
    assert [entry.ref.name for entry in house.snapshots[-1].tied[JOB.id]] == ["a"]


async def test_nothing_is_decided_while_what_may_name_the_object_is_unknown(house):
    house = await house(tied=(SCALE_POLICY,))
    (lease,) = (await house.lane.claim(1)).leases
    assert isinstance((await house.observer.observe([lease]))[lease], Stale)


async def test_a_decision_sees_the_relatives_it_asks_for(house):
    house = await house(spec={"relatives": ["here", "went", "never"]})
    here = house.cluster.add(JOB, {"metadata": {"name": "here", "namespace": "default"}})
    went = house.cluster.add(JOB, {"metadata": {"name": "went", "namespace": "default"}})
    await house.follow()
    await house.mirror.apply(JOB, [ObjectVersion.gone(Ref(JOB, "default", "went"), went["metadata"]["uid"])])
    await house.bell()
    by_name = {ref.name: body for ref, body in house.snapshots[-1].relatives.items()}
    assert by_name == {"here": here, "went": None, "never": None}


async def test_what_is_only_glanced_at_is_missing_as_long_as_it_is_not_known(house):
    house = await house(
        spec={"relatives": ["here"]},
        glances=lambda body: (Ref(SCALE_POLICY, "", "unknown"), Ref(JOB, "default", "here")),
    )
    here = house.cluster.add(JOB, {"metadata": {"name": "here", "namespace": "default"}})
    await house.mirror.apply(JOB, [ObjectVersion(here)])
    await house.bell()
    by_name = {ref.name: body for ref, body in house.snapshots[-1].relatives.items()}
    assert by_name == {"here": here, "unknown": None}


async def test_relatives_cost_those_nothing_that_ask_for_none(house, monkeypatch):
    house = await house()
    monkeypatch.setattr(house.mirror, "observe", observe := Counted(house.mirror.observe))
    await house.bell()
    assert observe.calls == 1


@pytest.mark.parametrize("spec", [{"spec": {"relatives": 7}}, {}], ids=["relatives", "grandchildren"])
async def test_a_controller_that_cannot_say_what_it_must_see_fails_its_own_key_and_no_other(house, spec):
    house = await house()
    house.cluster.add(SCALED_JOB, {"metadata": {"name": "odd", "namespace": "default"}, **spec})
    await house.follow()
    assert await house.bell() == 2
    assert [snapshot.ref.name for snapshot in house.snapshots] == ["work"]
    stats = await house.lane.stats()
    assert (stats.failing, stats.leased) == (1, 0)


async def test_relatives_are_not_read_for_what_is_not_ours(house, monkeypatch):
    house = await house(spec={"relatives": ["a"]}, accepts=lambda body: False)
    monkeypatch.setattr(house.mirror, "observe", observe := Counted(house.mirror.observe))
    await house.lane.mark([OWNER.key])
    await house.bell()
    assert observe.calls == 1


@pytest.mark.parametrize("entry", ["never heard of", "a tombstone"])
async def test_a_relative_is_missing_only_as_far_as_its_kind_is_known(house, entry):
    house = await house(spec={"relatives": ["owner"]})
    if entry == "a tombstone":
        await house.mirror.apply(JOB, [ObjectVersion.gone(Ref(JOB, "default", "owner"), "uid-of-owner")])
    # Another version of the object itself comes in, later than all that is known of Jobs.
    body = house.cluster.add(SCALED_JOB, house.owner)
    await house.mirror.apply(SCALED_JOB, [ObjectVersion(body)])
    await house.bell()
    assert len(house.snapshots) == (entry == "a tombstone")
    assert (await house.lane.stats()).failing == (entry != "a tombstone")
    await house.bring(JOB)
    await house.lane.mark([OWNER.key], forgive=True)
    await house.bell()
    assert [list(snapshot.relatives.values()) for snapshot in house.snapshots][-1:] == [[None]]


@pytest.mark.parametrize("known", [True, False], ids=["one that we made", "never heard of"])
async def test_relatives_of_a_kind_nobody_follows_are_unknown(house, known):
    house = await house(spec={"relatives": ["owner"]}, follow=False)
    house.controllers[SCALED_JOB.id] = replace(house.controllers[SCALED_JOB.id], children=())
    await house.bring(SCALED_JOB)
    if known:
        await house.mirror.apply(
            JOB, [ObjectVersion(house.cluster.add(JOB, {"metadata": {"name": "owner", "namespace": "default"}}))]
        )
    await house.bell()
    assert house.snapshots == []
    assert (await house.lane.stats()).failing == 1


@pytest.mark.parametrize(
    ("children", "decided"),
    [
        pytest.param(["a", "b"], True, id="children are there"),
        pytest.param(["a"], False, id="its children are gone too"),
        pytest.param([], False, id="it had none"),
    ],
)
async def test_what_an_object_left_behind_is_decided_on_without_it(house, children, decided):
    house = await house(accepts=lambda body: body["metadata"]["name"] == "work")
    bodies = [house.cluster.add(JOB, owned(name, house.owner)) for name in children]
    await house.follow()
    await house.bell()
    house.snapshots.clear()
    gone = [
        ObjectVersion.gone(ref_of(JOB, body), body["metadata"]["uid"])
        for body in bodies
        if ref_of(JOB, body).name == "a"
    ]
    await house.mirror.apply(JOB, gone)
    await house.mirror.apply(SCALED_JOB, [ObjectVersion.gone(OWNER, house.owner["metadata"]["uid"])])
    await house.bell()
    assert [snapshot.body for snapshot in house.snapshots] == [None] * decided
    if decided:
        assert {entry.ref.name: entry.gone for entry in house.snapshots[0].children[JOB.id]} == {"a": True, "b": False}


async def test_nothing_is_decided_on_a_mirror_that_nobody_feeds(house):
    house = await house(follow=False)
    await house.lane.mark([OWNER.key])
    await house.bell()
    assert house.snapshots == []
    assert (await house.lane.stats()).failing == 1


async def test_nothing_is_decided_while_a_child_kind_is_unknown(house):
    house = await house(follow=False)
    house.kinds = (SCALED_JOB,)
    await house.follow()
    await house.bell()
    assert house.snapshots == []
    assert (await house.lane.stats()).failing == 1


async def test_nothing_is_decided_while_a_kind_to_adopt_of_is_unknown(house):
    house = await house(adopts=(POD,), follow=False)
    await house.bring(SCALED_JOB, JOB)
    await house.bell()
    assert house.snapshots == []
    await house.bring(POD)
    await house.lane.mark([OWNER.key], forgive=True)
    await house.bell()
    assert len(house.snapshots) == 1


async def test_a_slow_watch_stops_decisions_that_need_it_and_no_others(house):
    house = await house(follow=False)
    house.kinds = (SCALED_JOB, JOB)
    house.cluster.add(SCALED_JOB, {"metadata": {"name": "asks", "namespace": "default"}, "spec": {"pods": True}})
    await house.follow()
    asks = Ref(SCALED_JOB, "default", "asks")
    owner = (await house.mirror.get(asks)).body
    await house.mirror.apply(JOB, [ObjectVersion(house.cluster.add(JOB, owned("asks-1", owner)))])
    house.controllers[JOB.id] = Controller(JOB, nothing, children=(POD,))
    await house.lane.mark([OWNER.key, asks.key, "jobs.batch/default/asks-1"])
    assert await house.bell() == 3
    assert [snapshot.ref.name for snapshot in house.snapshots] == ["work"]
    stats = await house.lane.stats()
    assert (stats.leased, stats.failing) == (0, 2)


async def test_a_batch_of_many_objects_is_observed_in_a_few_round_trips(house, fake_redis):
    house = await house(adopts=(POD,))
    house.cluster.add(POD, {"metadata": {"name": "loose", "namespace": "default"}})
    for number in range(40):
        owner = house.cluster.add(SCALED_JOB, {"metadata": {"name": f"w{number}", "namespace": "default"}, "spec": {}})
        house.cluster.add(JOB, owned(f"j{number}", owner))
    await house.follow()
    leases = (await house.lane.claim(50)).leases
    # The first time the scripts themselves travel.
    await house.observer.observe(leases)
    calls = 0
    execute = fake_redis.execute_command

    async def counted(*args, **options):
        nonlocal calls
        calls += 1
        return await execute(*args, **options)

    fake_redis.execute_command = counted
    snapshots = await house.observer.observe(leases)
    assert sum(bool(snapshot.children[JOB.id]) for snapshot in snapshots.values()) == 40
    assert {len(snapshot.loose[POD.id]) for snapshot in snapshots.values()} == {1}
    assert calls <= 2


async def test_a_controller_is_asked_once_whether_an_object_is_its_own(house):
    """Whatever else it is asked about the object, and however many ask to see more."""
    asked = []
    house = await house(
        spec={"relatives": ["a"], "pods": True},
        accepts=lambda body: not asked.append(body["metadata"]["name"]),
        everywhere=(JOB,),
        glances=lambda body: (Ref(JOB, "default", "b"),),
    )
    house.cluster.add(SCALED_JOB, {"metadata": {"name": "other", "namespace": "default"}, "spec": {}})
    await house.follow()
    assert await house.bell() == 2
    assert sorted(asked) == ["other", "work"]


async def test_what_is_not_ours_costs_no_reading(house, monkeypatch):
    house = await house(accepts=lambda body: False)
    monkeypatch.setattr(house.readings, "get_many", get_many := Counted(house.readings.get_many))
    (lease,) = (await house.lane.claim(1)).leases
    assert await house.observer.observe([lease]) == {}
    assert get_many.calls == 0


async def test_a_decision_sees_whole_kinds_and_none_that_is_not_followed(house):
    house = await house(everywhere=(JOB,))
    house.cluster.add(JOB, {"metadata": {"name": "elsewhere", "namespace": "other"}})
    await house.bring(JOB)
    await house.bell()
    assert [entry.ref.namespace for entry in house.snapshots[-1].everywhere[JOB.id]] == ["other"]


async def test_a_kind_to_be_seen_whole_that_nobody_follows_is_unknown(house):
    house = await house(everywhere=(SCALE_POLICY,))
    (lease,) = (await house.lane.claim(1)).leases
    assert isinstance((await house.observer.observe([lease]))[lease], Stale)


async def test_whole_kinds_are_read_and_asked_how_fresh_they_are_only_for_decisions_that_survey(house, monkeypatch):
    house = await house(everywhere=(SCALE_POLICY,), surveys=lambda body: body["metadata"]["name"] != "work")
    monkeypatch.setattr(house.mirror, "freshness", freshness := Counted(house.mirror.freshness))
    other = house.cluster.add(SCALED_JOB, {"metadata": {"name": "other", "namespace": "default"}, "spec": {}})
    await house.mirror.apply(SCALED_JOB, [ObjectVersion(other)])
    leases = (await house.lane.claim(2)).leases
    seen = {lease.key: seen for lease, seen in (await house.observer.observe(leases)).items()}
    assert seen[OWNER.key].everywhere == {}
    assert isinstance(seen[replace(OWNER, name="other").key], Stale)
    assert freshness.calls == 1


async def test_a_kind_to_be_seen_whole_may_be_no_child(house):
    house = await house(everywhere=(SCALE_POLICY,))
    house.cluster.add(SCALE_POLICY, {"metadata": {"name": "quota", "namespace": ""}})
    await house.bring(SCALE_POLICY)
    await house.bell()
    assert [entry.ref.name for entry in house.snapshots[-1].everywhere[SCALE_POLICY.id]] == ["quota"]


class Scales:
    """Knows one workload."""

    def __init__(self):
        self.asked = []

    async def read(self, namespace, target):
        self.asked.append((namespace, target.name))
        return Scalable(replicas=3) if target.name == "pool" else Scalable(error="away")


async def test_each_decision_sees_its_own_target_as_it_is_now(house):
    scales = Scales()
    house = await house(
        spec={"on": "pool"},
        workloads=scales,
        scales=lambda body: ScaleTarget("apps/v1", "Deployment", body["spec"]["on"]) if "on" in body["spec"] else None,
    )
    for name, spec in {"away": {"on": "other"}, "none": {}}.items():
        house.cluster.add(SCALED_JOB, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    await house.follow()
    await house.bell()
    seen = {snapshot.ref.name: snapshot.scale for snapshot in house.snapshots}
    assert seen == {"work": Scalable(replicas=3), "away": Scalable(error="away"), "none": None}
    assert sorted(scales.asked) == [("default", "other"), ("default", "pool")]


async def test_who_names_the_same_is_seen(fake_redis):
    """By the mirror's index, whatever else there is; the object itself and what is gone are not among them."""
    keys = Keys("test")
    lanes = {name: Lane(fake_redis, name, keys) for name in ("reconcile", "poll")}
    controller = Controller(SCALED_OBJECT, lambda snapshot, now: NOTHING, peers=True)
    mirror = mirror_of(fake_redis, keys, lanes, {SCALED_OBJECT.id: controller})
    for lane in lanes.values():
        await lane.open()
    listing = await mirror.begin(SCALED_OBJECT, 1)
    bodies = [
        {
            "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": "5"},
            "spec": {"scaleTargetRef": {"name": target}} if target else {},
        }
        for namespace, name, target in (
            ("team", "a", "pool"),
            ("team", "b", "pool"),
            ("team", "c", "other"),
            ("team", "d", None),
            ("else", "e", "pool"),
            ("team", "f", "pool"),
        )
    ]
    await mirror.apply(SCALED_OBJECT, [ObjectVersion(body) for body in bodies], listing=listing)
    await mirror.finish(listing, {"": "9"})
    await mirror.touch(SCALED_OBJECT, 1, await mirror.touch(SCALED_OBJECT, 1, None))
    await mirror.apply(SCALED_OBJECT, [ObjectVersion.gone(Ref(SCALED_OBJECT, "team", "f"), "team-f")])
    observer = Observer(
        controllers={SCALED_OBJECT.id: controller}, mirror=mirror, readings=Readings(fake_redis, keys), stale=10.0
    )
    claim = await lanes["reconcile"].claim(10)
    snapshots = await observer.observe(claim.leases)
    found = {
        snapshot.ref.name: [peer.ref.name for peer in snapshot.peers]
        for snapshot in snapshots.values()
        if snapshot.body
    }
    assert found == {"a": ["b"], "b": ["a"], "c": [], "d": [], "e": []}
