"""A watch that shows what a plan has made, before the plan has stored it, asks for no decision after the plan."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import fakeredis
import pytest
import redis.asyncio as redis_async
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue import Done, Lease, RequeueAt
from tests.support.tables import cases
from tests.unit.workers.cache.test_store import OWNER, SECOND, StoreRig
from tests.unit.workers.objects import job, key, naming, ref, scaled_job
from workers.api.kinds import JOB, SCALED_JOB, Kind
from workers.cache.store import ObjectVersion

WORK, OTHER = key(SCALED_JOB, "work"), key(SCALED_JOB, "other")
#: As many as a lease keeps in mind (scheduler/lua/causes.lua).
MOST = 8


class Plans:
    """A store whose owner `work` is being decided on, and what happens to it meanwhile."""

    def __init__(self, client: redis_async.Redis) -> None:
        self.rig = StoreRig(client)
        self.lease: Lease

    async def begin(self) -> None:
        """Lists the kinds, as reflectors do first, and claims the owner."""
        await self.rig.list(OWNER, scaled_job("other", 1), version="1", kind=SCALED_JOB)
        await self.rig.list(version="1")
        await self.rig.marked()
        await self.claim()

    async def claim(self) -> None:
        await self.rig.reconcile.mark([WORK])
        (self.lease,) = (await self.rig.reconcile.claim(1)).leases

    async def watched(self, *changes: ObjectVersion) -> None:
        """A watch shows these changes of one kind, in one call."""
        await self.rig.store.apply(_kind(changes[0]), changes, epoch=1)

    async def made(self, *changes: ObjectVersion, by: str = WORK) -> None:
        """A plan stores what it has made, in one call."""
        await self.rig.store.write_through(_kind(changes[0]), changes, by)

    async def decided_again(self) -> bool:
        """Ends the lease. Returns True if its key is ready again."""
        await self.rig.reconcile.finish([(self.lease, Done())])
        return WORK in {lease.key for lease in (await self.rig.reconcile.claim(1000)).leases}


def _kind(change: ObjectVersion) -> Kind:
    body = change.body or change.last
    return SCALED_JOB if body and body["kind"] == "ScaledJob" else JOB


@pytest.fixture
async def plans(fake_redis: redis_async.Redis) -> Plans:
    plans = Plans(fake_redis)
    await plans.begin()
    return plans


def child(name: str, version: int, **more: Any) -> ObjectVersion:
    return ObjectVersion(job(name, version, owner=OWNER, labels={"theirs": "1"}, **more))


def status(version: int, **metadata: Any) -> ObjectVersion:
    return ObjectVersion({**scaled_job("work", version, **metadata), "status": {"seen": version}})


GONE = ObjectVersion.gone(ref(JOB, "a"), "uid-a")
SEEN_GONE = ObjectVersion.deleted(JOB, job("a", 12, owner=OWNER, labels={"theirs": "1"}))
CHILDREN = [child(f"child-{number}", 20 + number) for number in range(MOST + 1)]

Step = tuple[str, Sequence[ObjectVersion]]


def watched(*changes: ObjectVersion) -> Step:
    return "watched", changes


def made(*changes: ObjectVersion) -> Step:
    return "made", changes


@cases(
    ("its child, the watch first", [watched(child("a", 10)), made(child("a", 10))], False),
    ("its child, the watch last", [made(child("a", 10)), watched(child("a", 10))], False),
    ("its child, as the watch alone shows it", [watched(child("a", 10))], True),
    ("twice, of which the plan made the first", [watched(child("a", 10), child("a", 11)), made(child("a", 10))], True),
    ("and later once more", [watched(child("a", 10)), made(child("a", 10)), watched(child("a", 11))], True),
    ("its child and another", [watched(child("a", 10), child("b", 11)), made(child("a", 10))], True),
    (
        "its child and another, each in its own call",
        [watched(child("a", 10)), watched(child("b", 11)), made(child("b", 11))],
        True,
    ),
    (
        "two, which it stores at once",
        [watched(child("a", 10), child("b", 11)), made(child("b", 11), child("a", 10))],
        False,
    ),
    ("a child of that name of another uid", [watched(child("a", 11, uid="x")), made(child("a", 10))], True),
    ("the object's status", [watched(status(10)), made(status(10))], False),
    ("the object's status, made by somebody else", [watched(status(10))], True),
    ("a user's change of the object", [watched(status(10, generation=2)), made(status(10, generation=2))], True),
    (
        "an object that names it",
        [watched(ObjectVersion(naming("a", 10, "work"))), made(ObjectVersion(naming("a", 10, "work")))],
        False,
    ),
    ("a deletion", [made(child("a", 10)), watched(SEEN_GONE), made(GONE)], False),
    ("a deletion by somebody else", [made(child("a", 10)), watched(SEEN_GONE)], True),
    ("a deletion after a change", [made(child("a", 10)), watched(child("a", 11), SEEN_GONE), made(GONE)], True),
    ("many children", [watched(*CHILDREN[:MOST]), made(*CHILDREN[:MOST])], False),
    ("too many children to keep in mind", [watched(*CHILDREN), made(*CHILDREN)], True),
    ("too many, one after the other", [*([watched(each) for each in CHILDREN]), made(*CHILDREN)], True),
    (
        "as many, each withdrawn before the next one comes",
        [step for each in CHILDREN for step in (watched(each), made(each))],
        False,
    ),
)
async def test_what_happens_to_an_object_while_it_is_decided_on(
    steps: Sequence[Step], again: bool, plans: Plans
) -> None:
    for what, changes in steps:
        await getattr(plans, what)(*changes)
    assert await plans.decided_again() is again


async def test_another_plans_change_is_a_mark(plans: Plans) -> None:
    await plans.made(child("a", 10), by=OTHER)
    await plans.made(child("a", 10))
    assert await plans.decided_again()


async def test_another_plan_withdraws_nothing(plans: Plans) -> None:
    await plans.watched(child("a", 10))
    await plans.made(child("a", 10), by=OTHER)
    assert await plans.decided_again()


async def test_a_plan_without_a_lease_withdraws_nothing_and_marks_nothing_by_it(plans: Plans) -> None:
    for _ in range(2):
        await plans.made(child("a", 10), by=OTHER)
    assert OTHER.encode() not in await plans.rig.client.smembers(plans.rig.reconcile.keys.of("dirty"))  # type: ignore[misc]


async def test_a_mark_without_a_cause_stays(plans: Plans) -> None:
    await plans.watched(child("a", 10))
    await plans.rig.reconcile.mark([WORK])
    await plans.made(child("a", 10))
    assert await plans.decided_again()


async def test_a_relist_is_no_plans_change(plans: Plans) -> None:
    await plans.rig.list(job("a", 10, owner=OWNER), version="10")
    await plans.made(child("a", 10))
    assert await plans.decided_again()


async def test_an_object_that_was_read_by_itself_is_no_plans_change(plans: Plans) -> None:
    await plans.rig.store.apply(JOB, [child("a", 10)], read_after=plans.rig.now)
    await plans.made(child("a", 10))
    assert await plans.decided_again()


async def test_a_holder_of_an_earlier_release_is_told_of_every_change(plans: Plans) -> None:
    # It claims without a word about causes, after a holder of this release whose lease an earlier one's sweep ended.
    lane = plans.rig.reconcile.keys
    entry = await _hash(plans, lane.of("causes"))
    await plans.rig.client.hset(lane.of("leased"), WORK, str(plans.lease.token + 1))  # type: ignore[misc]
    await plans.watched(child("a", 10))
    assert await plans.rig.client.smembers(lane.of("dirty")) == {WORK.encode()}  # type: ignore[misc]
    assert await _hash(plans, lane.of("causes")) == entry


async def test_causes_of_an_earlier_lease_do_not_concern_the_next(plans: Plans) -> None:
    await plans.watched(child("a", 10))
    plans.rig.now += 100 * SECOND
    await plans.rig.reconcile.sweep()
    (plans.lease,) = (await plans.rig.reconcile.claim(1)).leases
    assert not await plans.decided_again()


@pytest.mark.parametrize("outcome", [Done(), RequeueAt(0.0)], ids=["done", "requeue at"])
async def test_nothing_is_kept_after_a_lease(plans: Plans, outcome: Any) -> None:
    await plans.watched(child("a", 10))
    await plans.rig.reconcile.finish([(plans.lease, outcome)])
    assert await _hash(plans, plans.rig.reconcile.keys.of("causes")) == {}


async def _hash(plans: Plans, name: str) -> Any:
    return await plans.rig.client.hgetall(name)  # type: ignore[misc]


@given(data=st.data(), changes=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=6))
def test_it_is_decided_again_exactly_if_somebody_else_changed_something(
    data: st.DataObject, changes: list[tuple[str, bool]]
) -> None:
    # What the plan has made is the first version of its child: of others' objects it makes none.
    ours = [made and name not in {other for other, _ in changes[:place]} for place, (name, made) in enumerate(changes)]
    shown = [child(name, 10 + place) for place, (name, _) in enumerate(changes)]
    stored = [change for change, made in zip(shown, ours, strict=True) if made]
    # Both tell the changes in their order; those of one come at any time between those of the other.
    turns = data.draw(st.permutations(["watched"] * len(shown) + ["made"] * len(stored)))
    told = {"watched": iter(shown), "made": iter(stored)}

    async def scenario(plans: Plans) -> None:
        for what in turns:
            await getattr(plans, what)(next(told[what]))
        assert await plans.decided_again() is not all(ours)

    asyncio.run(_with_plans(scenario))


async def _with_plans(scenario: Callable[[Plans], Any]) -> None:
    async with fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), version=(7,), socket_timeout=None) as client:
        plans = Plans(client)
        await plans.begin()
        await scenario(plans)
