"""Observing: what a decision sees, what it costs, and what cannot be seen is never taken for nothing."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

from redis.exceptions import ConnectionError as BrokerAway
from redis.exceptions import NoPermissionError, ResponseError

from scheduler.keys import Keys
from scheduler.queue import UNSETTLED, Failed, Lane, RetryBackoff
from tests.support import broker_clock
from tests.support.conditions import eventually
from tests.support.stored_readings import store_readings
from tests.support.tables import cases, for_each
from tests.unit.workers.acting import KEYS, OWNER, owned
from tests.unit.workers.objects import NAMES
from tests.unit.workers.reconciling import Counted, nothing
from workers.api.kinds import JOB, POD, SCALE_POLICY, SCALED_JOB, SCALED_OBJECT, Ref, ref_of
from workers.cache.store import ObjectVersion
from workers.decision.claims import ClaimLedger, ClaimOrder
from workers.decision.controller import Controller, ScaleTarget
from workers.decision.plan import NOTHING
from workers.decision.snapshot import Reading, Scalable
from workers.errors import Stale
from workers.handoff.readings import Readings
from workers.reconcile.observe import Observer
from workers.wiring import store_of


async def test_a_decision_sees_the_object_its_children_and_the_last_reading(worker):
    worker = await worker()
    reading = Reading(id=7, started=1, generation=1)
    await store_readings(worker.readings, {OWNER.key: reading}, worker.lane)
    worker.cluster.add(JOB, owned("a", worker.owner))
    worker.cluster.add(JOB, owned("b", {"metadata": {"name": "other", "uid": "uid-of-another"}}))
    await worker.follow()
    await worker.consume()
    snapshot = worker.snapshots[-1]
    assert snapshot.ref == OWNER
    assert snapshot.body["metadata"]["uid"] == worker.owner["metadata"]["uid"]
    assert [entry.ref.name for entry in snapshot.children[JOB.id]] == ["a"]
    assert (snapshot.reading.id, snapshot.failures, snapshot.last_error) == (7, 0, None)


@cases(("with a ledger", ClaimLedger("of", 1, (), order=3)), ("without", None))
async def test_a_decision_sees_the_last_order_for_the_ledger_of_its_reading(ledger, worker):
    worker = await worker()
    stored = Reading(id=7, started=1, generation=1, ledger=ledger)
    await store_readings(worker.readings, {OWNER.key: stored}, worker.lane)
    order = ClaimOrder(4, "of", 2)
    await worker.actor.orders.put(OWNER.key, order, worker.lane)
    await worker.consume()
    snapshot = worker.snapshots[-1]
    assert (snapshot.reading.ledger, snapshot.order) == (ledger, order if ledger else None)


async def test_a_decision_never_sees_the_reading_of_a_deleted_namesake(worker):
    worker = await worker()
    old = Reading(id=7, started=1, generation=1, uid="uid-of-a-namesake")
    await store_readings(worker.readings, {OWNER.key: old}, worker.lane)
    await worker.consume()
    assert worker.snapshots[-1].reading is None


@cases(("asked for", True, ["p"]), ("not asked for", False, None))
async def test_grandchildren_are_read_only_for_decisions_that_ask(wants, seen, worker):
    worker = await worker(spec={"pods": wants})
    job = worker.cluster.add(JOB, owned("a", worker.owner))
    worker.cluster.add(POD, owned("p", job, POD))
    await worker.follow()
    await worker.consume()
    pods = worker.snapshots[-1].children.get(POD.id)
    assert (pods and [entry.ref.name for entry in pods]) == seen


async def test_a_decision_gets_the_unowned_objects_of_its_namespace(worker):
    worker = await worker(adopts=(POD,))
    worker.cluster.add(POD, {"metadata": {"name": "loose", "namespace": "default"}})
    worker.cluster.add(POD, {"metadata": {"name": "elsewhere", "namespace": "other"}})
    worker.cluster.add(POD, owned("p", worker.owner, POD))
    await worker.follow()
    await worker.consume()
    assert [entry.ref.name for entry in worker.snapshots[-1].unowned[POD.id]] == ["loose"]


async def test_a_decision_sees_what_names_its_object(worker):
    worker = await worker(referrers=(JOB,))
    for name, named in (("a", "work"), ("b", "other")):
        worker.cluster.add(JOB, {"metadata": {"name": name, "namespace": "default", "annotations": {NAMES: named}}})
    await worker.follow()
    await worker.consume()
    assert [entry.ref.name for entry in worker.snapshots[-1].referrers[JOB.id]] == ["a"]


@for_each("referrers", "cluster_wide")
async def test_nothing_is_decided_while_such_a_kind_is_unknown(sees, worker):
    worker = await worker(**{sees: (SCALE_POLICY,)})
    (lease,) = (await worker.lane.claim(1)).leases
    assert isinstance((await worker.observer.observe([lease]))[lease], Stale)


async def test_a_decision_sees_the_relatives_it_asks_for(worker):
    worker = await worker(spec={"relatives": ["here", "went", "never"]})
    here = worker.cluster.add(JOB, {"metadata": {"name": "here", "namespace": "default"}})
    went = worker.cluster.add(JOB, {"metadata": {"name": "went", "namespace": "default"}})
    await worker.follow()
    await worker.store.apply(JOB, [ObjectVersion.gone(Ref(JOB, "default", "went"), went["metadata"]["uid"])])
    await worker.consume()
    by_name = {ref.name: body for ref, body in worker.snapshots[-1].relatives.items()}
    assert by_name == {"here": here, "went": None, "never": None}


async def test_an_unknown_optional_relative_is_missing(worker):
    worker = await worker(
        spec={"relatives": ["here"]},
        optional_relatives=lambda body: (Ref(SCALE_POLICY, "", "unknown"), Ref(JOB, "default", "here")),
    )
    here = worker.cluster.add(JOB, {"metadata": {"name": "here", "namespace": "default"}})
    await worker.store.apply(JOB, [ObjectVersion(here)])
    await worker.consume()
    by_name = {ref.name: body for ref, body in worker.snapshots[-1].relatives.items()}
    assert by_name == {"here": here, "unknown": None}


@cases(("none are asked for", {}), ("not ours", {"spec": {"relatives": ["a"]}, "accepts": lambda body: False}))
async def test_relatives_are_read_only_for_decisions_that_ask(asks, worker, monkeypatch):
    worker = await worker(**asks)
    monkeypatch.setattr(worker.store, "observe", observe := Counted(worker.store.observe))
    await worker.lane.mark([OWNER.key])
    await worker.consume()
    assert observe.calls == 1


async def test_the_relatives_of_the_last_decision_are_read_with_the_object(worker, monkeypatch):
    worker = await worker(spec={"relatives": ["a"]}, optional_relatives=lambda body: (Ref(JOB, "default", "b"),))
    await worker.follow()
    monkeypatch.setattr(worker.store, "observe", observe := Counted(worker.store.observe))

    async def decided_after(*names, **spec):
        """Makes these Jobs, and edits the spec; returns the relatives, and the round trips of their decision."""
        for name in names:
            worker.cluster.add(JOB, {"metadata": {"name": name, "namespace": "default"}})
        worker.owner = worker.cluster.add(SCALED_JOB, worker.owner | ({"spec": spec} if spec else {}))
        await worker.follow()
        await worker.lane.mark([OWNER.key])
        before = observe.calls
        await worker.consume()
        seen = {ref.name for ref, body in worker.snapshots[-1].relatives.items() if body is not None}
        return seen, observe.calls - before

    assert await decided_after() == (set(), 2)
    assert await decided_after("a") == ({"a"}, 1)
    assert await decided_after("b", "c") == ({"a", "b"}, 1)
    assert await decided_after(relatives=["c"]) == ({"b", "c"}, 2)
    # Neither is the one that was asked for before.
    assert [ref.name for ref in worker.snapshots[-1].relatives] == ["b", "c"]
    assert await decided_after() == ({"b", "c"}, 1)


@cases(("relatives", {"spec": {"relatives": 7}}), ("grandchildren", {}))
async def test_a_controller_that_cannot_say_what_it_must_see_fails_its_own_key_and_no_other(spec, worker):
    worker = await worker()
    worker.cluster.add(SCALED_JOB, {"metadata": {"name": "odd", "namespace": "default"}, **spec})
    await worker.follow()
    assert await worker.consume() == 2
    assert [snapshot.ref.name for snapshot in worker.snapshots] == ["work"]
    stats = await worker.lane.stats()
    assert (stats.failing, stats.leased) == (1, 0)


@for_each("never heard of", "a tombstone")
async def test_a_relative_is_missing_only_as_far_as_its_kind_is_known(entry, worker):
    worker = await worker(spec={"relatives": ["owner"]})
    if entry == "a tombstone":
        await worker.store.apply(JOB, [ObjectVersion.gone(Ref(JOB, "default", "owner"), "uid-of-owner")])
    # Another version of the object itself comes in, later than all that is known of Jobs.
    body = worker.cluster.add(SCALED_JOB, worker.owner)
    await worker.store.apply(SCALED_JOB, [ObjectVersion(body)])
    await worker.consume()
    assert len(worker.snapshots) == (entry == "a tombstone")
    assert (await worker.lane.stats()).failing == (entry != "a tombstone")
    await worker.bring(JOB)
    await worker.lane.mark([OWNER.key], forgive=True)
    await worker.consume()
    assert [list(snapshot.relatives.values()) for snapshot in worker.snapshots][-1:] == [[None]]


async def set_back(client, *kinds):
    """The broker's clock by an hour: what is stored of these kinds was stored at moments that are to come."""
    for kind in kinds:
        objects = f"{KEYS.tag}:objects:{kind.id}"
        for name, value in (await client.hgetall(objects)).items():
            version, seen, rest = value.split(b" ", 2)
            await client.hset(objects, name, b"%b %d %b" % (version, int(seen) + 3_600_000_000, rest))


