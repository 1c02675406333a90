"""Observe, decide, act: what a decision sees, and what becomes of the key afterwards."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.keys import Keys
from scheduler.queue import Done, Lane
from tests.unit.workers.clusters import MemoryCluster
from tests.unit.workers.objects import NAMES, tie
from workers.act import Actor
from workers.api.kinds import JOB, POD, SCALE_POLICY, SCALED_JOB, Ref, ref_of
from workers.caps import Reservation
from workers.controller import Controller
from workers.decisions import Decisions
from workers.drain import Drain
from workers.errors import Invalid, Stale, Unavailable
from workers.holding import Hands
from workers.mirror import Change, Mirror
from workers.orders import Orders
from workers.plan import NOTHING, ComeBack, Create, PatchStatus, Plan
from workers.readings import Readings
from workers.reconcile import Reconciler
from workers.snapshot import Reading

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
OWNER = Ref(SCALED_JOB, "default", "work")


class Silent:
    def record(self, kind, regarding, record):
        pass


async def ring(bells):
    pass


class House:
    """A reconcile worker around one stub decision, on fakes."""

    def __init__(self, client, decide, *, reservations=None, **sees):
        keys = Keys("test")
        self.lanes = {name: Lane(client, name, keys) for name in ("reconcile", "poll")}
        self.lane = self.lanes["reconcile"]
        self.cluster = MemoryCluster()
        lanes_of = {SCALED_JOB.id: tuple(self.lanes.values()), JOB.id: (self.lane,)}
        self.mirror = Mirror(client, keys, lanes_of, adopted={POD.id}, ties={JOB.id: tie})
        self.readings = Readings(client, keys)
        self.decisions = Decisions(client, keys)
        self.snapshots = []
        self.kinds = (SCALED_JOB, JOB, POD)

        def recorded(snapshot, now):
            self.snapshots.append(snapshot)
            return decide(snapshot, now)

        controller = Controller(
            SCALED_JOB,
            recorded,
            children=(JOB,),
            grandchildren=lambda body: (POD,) if body["spec"].get("pods") else (),
            relatives=lambda body: tuple(Ref(JOB, "default", name) for name in body["spec"].get("relatives", ())),
            polled=True,
            **sees,
        )
        self.reconciler = Reconciler(
            controllers={SCALED_JOB.id: controller},
            mirror=self.mirror,
            readings=self.readings,
            actor=Actor(
                cluster=self.cluster,
                mirror=self.mirror,
                recorder=Silent(),
                orders=Orders(client, keys),
                reconcile=self.lane,
                poll=self.lanes["poll"],
                ring=ring,
                in_flight=4,
            ),
            decisions=self.decisions,
            reservations=reservations,
            clock=lambda: NOON,
            deadline=30.0,
            stale=10.0,
        )

    async def follow(self):
        """Informers that are up to date."""
        await self.bring(*self.kinds)

    async def bring(self, *kinds):
        """What the cluster holds of these kinds is in the mirror now."""
        for kind in kinds:
            listing = await self.mirror.begin(kind, 1)
            bodies = [body for ref, body in self.cluster.objects.items() if ref.kind is kind]
            await self.mirror.apply(kind, [Change(body) for body in bodies], listing=listing)
            await self.mirror.finish(listing, {"": "999"})
            now = await self.mirror.touch(kind, 1, None)
            await self.mirror.touch(kind, 1, now)

    async def bell(self):
        hands = Hands(self.lane, ring, lease=15.0)
        worked = await Drain(hands, self.reconciler.handle, ring, batch=16, work=60.0).bell()
        await hands.close()
        return worked


class Counted:
    """An asynchronous function, and how often it was called."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    async def __call__(self, *args, **options):
        self.calls += 1
        return await self.function(*args, **options)


