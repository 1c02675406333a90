"""The store against a broker: order of versions, tombstones, owners, marks, epochs, relists, one-trip observation."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import redis.asyncio as redis_async

from scheduler.keys import Keys
from scheduler.queue import Done, Failed, Lane
from tests.support.tables import cases, for_each
from tests.unit.workers.objects import job, key, ref, refers_to, scaled_job
from workers.api.kinds import JOB, POD, SCALED_JOB, Kind, Object, Ref, ref_of
from workers.cache import codec
from workers.cache.decode_cache import DecodeCache
from workers.cache.observations import ObserveRequest
from workers.cache.store import LeadershipLost, ObjectVersion, Store, StoreLost
from workers.decision.snapshot import CachedObject
from workers.errors import Stale

SECOND = 1_000_000


class StoreRig:
    """A store with its two lanes on one broker, and a clock that tests move."""

    def __init__(self, client: redis_async.Redis) -> None:
        self.client = client
        self.now = 1_700_000_000 * SECOND
        keys = Keys("test")
        self.reconcile = Lane(client, "reconcile", keys, clock=lambda: self.now)
        self.poll = Lane(client, "poll", keys, clock=lambda: self.now)
        lanes_of = {SCALED_JOB.id: (self.reconcile, self.poll), JOB.id: (self.reconcile,)}
        accepts = {JOB.id: lambda body: "theirs" not in body["metadata"].get("labels", {})}
        self.store = Store(
            client,
            keys,
            lanes_of,
            accepts=accepts,
            adopted={JOB.id},
            references={JOB.id: refers_to},
            clock=lambda: self.now,
        )

    async def put(self, *bodies: Object, acting: str | None = None, epoch: int | None = None) -> dict[str, int]:
        notifications: dict[str, int] = {}
        for body in bodies:
            kind = SCALED_JOB if body["kind"] == "ScaledJob" else JOB
            if acting:
                notifications |= await self.store.write_through(kind, [ObjectVersion(body)], acting)
            else:
                notifications |= await self.store.apply(kind, [ObjectVersion(body)], epoch=epoch)
        return notifications

    async def list(self, *bodies: Object, version: str, namespace: str = "", kind: Kind = JOB) -> None:
        """A relist of a kind that names these objects."""
        listing = await self.store.begin(kind, epoch=1)
        await self.store.apply(kind, [ObjectVersion(body) for body in bodies], listing=listing)
        await self.store.finish(listing, {namespace: version})

    async def marked(self, lane: str = "reconcile") -> set[str]:
        """What was marked since the last look."""
        which: Lane = getattr(self, lane)
        await which.open()
        claim = await which.claim(1000)
        await which.finish([(lease, Done()) for lease in claim.leases])
        return {lease.key for lease in claim.leases}

    async def version(self, name: str) -> str | None:
        entry = await self.store.get(ref(JOB, name))
        return entry.body["metadata"]["resourceVersion"] if entry and entry.body else None


@pytest.fixture
async def rig(fake_redis: redis_async.Redis) -> StoreRig:
    return StoreRig(fake_redis)


OWNER = scaled_job("work", 1)


async def test_an_unknown_object_is_none_and_a_known_one_comes_back_without_managed_fields(rig: StoreRig) -> None:
    assert await rig.store.get(ref(JOB, "a")) is None
    await rig.put(job("a", 5, managedFields=[{"manager": "x"}], annotations={"keep": "me"}))
    assert await rig.store.get(ref(JOB, "a")) == CachedObject(
        ref(JOB, "a"), job("a", 5, annotations={"keep": "me"}), rig.now
    )


@cases(
    ("a later version wins", job("a", 5), job("a", 6), "6"),
    ("an older version that comes late changes nothing", job("a", 6), job("a", 5), "6"),
    ("versions are numbers, not words", job("a", 9), job("a", 10), "10"),
    ("an object made again under its name wins", job("a", 5), job("a", 8, uid="other"), "8"),
    ("a late echo of its predecessor does not", job("a", 8, uid="other"), job("a", 5), "8"),
)
async def test_of_two_versions_the_later_stays(first: Object, second: Object, stays: str, rig: StoreRig) -> None:
    await rig.put(first)
    await rig.put(second)
    assert await rig.version("a") == stays


@cases(
    ("not even by a later version", ObjectVersion.gone(ref(JOB, "a"), "uid-a"), job("a", 7), None),
    ("nor after a watched deletion", ObjectVersion.deleted(JOB, job("a", 8)), job("a", 7), None),
    ("but by a new object", ObjectVersion.gone(ref(JOB, "a"), "uid-a"), job("a", 9, uid="new"), "9"),
    ("not by an older object", ObjectVersion.deleted(JOB, job("a", 8)), job("a", 4, uid="old"), None),
    ("of which only the end was seen", ObjectVersion.deleted(JOB, job("a", 9, uid="second")), job("a", 8), None),
)
async def test_a_deleted_object_does_not_come_back(
    deletion: ObjectVersion, echo: Object, stays: str | None, rig: StoreRig
) -> None:
    await rig.put(job("a", 5))
    await rig.store.apply(JOB, [deletion])
    await rig.put(echo)
    assert await rig.version("a") == stays


async def test_a_deletion_concerns_only_the_object_of_its_uid(rig: StoreRig) -> None:
    await rig.put(job("a", 9, uid="new"))
    await rig.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "a"), "uid-a")])
    await rig.store.apply(JOB, [ObjectVersion.deleted(JOB, job("a", 8))])
    assert await rig.version("a") == "9"


async def test_a_deletion_must_say_whose(rig: StoreRig) -> None:
    with pytest.raises(ValueError, match="uid"):
        await rig.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "a"), "")])


async def test_children_are_found_by_their_owners_uid_and_gone_ones_are_among_them(rig: StoreRig) -> None:
    other = scaled_job("other", 1)
    await rig.put(job("a", 2, owner=OWNER), job("b", 3, owner=OWNER), job("c", 4, owner=other), job("d", 5))
    rig.now += SECOND
    await rig.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "b"), "uid-b")])
    children = {entry.ref.name: entry for entry in await rig.store.children(JOB, "uid-work")}
    assert set(children) == {"a", "b"}
    assert not children["a"].gone
    assert children["b"].gone
    assert children["b"].seen == rig.now
    assert await rig.store.children(JOB, "uid-wor") == ()


async def test_a_child_that_changes_its_owner_is_the_new_ones_and_both_hear_of_it(rig: StoreRig) -> None:
    other = scaled_job("other", 1)
    await rig.put(OWNER, other, job("a", 2, owner=OWNER))
    await rig.marked()
    await rig.put(job("a", 3, owner=other))
    assert await rig.store.children(JOB, "uid-work") == ()
    assert [entry.ref.name for entry in await rig.store.children(JOB, "uid-other")] == ["a"]
    assert await rig.marked() >= {key(SCALED_JOB, "work"), key(SCALED_JOB, "other")}


async def test_in_one_batch_the_last_version_decides_whose_child_an_object_is(rig: StoreRig) -> None:
    other = scaled_job("other", 1)
    versions = [job("a", 2, owner=OWNER), job("a", 3, owner=other), job("a", 4, owner=OWNER)]
    await rig.store.apply(JOB, [ObjectVersion(body) for body in versions])
    assert [entry.ref.name for entry in await rig.store.children(JOB, "uid-work")] == ["a"]
    assert await rig.store.children(JOB, "uid-other") == ()


async def test_a_change_marks_the_object_and_its_owner_and_returns_the_notifications(rig: StoreRig) -> None:
    await rig.put(OWNER)
    assert await rig.marked() == {key(SCALED_JOB, "work")}
    notifications = await rig.put(job("a", 2, owner=OWNER))
    assert notifications == {"reconcile": 1}
    assert await rig.marked() == {key(SCALED_JOB, "work"), key(JOB, "a")}


async def test_an_echo_of_what_is_known_marks_nothing(rig: StoreRig) -> None:
    child = job("a", 2, owner=OWNER)
    await rig.put(OWNER, child)
    await rig.marked()
    assert await rig.put(OWNER, child) == {}
    assert await rig.marked() == set()


async def test_what_a_reconcile_does_itself_does_not_mark_its_own_key(rig: StoreRig) -> None:
    await rig.put(OWNER)
    await rig.marked()
    acting = key(SCALED_JOB, "work")
    await rig.put(job("a", 2, owner=OWNER), acting=acting)
    await rig.put(scaled_job("work", 3), acting=acting)
    assert await rig.marked() == {key(JOB, "a")}


async def test_what_a_plan_at_work_makes_is_awaited_by_no_decision_and_its_end_is(rig: StoreRig) -> None:
    owner = scaled_job("work", 1)

    async def awaited(body: Object, kind: Kind = JOB) -> int:
        return (await rig.store.apply_counted(kind, [ObjectVersion(body)])).awaited

    assert await awaited(owner, SCALED_JOB) == 2, "both lanes decide on a new object"
    await rig.reconcile.open()
    (lease,) = (await rig.reconcile.claim(1)).leases
    assert await awaited(job("a", 2, owner=owner, labels={"theirs": "1"})) == 0
    assert await awaited(scaled_job("work", 3), SCALED_JOB) == 0
    assert (await rig.reconcile.stats()).dirty == 1, "all the same it is decided on once more"
    assert await awaited(job("a", 4, owner=owner, labels={"theirs": "1"})) == 1
    await rig.reconcile.finish([(lease, Done())])
    await rig.marked()
    assert await awaited(job("a", 4, owner=owner, labels={"theirs": "1"})) == 0, "it is known"
    assert await awaited(job("b", 5, owner=owner, labels={"theirs": "1"})) == 1, "nobody is at work on its owner"


async def test_notifications_of_a_shared_round_trip_are_sent_though_its_first_caller_is_gone(rig: StoreRig) -> None:
    await rig.put(OWNER)
    await rig.marked()
    plans = [
        asyncio.create_task(
            rig.store.write_through(JOB, [ObjectVersion(job(name, number, owner=OWNER))], key(JOB, name), pause=0.01)
        )
        for number, name in ((2, "a"), (3, "b"))
    ]
    await asyncio.sleep(0)
    plans[0].cancel()
    assert await plans[1] == {"reconcile": 1}
    assert await rig.marked() == {key(SCALED_JOB, "work")}


async def test_a_users_edit_that_comes_with_our_own_write_still_marks(rig: StoreRig) -> None:
    await rig.put(OWNER)
    await rig.marked()
    await rig.put(scaled_job("work", 3, generation=2), acting=key(SCALED_JOB, "work"))
    assert await rig.marked() == {key(SCALED_JOB, "work")}


async def test_owners_that_are_not_reconciled_are_not_marked(rig: StoreRig) -> None:
    unknown = {**OWNER, "kind": "Widget", "apiVersion": "example.com/v1"}
    theirs = job("theirs", 1, labels={"theirs": "yes"})
    await rig.put(theirs, job("a", 2, owner=unknown), job("b", 3, owner=theirs), job("c", 4, owner=OWNER))
    assert await rig.marked() == {key(JOB, name) for name in "abc"}
    assert len(await rig.store.children(JOB, "uid-work")) == 2


async def test_the_child_of_an_earlier_object_of_the_same_name_does_not_mark_its_successor(rig: StoreRig) -> None:
    await rig.put(scaled_job("work", 5, uid="second"))
    await rig.marked()
    await rig.put(job("a", 6, owner=OWNER))
    assert await rig.marked() == {key(JOB, "a")}


@cases(
    ("its generation", scaled_job("work", 2, generation=2), True),
    ("its annotations", scaled_job("work", 2, annotations={"paused": "true"}), True),
    ("not its status", {**scaled_job("work", 2), "status": {"lastActiveTime": "now"}}, False),
)
async def test_triggers_are_measured_again_when_a_user_changes(version: Object, polled: bool, rig: StoreRig) -> None:
    await rig.put(OWNER)
    assert await rig.marked("poll") == {key(SCALED_JOB, "work")}
    await rig.put(version)
    assert (await rig.marked("poll") == {key(SCALED_JOB, "work")}) is polled


async def test_a_deleted_object_is_marked_in_all_its_lanes(rig: StoreRig) -> None:
    await rig.put(OWNER)
    await rig.marked()
    await rig.marked("poll")
    await rig.store.apply(SCALED_JOB, [ObjectVersion.deleted(SCALED_JOB, scaled_job("work", 2))])
    assert await rig.marked() == await rig.marked("poll") == {key(SCALED_JOB, "work")}


@cases(
    ("an edit ends it", scaled_job("work", 3, generation=2), True),
    ("a deletion ends it", scaled_job("work", 3, deletionTimestamp="2026-01-01T00:00:00Z"), True),
    ("a status does not", {**scaled_job("work", 3), "status": {"x": 1}}, False),
)
async def test_backoff_waits_unless_a_user_changed_something(version: Object, forgiven: bool, rig: StoreRig) -> None:
    await rig.put(OWNER)
    await rig.reconcile.open()
    claim = await rig.reconcile.claim(1)
    await rig.reconcile.finish([(lease, Failed("refused", None)) for lease in claim.leases])
    await rig.put(version)
    assert (await rig.marked() == {key(SCALED_JOB, "work")}) is forgiven


async def test_freshness_is_unknown_until_claimed_and_then_ages(rig: StoreRig) -> None:
    assert await rig.store.freshness([JOB]) == {JOB.id: None}
    with pytest.raises(Stale, match=JOB.id):
        await rig.store.require_fresh([JOB], 10)
    await rig.store.begin(JOB, epoch=1)
    assert await rig.store.freshness([JOB]) == {JOB.id: None}
    await rig.store.touch(JOB, 1, rig.now)
    rig.now += 3 * SECOND
    assert await rig.store.freshness([JOB]) == {JOB.id: 3.0}
    await rig.store.require_fresh([JOB], 10)
    with pytest.raises(Stale, match=r"jobs\.batch .* 3\.0 s"):
        await rig.store.require_fresh([JOB], 2)


async def test_freshness_never_goes_back_nor_ahead_of_the_clock(rig: StoreRig) -> None:
    await rig.store.begin(JOB, epoch=1)
    await rig.store.touch(JOB, 1, rig.now + 60 * SECOND)
    rig.now += SECOND
    await rig.store.touch(JOB, 1, rig.now - 30 * SECOND)
    assert await rig.store.freshness([JOB]) == {JOB.id: 1.0}


async def test_freshness_is_unknown_when_the_clock_was_set_back_until_it_is_claimed_again(rig: StoreRig) -> None:
    await rig.store.begin(JOB, epoch=1)
    await rig.store.touch(JOB, 1, rig.now)
    rig.now -= 3600 * SECOND
    assert await rig.store.freshness([JOB]) == {JOB.id: None}
    await rig.store.touch(JOB, 1, rig.now)
    rig.now += SECOND
    assert await rig.store.freshness([JOB]) == {JOB.id: 1.0}


async def _apply(rig: StoreRig, epoch: int) -> Any:
    return await rig.put(job("a", 5), epoch=epoch)


async def _touch(rig: StoreRig, epoch: int) -> Any:
    return await rig.store.touch(JOB, epoch, rig.now)


async def _begin(rig: StoreRig, epoch: int) -> Any:
    return await rig.store.begin(JOB, epoch)


@cases(("apply", _apply), ("touch", _touch), ("begin", _begin))
async def test_an_informer_of_an_earlier_epoch_can_write_nothing(write: Any, rig: StoreRig) -> None:
    await rig.store.begin(JOB, epoch=2)
    with pytest.raises(LeadershipLost):
        await write(rig, 1)
    assert await rig.version("a") is None
    assert await rig.store.freshness([JOB]) == {JOB.id: None}


@cases(("apply", _apply), ("touch", _touch))
async def test_an_informer_notices_that_the_broker_was_flushed(write: Any, rig: StoreRig) -> None:
    await rig.store.begin(JOB, epoch=1)
    await write(rig, 1)
    await rig.client.flushall()
    with pytest.raises(StoreLost):
        await write(rig, 1)


@cases(("another member", b"stranger"), ("the child", b"uid-work default/a"))
async def test_an_index_whose_scores_were_changed_is_made_again(member: bytes, rig: StoreRig) -> None:
    child = job("a", 2, owner=OWNER)
    await rig.list(child, version="2")
    await rig.store.touch(JOB, 1, rig.now)
    assert await rig.store.freshness([JOB]) == {JOB.id: 0.0}
    await rig.client.zadd(rig.store.keys.owners(JOB.id), {member: 7})
    with pytest.raises(StoreLost):
        await _touch(rig, 1)
    assert await rig.store.freshness([JOB]) == {JOB.id: None}
    await rig.list(child, version="2")
    assert [entry.ref.name for entry in await rig.store.children(JOB, "uid-work")] == ["a"]


async def test_a_new_leader_must_list_before_it_writes(rig: StoreRig) -> None:
    await rig.store.begin(JOB, epoch=1)
    with pytest.raises(StoreLost):
        await rig.put(job("a", 5), epoch=2)


async def test_a_relist_buries_what_it_did_not_name_and_spares_what_is_newer(rig: StoreRig) -> None:
    await rig.put(OWNER, job("kept", 3), job("vanished", 4, owner=OWNER), job("newer", 12))
    listing = await rig.store.begin(JOB, epoch=1)
    await rig.marked()
    await rig.store.apply(JOB, [ObjectVersion(job("kept", 3))], listing=listing)
    await rig.store.finish(listing, {"": "10"})
    assert await rig.version("kept") == "3"
    assert await rig.version("vanished") is None
    assert await rig.version("newer") == "12"
    assert await rig.marked() == {key(JOB, "kept"), key(JOB, "vanished"), key(SCALED_JOB, "work")}
    assert {entry.ref async for entry in rig.store.scan(JOB)} == {ref(JOB, "kept"), ref(JOB, "newer")}


async def test_a_relist_of_some_namespaces_forgets_the_others(rig: StoreRig) -> None:
    elsewhere = job("b", 4)
    elsewhere["metadata"]["namespace"] = "elsewhere"
    await rig.put(job("a", 3), elsewhere)
    await rig.list(job("a", 3), version="3", namespace="default")
    assert [entry.ref.name async for entry in rig.store.scan(JOB)] == ["a"]


async def test_every_listed_object_is_marked_in_all_its_lanes_changed_or_not(rig: StoreRig) -> None:
    await rig.put(OWNER)
    await rig.marked()
    await rig.marked("poll")
    await rig.list(OWNER, version="1", kind=SCALED_JOB)
    assert await rig.marked() == await rig.marked("poll") == {key(SCALED_JOB, "work")}


async def test_a_listed_object_whose_status_alone_changed_is_marked_in_all_its_lanes_too(rig: StoreRig) -> None:
    await rig.put(OWNER)
    await rig.marked()
    await rig.marked("poll")
    await rig.list(scaled_job("work", 2), version="2", kind=SCALED_JOB)
    assert await rig.marked() == await rig.marked("poll") == {key(SCALED_JOB, "work")}


async def test_only_the_last_listing_that_was_begun_counts(rig: StoreRig) -> None:
    earlier = await rig.store.begin(JOB, epoch=1)
    await rig.store.begin(JOB, epoch=1)
    with pytest.raises(StoreLost):
        await rig.store.apply(JOB, [ObjectVersion(job("a", 1))], listing=earlier)
    with pytest.raises(StoreLost):
        await rig.store.finish(earlier, {"": "1"})


async def test_a_relist_of_thousands_goes_in_bounded_steps(rig: StoreRig) -> None:
    await rig.store.apply(JOB, [ObjectVersion(job(f"j{n}", n + 1)) for n in range(1500)])
    await rig.list(*(job(f"j{n}", n + 1) for n in range(0, 1500, 2)), version="1500")
    assert {entry.ref.name async for entry in rig.store.scan(JOB)} == {f"j{n}" for n in range(0, 1500, 2)}


async def test_what_is_scanned_again_and_did_not_change_is_the_same_object(rig: StoreRig) -> None:
    async def scanned(*, again: bool = True) -> dict[str, CachedObject]:
        return {entry.ref.name: entry async for entry in rig.store.scan(JOB, again=again)}

    await rig.put(job("same", 1), job("newer", 2), job("vanished", 3))
    first = await scanned()
    await rig.put(job("newer", 4), job("fresh", 5))
    await rig.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "vanished"), job("vanished", 3)["metadata"]["uid"])])
    second = await scanned()
    assert second.keys() == {"same", "newer", "fresh"}
    assert second["same"] is first["same"]
    assert [second[name].body["metadata"]["resourceVersion"] for name in ("newer", "fresh")] == ["4", "5"]
    assert (await scanned(again=False))["same"] is not first["same"]
    assert (await scanned())["newer"] is second["newer"]


async def test_tombstones_are_forgotten_when_no_echo_can_come_any_more(rig: StoreRig) -> None:
    await rig.store.begin(JOB, epoch=1)
    await rig.put(job("a", 5, owner=OWNER), job("b", 6, owner=OWNER))
    await rig.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "a"), "uid-a"), ObjectVersion.gone(ref(JOB, "b"), "uid-b")])
    await rig.put(job("b", 9, uid="again", owner=OWNER))
    rig.now += 599 * SECOND
    await rig.store.touch(JOB, 1, rig.now)
    assert await rig.store.get(ref(JOB, "a")) is not None
    rig.now += 2 * SECOND
    await rig.store.touch(JOB, 1, rig.now)
    assert await rig.store.get(ref(JOB, "a")) is None
    assert [entry.ref.name for entry in await rig.store.children(JOB, "uid-work")] == ["b"]
    assert await rig.client.zcard(rig.store.keys.owners(JOB.id)) == 1


async def test_tombstones_do_not_pile_up_behind_more_deletions_than_one_call_forgets(rig: StoreRig) -> None:
    await rig.store.begin(JOB, epoch=1)
    await rig.store.apply(JOB, [ObjectVersion.deleted(JOB, job(f"{i}", i, owner=OWNER)) for i in range(1, 351)])
    rig.now += 601 * SECOND
    await rig.store.touch(JOB, 1, rig.now)
    keys = rig.store.keys
    assert not await rig.client.exists(keys.objects(JOB.id), keys.owners(JOB.id), keys.gone(JOB.id))
    assert (await rig.store.freshness([JOB]))[JOB.id] == 0


async def test_a_batch_is_observed_with_children_and_freshness_in_the_order_asked(rig: StoreRig) -> None:
    second = scaled_job("second", 2)
    await rig.store.begin(SCALED_JOB, epoch=1)
    await rig.store.touch(SCALED_JOB, 1, rig.now)
    await rig.put(OWNER, second, job("a", 3, owner=OWNER), job("b", 4, owner=second))
    names = ["second", "absent", "work"]
    observed = await rig.store.observe([ObserveRequest(ref(SCALED_JOB, name), (JOB, POD)) for name in names])
    assert observed.now == rig.now
    assert observed.ages == {SCALED_JOB.id: 0.0, JOB.id: None, POD.id: None}
    bodies = [one.entry and one.entry.body for one in observed.observations]
    assert bodies == [second, None, OWNER]
    children = [[child.ref.name for child in one.children[JOB.id]] for one in observed.observations]
    assert children == [["b"], [], ["a"]]
    observed.require_fresh([SCALED_JOB], 1)
    with pytest.raises(Stale, match=JOB.id):
        observed.require_fresh([SCALED_JOB, JOB], 1)


async def unowned(rig: StoreRig, namespace: str = "default") -> list[str]:
    observed = await rig.store.observe([ObserveRequest(Ref(SCALED_JOB, namespace, "any"), unowned=(JOB,))])
    return sorted(entry.ref.name for entry in observed.observations[0].unowned[JOB.id])


@cases(
    ("never controlled", [job("a", 2)], True),
    ("controlled from the start", [job("a", 2, owner=OWNER)], False),
    ("adopted", [job("a", 2), job("a", 3, owner=OWNER)], False),
    ("released", [job("a", 2, owner=OWNER), job("a", 3)], True),
    ("adopted again", [job("a", 2, owner=OWNER), job("a", 3), job("a", 4, owner=OWNER)], False),
    ("adopted, and an older echo", [job("a", 3, owner=OWNER), job("a", 2)], False),
    ("made again, controlled", [job("a", 2), job("a", 5, uid="new", owner=OWNER)], False),
)
@cases(("one batch", True), ("one by one", False))
async def test_unowned_objects_are_found_by_their_namespace(
    at_once: bool, versions: list[Object], found: bool, rig: StoreRig
) -> None:
    batches = [versions] if at_once else [[body] for body in versions]
    for batch in batches:
        await rig.store.apply(JOB, [ObjectVersion(body) for body in batch])
    assert await unowned(rig) == (["a"] if found else [])
    assert await unowned(rig, "default-2") == await unowned(rig, "defaul") == []
    owned = await rig.store.children(JOB, "uid-work")
    assert [entry.ref.name for entry in owned] == ([] if found else ["a"])
    assert await rig.client.zcard(rig.store.keys.owners(JOB.id)) == 1


@cases(("answered", ObjectVersion.gone(ref(JOB, "a"), "uid-a")), ("watched", ObjectVersion.deleted(JOB, job("a", 8))))
async def test_a_deleted_unowned_object_is_not_found_and_leaves_no_index_entry(
    deletion: ObjectVersion, rig: StoreRig
) -> None:
    await rig.store.begin(JOB, epoch=1)
    await rig.put(job("a", 2), job("b", 3))
    await rig.store.apply(JOB, [deletion])
    assert await unowned(rig) == ["b"]
    rig.now += 601 * SECOND
    await rig.store.touch(JOB, 1, rig.now)
    assert await rig.client.zcard(rig.store.keys.owners(JOB.id)) == 1


async def test_a_child_released_and_deleted_in_one_batch_is_no_child(rig: StoreRig) -> None:
    await rig.put(OWNER, job("a", 2, owner=OWNER))
    await rig.marked()
    await rig.store.apply(JOB, [ObjectVersion.deleted(JOB, job("a", 4))])
    assert await rig.store.children(JOB, "uid-work") == ()
    assert await unowned(rig) == []
    assert key(SCALED_JOB, "work") in await rig.marked()


async def test_kinds_that_no_controller_adopts_are_not_indexed(rig: StoreRig) -> None:
    await rig.put(scaled_job("alone", 1))
    assert await rig.client.zcard(rig.store.keys.owners(SCALED_JOB.id)) == 0


async def test_what_a_namespace_has_loose_is_read_once_for_all_who_ask(
    rig: StoreRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = job("c", 4)
    elsewhere["metadata"]["namespace"] = "elsewhere"
    await rig.put(job("a", 2), job("b", 3), elsewhere, *(scaled_job(f"s{n}", 10 + n) for n in range(3)))
    requests = [ObserveRequest(ref(SCALED_JOB, f"s{n}"), (JOB,), (JOB,)) for n in range(3)]
    requests += [
        ObserveRequest(Ref(SCALED_JOB, "elsewhere", "s"), unowned=(JOB,)),
        ObserveRequest(ref(SCALED_JOB, "s0"), (JOB,)),
    ]
    read: list[bytes] = []
    known = DecodeCache.known

    def counted(
        recall: DecodeCache, kind: Kind, names: Sequence[bytes], values: Sequence[bytes], *, heads: bool = False
    ) -> list[CachedObject | None]:
        read.extend(names)
        return known(recall, kind, names, values, heads=heads)

    monkeypatch.setattr(DecodeCache, "known", counted)
    for room in (1, 8 << 20):
        monkeypatch.setattr("workers.cache.observations.ANSWER", room)
        first, second, third, other, last = (await rig.store.observe(requests)).observations
        assert sorted(entry.ref.name for entry in first.unowned[JOB.id]) == ["a", "b"]
        assert first.unowned[JOB.id] is second.unowned[JOB.id] is third.unowned[JOB.id]
        assert [entry.ref.name for entry in other.unowned[JOB.id]] == ["c"]
        assert last.unowned == {}
        assert [one.entry is not None for one in (first, second, third, other, last)] == [True] * 3 + [False, True]
    assert read.count(b"default/a") == 2


@cases(("as much as all objects take", 10_000, 0), ("less, and they are asked for in turn", 900, 10))
async def test_of_objects_that_did_not_change_those_that_are_not_kept_are_decoded_again(
    kept: int, decoded: int, rig: StoreRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.put(*(scaled_job(f"work-{number}", number + 1) for number in range(10)))
    store, refs = Store(rig.client, Keys("test"), {}, kept=kept), [ref(SCALED_JOB, f"work-{n}") for n in range(10)]
    first = await store.get_many(refs)
    entry, again = codec.entry, []

    def counted(of: Ref, value: bytes | None) -> CachedObject | None:
        again.append(of)
        return entry(of, value)

    monkeypatch.setattr(codec, "entry", counted)
    assert await store.get_many(refs) == first
    assert len(again) == decoded


async def test_children_that_did_not_change_are_neither_decoded_nor_looked_at_one_by_one(
    rig: StoreRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.store.apply(SCALED_JOB, [ObjectVersion(OWNER)])
    children = [job(f"j{number}", number + 2, owner=OWNER) for number in range(50)]
    await rig.store.apply(JOB, [ObjectVersion(body) for body in children])
    request = ObserveRequest(ref_of(SCALED_JOB, OWNER), (JOB,))
    (before,) = (await rig.store.observe([request])).observations
    await rig.store.apply(JOB, [ObjectVersion(job("j7", 100, owner=OWNER))])
    read: list[bytes] = []
    entry = DecodeCache.entry

    def counted(recall: DecodeCache, kind: Kind, name: bytes, value: bytes | None) -> CachedObject | None:
        read.append(name)
        return entry(recall, kind, name, value)

    monkeypatch.setattr(DecodeCache, "entry", counted)
    (after,) = (await rig.store.observe([request])).observations
    assert read == [b"default/j7"]
    old, new = ({each.ref.name: each for each in one.children[JOB.id]} for one in (before, after))
    assert old.keys() == new.keys()
    assert {name for name in old if old[name] is not new[name]} == {"j7"}
    assert new["j7"].body == job("j7", 100, owner=OWNER)


@for_each("adopted none", "reconciled none")
async def test_a_listing_corrects_what_other_controllers_than_these_wrote(before: str, rig: StoreRig) -> None:
    lanes_of, adopted = ({JOB.id: (rig.reconcile,)}, ()) if before == "adopted none" else ({}, {JOB.id})
    earlier = Store(rig.client, Keys("test"), lanes_of, adopted=adopted, clock=lambda: rig.now)
    known = [job("a", 2), job("b", 3)]
    await earlier.apply(JOB, [ObjectVersion(body) for body in known])
    await rig.marked()
    rig.now += SECOND
    await rig.list(*known, version="10")
    assert await unowned(rig) == ["a", "b"]
    assert await rig.marked() == {key(JOB, "a"), key(JOB, "b")}
    await rig.store.apply(JOB, [ObjectVersion(job("a", 12, owner=OWNER))])
    assert await unowned(rig) == ["b"]
    assert await rig.marked() == {key(JOB, "a")}


async def test_what_becomes_ours_is_measured_too(rig: StoreRig) -> None:
    await Store(rig.client, Keys("test"), {}, clock=lambda: rig.now).apply(SCALED_JOB, [ObjectVersion(OWNER)])
    rig.now += SECOND
    await rig.list(OWNER, version="1", kind=SCALED_JOB)
    assert await rig.marked() == await rig.marked("poll") == {key(SCALED_JOB, "work")}


async def test_what_an_object_left_behind_is_found_by_its_tombstone(rig: StoreRig) -> None:
    await rig.put(OWNER, job("a", 2, owner=OWNER), job("b", 3, owner=OWNER))
    await rig.store.apply(SCALED_JOB, [ObjectVersion.deleted(SCALED_JOB, scaled_job("work", 9))])
    await rig.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "b"), "uid-b")])
    [one] = (await rig.store.observe([ObserveRequest(ref(SCALED_JOB, "work"), (JOB,))])).observations
    assert one.entry is not None
    assert one.entry.gone
    assert {entry.ref.name: entry.gone for entry in one.children[JOB.id]} == {"a": False, "b": True}


async def test_an_answer_that_grows_too_large_is_fetched_in_pieces(
    rig: StoreRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.cache.observations.ANSWER", 1)
    await rig.put(*(scaled_job(f"s{n}", n + 1) for n in range(5)))
    await rig.put(*(job(f"j{n}", n + 10, owner=scaled_job(f"s{n}", 1)) for n in range(5)))
    observed = await rig.store.observe([ObserveRequest(ref(SCALED_JOB, f"s{n}"), (JOB,)) for n in range(5)])
    assert [one.children[JOB.id][0].ref.name for one in observed.observations] == [f"j{n}" for n in range(5)]


async def test_an_answer_ends_with_the_object_that_reaches_its_bound(
    rig: StoreRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.put(*(scaled_job(f"s{n}", n + 1) for n in range(3)))
    lengths = {len(value) for value in (await rig.client.hvals(rig.store.keys.objects(SCALED_JOB.id)))}
    assert len(lengths) == 1
    requests = [ObserveRequest(ref(SCALED_JOB, f"s{n}")) for n in range(3)]
    # The first call may find the script unknown.
    await rig.store.observe(requests)
    evalsha, calls = rig.client.evalsha, 0

    async def counted(*call: Any) -> Any:
        nonlocal calls
        calls += 1
        return await evalsha(*call)  # type: ignore[misc]

    monkeypatch.setattr(rig.client, "evalsha", counted)
    for bytes_, expected in ((lengths.pop(), 3), (1 << 20, 1)):
        monkeypatch.setattr("workers.cache.observations.ANSWER", bytes_)
        calls = 0
        await Store(rig.client, Keys("test"), {}).observe(requests)
        assert calls == expected


async def test_children_of_many_owners_come_in_the_order_asked(rig: StoreRig) -> None:
    await rig.put(job("a", 2, owner=OWNER), job("b", 3, owner=scaled_job("other", 1)))
    found = await rig.store.children_many([(JOB, "uid-other"), (POD, "uid-work"), (JOB, "uid-work")])
    assert [[entry.ref.name for entry in entries] for entries in found] == [["b"], [], ["a"]]
    assert await rig.store.children_many([]) == []


async def test_grandchildren_of_a_kind_that_is_not_followed_are_unknown_rather_than_none(rig: StoreRig) -> None:
    with pytest.raises(Stale, match="pods"):
        await rig.store.children_many([(POD, "uid-a")], limit=10)


async def test_the_epoch_of_the_leading_informer_can_be_read(rig: StoreRig) -> None:
    assert await rig.store.epoch(JOB) == 0
    await rig.store.begin(JOB, epoch=7)
    assert await rig.store.epoch(JOB) == 7


async def test_a_listing_of_a_restored_cluster_wins_over_the_versions_of_its_lost_future(rig: StoreRig) -> None:
    await rig.put(job("kept", 900), job("future", 950), job("undone", 960))
    await rig.store.apply(
        JOB, [ObjectVersion.deleted(JOB, job("undone", 970)), ObjectVersion.deleted(JOB, job("named", 980))]
    )
    rig.now += SECOND
    await rig.list(job("kept", 7), job("undone", 8), version="10")
    assert [await rig.version(name) for name in ("kept", "undone", "future")] == ["7", "8", None]
    await rig.put(job("future", 11, uid="again"), job("named", 12, uid="again"))
    assert [await rig.version(name) for name in ("future", "named")] == ["11", "12"]


@for_each(0, 3600)
async def test_a_listing_does_not_undo_what_came_in_while_it_was_read(set_back: int, rig: StoreRig) -> None:
    await rig.list(version="1")
    rig.now -= set_back * SECOND
    listing = await rig.store.begin(JOB, epoch=1)
    rig.now += SECOND
    await rig.put(job("a", 20), job("b", 21))
    await rig.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "b"), "uid-b")])
    await rig.store.apply(JOB, [ObjectVersion(job("a", 5)), ObjectVersion(job("b", 6))], listing=listing)
    await rig.store.finish(listing, {"": "10"})
    assert [await rig.version(name) for name in ("a", "b")] == ["20", None]


async def test_what_was_stored_since_a_moment_is_read_with_tombstones_and_nothing_older(rig: StoreRig) -> None:
    await rig.put(*(job(f"old-{number}", 1) for number in range(700)))
    rig.now += SECOND
    since = rig.now
    await rig.put(job("old-1", 2), job("new", 3))
    await rig.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "old-2"), "uid-old-2")])
    found = {entry.ref.name: entry.gone async for entry in rig.store.stored_since(JOB, since)}
    assert found == {"old-1": False, "new": False, "old-2": True}
    assert len({entry.ref.name async for entry in rig.store.stored_since(JOB, 0)}) == 701


async def test_changes_are_published_with_their_fields_and_repetitions_are_not(rig: StoreRig) -> None:
    channel = rig.store.keys.objects(JOB.id)
    async with rig.client.pubsub(ignore_subscribe_messages=True) as pubsub:
        await pubsub.subscribe(channel)
        await rig.store.apply(JOB, [ObjectVersion(job("a", 1)), ObjectVersion(job("b", 1))])
        await rig.put(job("a", 1))
        rig.now += SECOND
        await rig.list(job("a", 1), job("b", 1), version="1")
        await rig.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "b"), "uid-b")])
        messages = []
        while len(messages) < 2:
            if message := await pubsub.get_message(timeout=5):
                messages.append(set(message["data"].decode().split("\n")))
    assert messages == [{"default/a", "default/b"}, {"default/b"}]