async def test_after_a_clock_was_set_back_a_relative_is_missing_again_once_its_kind_is_known(worker, fake_redis):
    worker = await worker(spec={"relatives": ["owner"]})
    await set_back(fake_redis, SCALED_JOB)
    await worker.consume()
    assert [list(snapshot.relatives.values()) for snapshot in worker.snapshots] == [[None]]


@cases(("a reading since", 0, False), ("a reading before", 1800, True))
async def test_a_reading_after_a_clock_was_set_back_is_newer_than_what_was_stored_before(
    ahead, is_news, worker, fake_redis
):
    """Else the Jobs of that time would count as made since the reading, until the clock has come as far again."""
    worker = await worker()
    worker.cluster.add(JOB, owned("a", worker.owner))
    await worker.follow()
    await set_back(fake_redis, JOB)
    started = await broker_clock.now(fake_redis) + ahead * 1_000_000
    await store_readings(worker.readings, {OWNER.key: Reading(id=7, started=started, generation=1)}, worker.lane)
    await worker.consume()
    (snapshot,) = worker.snapshots
    (job,) = snapshot.children[JOB.id]
    assert (job.seen >= snapshot.reading.started) is is_news


@cases(("one that we made", True), ("never heard of", False))
async def test_relatives_of_a_kind_that_is_not_followed_are_unknown(known, worker):
    worker = await worker(spec={"relatives": ["owner"]}, follow=False)
    worker.controllers[SCALED_JOB.id] = replace(worker.controllers[SCALED_JOB.id], children=())
    await worker.bring(SCALED_JOB)
    if known:
        await worker.store.apply(
            JOB, [ObjectVersion(worker.cluster.add(JOB, {"metadata": {"name": "owner", "namespace": "default"}}))]
        )
    await worker.consume()
    assert worker.snapshots == []
    assert (await worker.lane.stats()).failing == 1


