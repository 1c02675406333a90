"""Whatever order events, echoes, lost events and relists arrive in: in the end the store holds the last versions."""

import asyncio
from typing import Any

import fakeredis
from hypothesis import given
from hypothesis import strategies as st

from scheduler.keys import Keys
from tests.unit.workers.objects import naming, ref, refers_to, scaled_job
from workers.api.kinds import JOB, SCALED_JOB, Object, ref_of
from workers.cache.observations import ObserveRequest
from workers.cache.store import ObjectVersion, Store

NAMES = ("a", "b", "c")
#: Whom the Jobs may be owned by, and whom they may name.
OWNERS = (None, scaled_job("one", 1), scaled_job("two", 1))

#: The cluster's history: each step puts (with one of the owners, naming one) or deletes one name.
STEPS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(("put", "put", "remove")), st.integers(0, 2), st.integers(0, 2))
)


Steps = list[tuple[str, str, int, int]]


class History:
    """A cluster's past: every version of every object, in order."""

    def __init__(self, steps: Steps) -> None:
        self.version = 10
        self.live: dict[str, Object] = {}
        self.changes: list[ObjectVersion] = []
        born = 0
        for name, what, owner, names in steps:
            self.version += 1
            if what == "put":
                known = self.live.get(name)
                born += 0 if known else 1
                uid = known["metadata"]["uid"] if known else f"uid-{name}-{born}"
                named = OWNERS[names]
                referrers = named and named["metadata"]["name"]
                self.live[name] = naming(name, self.version, referrers, uid=uid, owner=OWNERS[owner])
                self.changes.append(ObjectVersion(self.live[name]))
            elif known := self.live.pop(name, None):
                last = {**known, "metadata": {**known["metadata"], "resourceVersion": str(self.version)}}
                self.changes.append(ObjectVersion.deleted(JOB, last))
                self.changes.append(ObjectVersion.gone(ref(JOB, name), known["metadata"]["uid"]))


async def _assert_holds(store: Store, history: History) -> None:
    entries = {entry.ref.name: entry.body async for entry in store.scan(JOB)}
    assert entries == history.live
    owners = {name: _owners(body) for name, body in history.live.items()}
    for owner in OWNERS[1:]:
        assert owner is not None
        uid = owner["metadata"]["uid"]
        owned = {entry.ref.name for entry in await store.children(JOB, uid) if not entry.gone}
        assert owned == {name for name, uids in owners.items() if uid in uids}
        of = ref_of(SCALED_JOB, owner)
        [one] = (await store.observe([ObserveRequest(of, referrers=(JOB,))])).observations
        assert {entry.ref.name for entry in one.referrers[JOB.id]} == {
            name for name, body in history.live.items() if refers_to(body) == of
        }
    [one] = (await store.observe([ObserveRequest(ref(JOB, "any"), unowned=(JOB,))])).observations
    assert {entry.ref.name for entry in one.unowned[JOB.id]} == {name for name, uids in owners.items() if not uids}


def _owners(body: Object) -> list[str]:
    return [reference["uid"] for reference in body["metadata"].get("ownerReferences", ())]


async def _store(body: Any) -> None:
    async with fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), version=(7,), socket_timeout=None) as client:
        await body(Store(client, Keys("test"), {}, adopted={JOB.id}, references={JOB.id: refers_to}))


@given(steps=STEPS, data=st.data())
def test_any_order_with_repetitions_ends_in_the_last_versions(steps: Steps, data: st.DataObject) -> None:
    history = History(steps)
    order = data.draw(st.permutations(history.changes))
    repeated = data.draw(st.lists(st.sampled_from(history.changes))) if history.changes else []
    batches = data.draw(st.integers(1, 5))

    async def scenario(store: Store) -> None:
        arriving = [*order, *repeated]
        for first in range(0, len(arriving), batches):
            await store.apply(JOB, arriving[first : first + batches])
        await _assert_holds(store, history)

    asyncio.run(_store(scenario))


def test_a_deletion_that_was_known_without_its_version_is_not_forgotten_for_an_earlier_object() -> None:
    steps = [("a", what, 0, 0) for what in ("put", "remove", "put", "put", "remove")]
    history = History(steps)
    first, _, _, second, _, deletion, gone = history.changes

    async def scenario(store: Store) -> None:
        for change in (gone, deletion, first, second):
            await store.apply(JOB, [change])
        await _assert_holds(store, history)

    asyncio.run(_store(scenario))


@given(steps=STEPS, data=st.data())
def test_a_relist_heals_any_loss_and_what_follows_it_is_kept(steps: Steps, data: st.DataObject) -> None:
    listed_at = data.draw(st.integers(0, len(steps)))
    past, history = History(steps[:listed_at]), History(steps)
    known = data.draw(st.lists(st.sampled_from(past.changes))) if past.changes else []
    later = history.changes[len(past.changes) :]
    # What follows the list may arrive before it is read, in between, and once more when the watch begins.
    early = data.draw(st.integers(0, len(later)))

    async def scenario(store: Store) -> None:
        await store.apply(JOB, known)
        listing = await store.begin(JOB, epoch=1)
        await store.apply(JOB, later[:early])
        for body in past.live.values():
            await store.apply(JOB, [ObjectVersion(body)], listing=listing)
        await store.finish(listing, {"": str(past.version)})
        await store.apply(JOB, later, epoch=1)
        await _assert_holds(store, history)

    asyncio.run(_store(scenario))