def owned(name, owner, kind=JOB):
    reference = {
        "apiVersion": "keda.sh/v1alpha1" if kind is JOB else "batch/v1",
        "kind": "ScaledJob" if kind is JOB else "Job",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {"metadata": {"name": name, "namespace": "default", "ownerReferences": [reference]}}


def nothing(snapshot, now):
    return NOTHING


@pytest.fixture
def house(fake_redis):
    """A factory: a house with one ScaledJob, followed by an informer."""

    async def build(decide=nothing, *, follow=True, spec=None, **more):
        house = House(fake_redis, decide, **more)
        await house.lane.open()
        body = {"metadata": {"name": "work", "namespace": "default"}, "spec": spec or {}}
        house.owner = house.cluster.add(SCALED_JOB, body)
        if follow:
            await house.follow()
        return house

    return build


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
    assert isinstance((await house.reconciler.observe([lease]))[lease], Stale)


async def test_a_decision_sees_the_relatives_it_asks_for(house):
    house = await house(spec={"relatives": ["here", "went", "never"]})
    here = house.cluster.add(JOB, {"metadata": {"name": "here", "namespace": "default"}})
    went = house.cluster.add(JOB, {"metadata": {"name": "went", "namespace": "default"}})
    await house.follow()
    await house.mirror.apply(JOB, [Change.gone(Ref(JOB, "default", "went"), went["metadata"]["uid"])])
    await house.bell()
    by_name = {ref.name: body for ref, body in house.snapshots[-1].relatives.items()}
    assert by_name == {"here": here, "went": None, "never": None}


async def test_what_is_only_glanced_at_is_missing_as_long_as_it_is_not_known(house):
    house = await house(
        spec={"relatives": ["here"]},
        glances=lambda body: (Ref(SCALE_POLICY, "", "unknown"), Ref(JOB, "default", "here")),
    )
    here = house.cluster.add(JOB, {"metadata": {"name": "here", "namespace": "default"}})
    await house.mirror.apply(JOB, [Change(here)])
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
        await house.mirror.apply(JOB, [Change.gone(Ref(JOB, "default", "owner"), "uid-of-owner")])
    # Another version of the object itself comes in, later than all that is known of Jobs.
    body = house.cluster.add(SCALED_JOB, house.owner)
    await house.mirror.apply(SCALED_JOB, [Change(body)])
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
    house.reconciler._controllers[SCALED_JOB.id] = replace(house.reconciler._controllers[SCALED_JOB.id], children=())
    await house.bring(SCALED_JOB)
    if known:
        await house.mirror.apply(
            JOB, [Change(house.cluster.add(JOB, {"metadata": {"name": "owner", "namespace": "default"}}))]
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
    gone = [Change.gone(ref_of(JOB, body), body["metadata"]["uid"]) for body in bodies if ref_of(JOB, body).name == "a"]
    await house.mirror.apply(JOB, gone)
    await house.mirror.apply(SCALED_JOB, [Change.gone(OWNER, house.owner["metadata"]["uid"])])
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
    await house.mirror.apply(JOB, [Change(house.cluster.add(JOB, owned("asks-1", owner)))])
    house.reconciler._controllers[JOB.id] = Controller(JOB, nothing, children=(POD,))
    await house.lane.mark([OWNER.key, asks.key, "jobs.batch/default/asks-1"])
    assert await house.bell() == 3
    assert [snapshot.ref.name for snapshot in house.snapshots] == ["work"]
    stats = await house.lane.stats()
    assert (stats.leased, stats.failing) == (0, 2)


async def test_no_work_goes_on_after_its_lease_was_given_back_for_another_ones_error(house, monkeypatch):
    house = await house(lambda snapshot, now: Plan((Create(JOB, owned(snapshot.ref.name, snapshot.body)),)))
    house.cluster.add(SCALED_JOB, {"metadata": {"name": "slow", "namespace": "default"}, "spec": {}})
    await house.follow()
    slow_is_at_work, may_go_on = asyncio.Event(), asyncio.Event()
    create, finish = house.cluster.create, house.lane.finish
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

    monkeypatch.setattr(house.cluster, "create", creating)
    monkeypatch.setattr(house.lane, "finish", finishing)
    await house.bell()
    key = "scaledjobs.keda.sh/default/slow"
    assert [outcomes[key] for outcomes in finished if key in outcomes] == [Done]


async def test_an_object_that_is_not_ours_is_left_alone(house):
    house = await house(accepts=lambda body: False)
    await house.lane.mark([OWNER.key])
    await house.bell()
    assert house.snapshots == []
    stats = await house.lane.stats()
    assert (stats.ready, stats.leased, stats.failing) == (0, 0, 0)


@pytest.mark.parametrize("key", ["nonsense", "widgets.example/default/a", "scaledjobs.keda.sh/default/gone"])
async def test_keys_that_name_nothing_are_dropped(house, key):
    house = await house()
    await house.bell()
    await house.lane.mark([key])
    assert await house.bell() == 1
    stats = await house.lane.stats()
    assert (stats.ready, stats.later, stats.leased, stats.failing) == (0, 0, 0, 0)


async def test_a_plan_that_says_when_books_the_key(house):
    house = await house(lambda snapshot, now: Plan((ComeBack(now + timedelta(days=365)),)))
    await house.bell()
    stats = await house.lane.stats()
    assert (stats.later, stats.due, stats.failing) == (1, 0, 0)


@pytest.mark.parametrize("late", [timedelta(0), timedelta(days=1)], ids=["now", "over"])
async def test_a_plan_that_comes_back_now_is_decided_on_again_at_once(house, late):
    again = iter((True, True, False))
    house = await house(lambda snapshot, now: Plan((ComeBack(now - late),)) if next(again) else NOTHING)
    assert await house.bell() == 3
    stats = await house.lane.stats()
    assert (len(house.snapshots), stats.ready, stats.later, stats.failing) == (3, 0, 0, 0)


async def test_a_refused_step_comes_back_with_backoff_and_the_next_decision_is_told_why(house):
    house = await house(lambda snapshot, now: Plan((Create(JOB, owned("a", house.owner)),)))

    def refuse(verb, ref):
        raise Invalid('Job "a" is invalid: spec.template: Required value', status=422)

    house.cluster.refuse = refuse
    await house.bell()
    stats = await house.lane.stats()
    assert (stats.failing, stats.later, stats.ready) == (1, 1, 0)
    await house.lane.mark([OWNER.key], forgive=False)
    await house.lane.sweep()
    claim = await house.lane.claim(1)
    if not claim.leases:
        # Still in its backoff: it is booked, not lost.
        assert (await house.lane.stats()).later == 1
        return
    assert claim.leases[0].reason == 'Job "a" is invalid: spec.template: Required value'


async def test_a_decision_that_crashes_fails_its_own_key_and_no_other(house):
    def decide(snapshot, now):
        if snapshot.ref.name == "work":
            raise KeyError("spec")
        return NOTHING

    house = await house(decide)
    house.cluster.add(SCALED_JOB, {"metadata": {"name": "fine", "namespace": "default"}, "spec": {}})
    await house.follow()
    await house.bell()
    assert {snapshot.ref.name for snapshot in house.snapshots} == {"work", "fine"}
    stats = await house.lane.stats()
    assert (stats.failing, stats.leased) == (1, 0)


async def test_a_batch_of_many_objects_is_observed_in_a_few_round_trips(house, fake_redis):
    house = await house(adopts=(POD,))
    house.cluster.add(POD, {"metadata": {"name": "loose", "namespace": "default"}})
    for number in range(40):
        owner = house.cluster.add(SCALED_JOB, {"metadata": {"name": f"w{number}", "namespace": "default"}, "spec": {}})
        house.cluster.add(JOB, owned(f"j{number}", owner))
    await house.follow()
    leases = (await house.lane.claim(50)).leases
    # The first time the scripts themselves travel.
    await house.reconciler.observe(leases)
    calls = 0
    execute = fake_redis.execute_command

    async def counted(*args, **options):
        nonlocal calls
        calls += 1
        return await execute(*args, **options)

    fake_redis.execute_command = counted
    snapshots = await house.reconciler.observe(leases)
    assert sum(bool(snapshot.children[JOB.id]) for snapshot in snapshots.values()) == 40
    assert {len(snapshot.loose[POD.id]) for snapshot in snapshots.values()} == {1}
    assert calls <= 2


@pytest.mark.parametrize(
    ("error", "soon"),
    [(Unavailable("no route to host"), True), (Invalid("spec.template: Required value", status=422), False)],
    ids=["a server that is away", "a refusal"],
)
async def test_only_what_may_be_over_at_any_moment_is_tried_again_soon(house, error, soon):
    house = await house(lambda snapshot, now: Plan((PatchStatus({"a": 1}),)))
    house.lane._base = house.lane._cap = 3600 * 1_000_000

    def refuse(verb, ref):
        raise error

    house.cluster.refuse = refuse
    await house.bell()
    swept = await house.lane.sweep()
    assert (swept.next - time.time() < 60) is soon


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
        return Plan(reservation=Reservation((), 1, 4))
    return Plan((PatchStatus({"allowed": snapshot.allowance}),), "decided within limits")


async def test_a_decision_that_asks_for_a_reservation_is_made_anew_with_the_answer(house):
    answering = Answering(3)
    house = await house(within_limits, reservations=answering)
    await house.bell()
    assert answering.asked == [Reservation((), 1, 4)]
    assert [snapshot.allowance for snapshot in house.snapshots] == [None, 3]
    assert house.cluster.objects[OWNER]["status"] == {"allowed": 3}


async def test_where_no_limits_are_kept_the_key_fails_and_nothing_is_done(house):
    house = await house(within_limits)
    await house.bell()
    assert "status" not in house.cluster.objects[OWNER]
    assert (await house.lane.stats()).failing == 1


async def test_a_decision_sees_whole_kinds_and_none_that_is_not_followed(house):
    house = await house(everywhere=(JOB,))
    house.cluster.add(JOB, {"metadata": {"name": "elsewhere", "namespace": "other"}})
    await house.bring(JOB)
    await house.bell()
    assert [entry.ref.namespace for entry in house.snapshots[-1].everywhere[JOB.id]] == ["other"]


async def test_a_kind_to_be_seen_whole_that_nobody_follows_is_unknown(house):
    house = await house(everywhere=(SCALE_POLICY,))
    (lease,) = (await house.lane.claim(1)).leases
    assert isinstance((await house.reconciler.observe([lease]))[lease], Stale)


async def test_whole_kinds_are_read_and_asked_how_fresh_they_are_only_for_decisions_that_survey(house, monkeypatch):
    house = await house(everywhere=(SCALE_POLICY,), surveys=lambda body: body["metadata"]["name"] != "work")
    monkeypatch.setattr(house.mirror, "freshness", freshness := Counted(house.mirror.freshness))
    other = house.cluster.add(SCALED_JOB, {"metadata": {"name": "other", "namespace": "default"}, "spec": {}})
    await house.mirror.apply(SCALED_JOB, [Change(other)])
    leases = (await house.lane.claim(2)).leases
    seen = {lease.key: seen for lease, seen in (await house.reconciler.observe(leases)).items()}
    assert seen[OWNER.key].everywhere == {}
    assert isinstance(seen[replace(OWNER, name="other").key], Stale)
    assert freshness.calls == 1


async def test_a_kind_to_be_seen_whole_may_be_no_child(house):
    house = await house(everywhere=(SCALE_POLICY,))
    house.cluster.add(SCALE_POLICY, {"metadata": {"name": "quota", "namespace": ""}})
    await house.bring(SCALE_POLICY)
    await house.bell()
    assert [entry.ref.name for entry in house.snapshots[-1].everywhere[SCALE_POLICY.id]] == ["quota"]