@cases(
    ("children are there", ["a", "b"], True),
    ("its children are gone too", ["a"], False),
    ("it had none", [], False),
)
async def test_what_an_object_left_behind_is_decided_on_without_it(children, decided, worker):
    worker = await worker(accepts=lambda body: body["metadata"]["name"] == "work")
    bodies = [worker.cluster.add(JOB, owned(name, worker.owner)) for name in children]
    await worker.follow()
    await worker.consume()
    worker.snapshots.clear()
    gone = [
        ObjectVersion.gone(ref_of(JOB, body), body["metadata"]["uid"])
        for body in bodies
        if ref_of(JOB, body).name == "a"
    ]
    await worker.store.apply(JOB, gone)
    await worker.store.apply(SCALED_JOB, [ObjectVersion.gone(OWNER, worker.owner["metadata"]["uid"])])
    await worker.consume()
    assert [snapshot.body for snapshot in worker.snapshots] == [None] * decided
    if decided:
        assert {entry.ref.name: entry.gone for entry in worker.snapshots[0].children[JOB.id]} == {"a": True, "b": False}


@cases(("no kind", ()), ("not the children's", (SCALED_JOB,)))
async def test_nothing_is_decided_while_a_kind_has_no_reflector(followed, worker):
    worker = await worker(follow=False)
    await worker.bring(*followed)
    await worker.lane.mark([OWNER.key])
    await worker.consume()
    assert worker.snapshots == []
    assert (await worker.lane.stats()).failing == 1


async def test_nothing_is_decided_while_a_kind_to_adopt_of_is_unknown(worker):
    worker = await worker(adopts=(POD,), follow=False)
    await worker.bring(SCALED_JOB, JOB)
    await worker.consume()
    assert worker.snapshots == []
    await worker.bring(POD)
    await worker.lane.mark([OWNER.key], forgive=True)
    await worker.consume()
    assert len(worker.snapshots) == 1


async def test_a_slow_watch_stops_decisions_that_need_it_and_no_others(worker):
    worker = await worker(follow=False)
    worker.kinds = (SCALED_JOB, JOB)
    worker.cluster.add(SCALED_JOB, {"metadata": {"name": "asks", "namespace": "default"}, "spec": {"pods": True}})
    await worker.follow()
    asks = Ref(SCALED_JOB, "default", "asks")
    owner = (await worker.store.get(asks)).body
    await worker.store.apply(JOB, [ObjectVersion(worker.cluster.add(JOB, owned("asks-1", owner)))])
    worker.controllers[JOB.id] = Controller(JOB, nothing, children=(POD,))
    await worker.lane.mark([OWNER.key, asks.key, "jobs.batch/default/asks-1"])
    assert await worker.consume() == 3
    assert [snapshot.ref.name for snapshot in worker.snapshots] == ["work"]
    stats = await worker.lane.stats()
    assert (stats.leased, stats.failing) == (0, 2)


@for_each(True, False)
@for_each(True, False)
async def test_what_a_holder_did_before_it_died_is_known_before_jobs_are_made_again(
    caught_up, polled, worker, fake_redis
):
    worker = await worker()
    worker.controllers[SCALED_JOB.id] = replace(worker.controllers[SCALED_JOB.id], polled=polled)
    await claimed_by_one_that_dies(worker, fake_redis)
    worker.cluster.add(JOB, owned("its last", worker.owner))
    if caught_up:
        await worker.bring(JOB)
    async with aclosing(worker.store.proofs_asked_for()) as requests:
        asked = asyncio.ensure_future(anext(requests))
        await eventually(lambda: subscribed(fake_redis))
        await worker.consume()
        if polled and not caught_up:
            assert await asked == [JOB.id]
        else:
            await fake_redis.publish(worker.store.keys.freshness, "none before")
            assert await asked == ["none", "before"]
    seen = [[child.ref.name for child in snapshot.children[JOB.id]] for snapshot in worker.snapshots]
    assert seen == ([["its last"]] if caught_up else [] if polled else [[]])
    reason = await fake_redis.hget(f"{KEYS.tag}:lane:reconcile:failures", OWNER.key)
    assert (reason or b"").startswith(b"2 the lease expired at ") is (polled and not caught_up)


@for_each(
    NoPermissionError("this user has no permissions to run the 'publish' command"),
    ResponseError("unknown command 'PUBLISH'"),
)
async def test_a_broker_without_messages_gives_the_proof_later(refused, worker, fake_redis, monkeypatch):
    async def publish(*_):
        raise refused

    worker = await worker()
    await claimed_by_one_that_dies(worker, fake_redis)
    monkeypatch.setattr(fake_redis, "publish", publish)
    assert await worker.consume() == 1
    assert worker.snapshots == []
    await worker.bring(JOB)
    await worker.lane.mark([OWNER.key], forgive=True)
    await worker.consume()
    assert len(worker.snapshots) == 1


async def test_what_an_expired_lease_left_is_seen_though_the_object_is_edited_meanwhile(worker, fake_redis):
    worker = await worker()
    await claimed_by_one_that_dies(worker, fake_redis)
    worker.cluster.add(JOB, owned("its last", worker.owner))
    for version in ("900", "901"):
        await edited(worker, version)
        await worker.consume()
        assert worker.snapshots == []
    await worker.bring(JOB)
    await edited(worker, "902")
    await worker.consume()
    [snapshot] = worker.snapshots
    assert [child.ref.name for child in snapshot.children[JOB.id]] == ["its last"]


async def test_what_an_expired_lease_left_is_seen_though_the_namespace_was_full(worker, fake_redis, monkeypatch):
    worker = await worker()
    await claimed_by_one_that_dies(worker, fake_redis)
    with monkeypatch.context() as full:
        full.setattr(worker.reconciler._bulkhead, "full", lambda: {"default"})
        await worker.consume()
    await worker.lane.mark([OWNER.key], forgive=True)
    await worker.consume()
    assert worker.snapshots == []


async def test_what_an_expired_lease_left_is_seen_though_the_broker_failed_meanwhile(worker, fake_redis, monkeypatch):
    async def refuse(_):
        raise BrokerAway("the connection broke")

    worker = await worker()
    await claimed_by_one_that_dies(worker, fake_redis)
    with monkeypatch.context() as broken:
        broken.setattr(worker.store, "observe", refuse)
        await worker.consume()
    await worker.lane.mark([OWNER.key], forgive=True)
    await worker.consume()
    assert worker.snapshots == []


async def test_an_edit_ends_no_wait_for_what_may_still_take_effect(worker):
    worker = await worker()
    await worker.lane.mark([OWNER.key])
    claim = await worker.lane.claim(1)
    await worker.lane.finish([(claim.leases[0], Failed(f"{UNSETTLED}no answer in time", after=12.0))])
    await edited(worker, "900")
    assert await worker.consume() == 0


async def edited(worker, version):
    metadata = {**worker.owner["metadata"], "generation": int(version), "resourceVersion": version}
    await worker.store.apply(SCALED_JOB, [ObjectVersion({**worker.owner, "metadata": metadata})])


async def subscribed(client):
    return (await client.pubsub_numsub(f"{KEYS.tag}:freshness"))[0][1]


async def claimed_by_one_that_dies(worker, client):
    await worker.lane.mark([OWNER.key])
    dying = Lane(client, worker.lane.name, KEYS, lease=0.001, backoff=RetryBackoff(), slots=1)
    assert (await dying.claim(1)).leases
    await eventually(lambda: moved(worker.lane))


async def moved(lane):
    return (await lane.sweep()).moved


async def test_a_batch_of_many_objects_is_observed_in_a_few_round_trips(worker, fake_redis):
    worker = await worker(adopts=(POD,))
    worker.cluster.add(POD, {"metadata": {"name": "loose", "namespace": "default"}})
    for number in range(40):
        owner = worker.cluster.add(SCALED_JOB, {"metadata": {"name": f"w{number}", "namespace": "default"}, "spec": {}})
        worker.cluster.add(JOB, owned(f"j{number}", owner))
    await worker.follow()
    leases = (await worker.lane.claim(50)).leases
    # The first time the scripts themselves travel.
    await worker.observer.observe(leases)
    calls = 0
    execute = fake_redis.execute_command

    async def counted(*args, **options):
        nonlocal calls
        calls += 1
        return await execute(*args, **options)

    fake_redis.execute_command = counted
    snapshots = await worker.observer.observe(leases)
    assert sum(bool(snapshot.children[JOB.id]) for snapshot in snapshots.values()) == 40
    assert {len(snapshot.unowned[POD.id]) for snapshot in snapshots.values()} == {1}
    assert calls <= 2


async def test_a_controller_is_asked_once_whether_an_object_is_its_own(worker):
    """Whatever else it is asked about the object, and however many ask to see more."""
    asked = []
    worker = await worker(
        spec={"relatives": ["a"], "pods": True},
        accepts=lambda body: not asked.append(body["metadata"]["name"]),
        cluster_wide=(JOB,),
        optional_relatives=lambda body: (Ref(JOB, "default", "b"),),
    )
    worker.cluster.add(SCALED_JOB, {"metadata": {"name": "other", "namespace": "default"}, "spec": {}})
    await worker.follow()
    assert await worker.consume() == 2
    assert sorted(asked) == ["other", "work"]


async def test_what_is_not_ours_costs_no_reading(worker, monkeypatch):
    worker = await worker(accepts=lambda body: False)
    monkeypatch.setattr(worker.readings, "get_many", get_many := Counted(worker.readings.get_many))
    (lease,) = (await worker.lane.claim(1)).leases
    assert await worker.observer.observe([lease]) == {}
    assert get_many.calls == 0


@for_each(True, False)
async def test_a_reading_is_read_for_a_decision_that_needs_it(needed, worker, monkeypatch):
    worker = await worker(needs_reading=lambda body: needed)
    await store_readings(worker.readings, {OWNER.key: Reading(id=7, started=1, generation=1)}, worker.lane)
    monkeypatch.setattr(worker.readings, "get_many", get_many := Counted(worker.readings.get_many))
    await worker.consume()
    reading = worker.snapshots[-1].reading
    assert (get_many.calls, reading and reading.id) == ((1, 7) if needed else (0, None))


async def test_a_decision_sees_whole_kinds_and_none_that_is_not_followed(worker):
    worker = await worker(cluster_wide=(JOB,))
    worker.cluster.add(JOB, {"metadata": {"name": "elsewhere", "namespace": "other"}})
    await worker.bring(JOB)
    await worker.consume()
    assert [entry.ref.namespace for entry in worker.snapshots[-1].cluster_wide[JOB.id]] == ["other"]


async def test_cluster_wide_kinds_and_their_ages_are_read_only_for_decisions_that_need_them(worker, monkeypatch):
    worker = await worker(
        cluster_wide=(SCALE_POLICY,), reads_cluster_wide=lambda body: body["metadata"]["name"] != "work"
    )
    monkeypatch.setattr(worker.store, "freshness", freshness := Counted(worker.store.freshness))
    other = worker.cluster.add(SCALED_JOB, {"metadata": {"name": "other", "namespace": "default"}, "spec": {}})
    await worker.store.apply(SCALED_JOB, [ObjectVersion(other)])
    leases = (await worker.lane.claim(2)).leases
    seen = {lease.key: seen for lease, seen in (await worker.observer.observe(leases)).items()}
    assert seen[OWNER.key].cluster_wide == {}
    assert isinstance(seen[replace(OWNER, name="other").key], Stale)
    assert freshness.calls == 1


async def test_a_kind_to_be_seen_whole_may_be_no_child(worker):
    worker = await worker(cluster_wide=(SCALE_POLICY,))
    worker.cluster.add(SCALE_POLICY, {"metadata": {"name": "quota", "namespace": ""}})
    await worker.bring(SCALE_POLICY)
    await worker.consume()
    assert [entry.ref.name for entry in worker.snapshots[-1].cluster_wide[SCALE_POLICY.id]] == ["quota"]


class Scales:
    """Knows one workload."""

    def __init__(self):
        self.asked = []

    async def read(self, namespace, target):
        self.asked.append((namespace, target.name))
        return Scalable(replicas=3) if target.name == "pool" else Scalable(error="away")


async def test_each_decision_sees_its_own_target_as_it_is_now(worker):
    scales = Scales()
    worker = await worker(
        spec={"on": "pool"},
        workloads=scales,
        scales=lambda body: ScaleTarget("apps/v1", "Deployment", body["spec"]["on"]) if "on" in body["spec"] else None,
    )
    for name, spec in {"away": {"on": "other"}, "none": {}}.items():
        worker.cluster.add(SCALED_JOB, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    await worker.follow()
    await worker.consume()
    seen = {snapshot.ref.name: snapshot.scale for snapshot in worker.snapshots}
    assert seen == {"work": Scalable(replicas=3), "away": Scalable(error="away"), "none": None}
    assert sorted(scales.asked) == [("default", "other"), ("default", "pool")]


async def test_who_names_the_same_is_seen(fake_redis):
    """By the store's index, whatever else there is; the object itself and what is gone are not among them."""
    keys = Keys("test")
    lanes = {name: Lane(fake_redis, name, keys) for name in ("reconcile", "poll")}
    controller = Controller(SCALED_OBJECT, lambda snapshot, now: NOTHING, peers=(SCALED_OBJECT,))
    store = store_of(fake_redis, keys, lanes, {SCALED_OBJECT.id: controller})
    for lane in lanes.values():
        await lane.open()
    listing = await store.begin(SCALED_OBJECT, 1)
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
    await store.apply(SCALED_OBJECT, [ObjectVersion(body) for body in bodies], listing=listing)
    await store.finish(listing, {"": "9"})
    await store.touch(SCALED_OBJECT, 1, await store.touch(SCALED_OBJECT, 1, None))
    await store.apply(SCALED_OBJECT, [ObjectVersion.gone(Ref(SCALED_OBJECT, "team", "f"), "team-f")])
    observer = Observer(
        controllers={SCALED_OBJECT.id: controller}, store=store, readings=Readings(fake_redis, keys), stale=10.0
    )
    claim = await lanes["reconcile"].claim(10)
    snapshots = await observer.observe(claim.leases)
    found = {
        snapshot.ref.name: [peer.ref.name for peer in snapshot.peers]
        for snapshot in snapshots.values()
        if snapshot.body
    }
    assert found == {"a": ["b"], "b": ["a"], "c": [], "d": [], "e": []}
