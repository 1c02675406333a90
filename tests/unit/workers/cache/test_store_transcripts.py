"""Transcripts of the store: what its scripts answer and write, one call after the other."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.keyspaces import KeyspaceTranscript
from tests.unit.workers.cache.test_store import SECOND, StoreRig
from tests.unit.workers.objects import job, key, naming, ref, scaled_job
from workers.api.kinds import JOB, SCALED_JOB, Object
from workers.cache.observations import ObserveRequest
from workers.cache.store import Listing, ObjectVersion
from workers.errors import PenstockError

OWNER, OTHER = scaled_job("work", 1), scaled_job("other", 2)


class ToldStore:
    """A store whose calls are added to a transcript; reflectors' errors are answers."""

    def __init__(self, client: Redis) -> None:
        self.rig = StoreRig(client)
        self.transcript = KeyspaceTranscript(
            Path(__file__).parent / "transcripts",
            client,
            lambda: self.rig.now,
            *("{test}:lane:", "{test}:", "jobs.batch/default/", "default/", "scaledjobs.keda.sh/"),
        )

    async def told(self, call: str, answer: Awaitable[Any]) -> Any:
        found: Any
        try:
            found = await answer
        except PenstockError as error:
            found = f"{type(error).__name__}: {error}"
        await self.transcript.after(call, found)
        # Marks of a ready key coalesce: the next call's shall be seen, too.
        for lane in (self.rig.reconcile, self.rig.poll):
            await self.rig.client.delete(*lane.keys.all()[:2])
        await self.transcript.look()
        return found

    async def apply(self, *bodies: Object, **more: Any) -> None:
        kind = SCALED_JOB if bodies[0]["kind"] == "ScaledJob" else JOB
        names = ", ".join(f"{each['metadata']['name']} {each['metadata']['resourceVersion']}" for each in bodies)
        shown = "".join(f" {name}={value.id if isinstance(value, Listing) else value}" for name, value in more.items())
        changes = [ObjectVersion(body) for body in bodies]
        await self.told(f"apply {names}{shown}", self.rig.store.apply_counted(kind, changes, **more))

    async def write_through(self, body: Object, acting: str) -> None:
        kind = SCALED_JOB if body["kind"] == "ScaledJob" else JOB
        named = f"{body['metadata']['name']} {body['metadata']['resourceVersion']}"
        changes = [ObjectVersion(body)]
        await self.told(f"write {named} of {acting} through", self.rig.store.write_through(kind, changes, acting))

    async def gone(self, *versions: ObjectVersion, **more: Any) -> None:
        names = ", ".join(
            each.ref.name if each.ref else str(each.last and each.last["metadata"]["name"]) for each in versions
        )
        await self.told(f"apply the end of {names}", self.rig.store.apply_counted(JOB, versions, **more))

    async def begin(self, epoch: int = 1) -> Any:
        return await self.told(f"begin {epoch}", self.rig.store.begin(JOB, epoch))

    async def finish(self, listing: Listing, **versions: str) -> None:
        named = {name.replace("everywhere", ""): version for name, version in versions.items()}
        await self.told(f"finish {listing.id} {named}", self.rig.store.finish(listing, named))

    async def touch(self, epoch: int = 1, fresh: int | None = 0) -> None:
        moment = None if fresh is None else self.rig.now + fresh
        await self.told(f"touch {epoch} {moment}", self.rig.store.touch(JOB, epoch, moment))

    async def observe(self, *requests: ObserveRequest) -> None:
        await self.told("observe", self.rig.store.observe(requests))


@pytest.fixture
def store(fake_redis: Redis) -> ToldStore:
    return ToldStore(fake_redis)


async def test_versions_of_objects_and_whom_they_concern(store: ToldStore) -> None:
    await store.apply(OWNER, OTHER)
    await store.apply(job("a", 5, owner=OWNER), job("b", 6), naming("c", 7, "work"))
    note = store.transcript.note
    note("an older version, the same one, and a later one of a plan of the owner")
    await store.apply(job("a", 4, owner=OWNER))
    await store.apply(job("a", 5, owner=OWNER))
    store.rig.now += SECOND
    await store.write_through(job("a", 8, owner=OWNER, labels={"x": "y"}), key(SCALED_JOB, "work"))
    note("another owner, another reference, neither")
    await store.apply(job("a", 9, owner=OTHER), naming("c", 10, "other"))
    await store.apply(job("a", 11), naming("c", 12, None))
    note("another generation, another stamp, a deletion that begins, one that is not ours")
    await store.apply(scaled_job("work", 13, generation=2))
    await store.write_through(scaled_job("work", 14, generation=2, annotations={"x": "y"}), key(SCALED_JOB, "work"))
    await store.apply(
        scaled_job("work", 15, generation=2, annotations={"x": "y"}, deletionTimestamp="2026-01-01T00:00:00Z")
    )
    await store.apply(job("b", 16, labels={"theirs": "yes"}))
    note("ends: of another uid, watched, of an unknown version, and of what comes again")
    await store.apply(job("d", 17, owner=OTHER), naming("e", 18, "other"))
    await store.gone(ObjectVersion.gone(ref(JOB, "a"), "uid-of-another"))
    await store.gone(ObjectVersion.deleted(JOB, job("a", 19)), ObjectVersion.gone(ref(JOB, "d"), "uid-d"))
    await store.gone(ObjectVersion.gone(ref(JOB, "e"), "uid-e"))
    await store.apply(job("a", 20), job("d", 12, uid="old"), job("e", 30, uid="new"))
    assert store.transcript.text == store.transcript.expected("versions")


async def test_only_a_users_change_ends_a_backoff(store: ToldStore, fake_redis: Redis) -> None:
    client: Any = fake_redis
    work = key(SCALED_JOB, "work")
    later, failures = map(store.rig.reconcile.keys.of, ("later", "failures"))
    await store.apply(OWNER)
    changes: tuple[Object, ...] = (
        scaled_job("work", 2, status={"x": 1}),
        scaled_job("work", 3, annotations={"x": "y"}),
        scaled_job("work", 4, annotations={"x": "y"}, generation=2),
        scaled_job("work", 5, annotations={"x": "y"}, generation=2, deletionTimestamp="2026-01-01T00:00:00Z"),
    )
    for body in changes:
        await client.hset(failures, work, "3 refused")
        await client.zadd(later, {work: store.rig.now + 9 * SECOND})
        await store.transcript.look()
        await store.apply(body)
    await store.apply(job("a", 6, owner=OWNER))
    assert store.transcript.text == store.transcript.expected("backoff")


async def test_relists_from_beginning_to_end(store: ToldStore) -> None:
    note = store.transcript.note
    await store.apply(OWNER)
    first = await store.begin()
    await store.apply(job("a", 5, owner=OWNER), job("b", 6), naming("c", 7, "work"), listing=first)
    await store.finish(first, everywhere="7")
    await store.touch(fresh=-2 * SECOND)
    store.rig.now += SECOND
    await store.touch(fresh=5 * SECOND)
    await store.touch(fresh=-9 * SECOND)
    await store.touch(fresh=None)
    note("a second relist: a is as before, b is gone, c is newer than the list, d is of another namespace")
    await store.apply(job("d", 8) | {"metadata": {**job("d", 8)["metadata"], "namespace": "elsewhere"}})
    store.rig.now += SECOND
    second = await store.begin()
    await store.apply(job("a", 5, owner=OWNER), listing=second)
    await store.apply(naming("c", 30, "work"), epoch=1)
    await store.finish(second, default="20")
    note("what was read by itself replaces a later version from before")
    moment = store.rig.now + SECOND
    store.rig.now += 2 * SECOND
    await store.apply(job("a", 3, owner=OWNER), read_after=moment)
    await store.apply(job("a", 2, owner=OWNER), read_after=moment)
    note("who was deposed writes no more, and who is in an older relist begins again")
    third = await store.begin(2)
    await store.apply(job("x", 99), epoch=1)
    await store.apply(job("x", 99), listing=second)
    await store.touch(1)
    fourth = await store.begin(2)
    await store.begin(1)
    await store.apply(job("x", 99), listing=third)
    await store.finish(third, everywhere="99")
    await store.apply(job("a", 3, owner=OWNER), listing=fourth)
    await store.finish(fourth, everywhere="50")
    assert store.transcript.text == store.transcript.expected("relists")


async def test_data_that_are_lost_or_strange(store: ToldStore, fake_redis: Redis) -> None:
    client: Any = fake_redis
    note = store.transcript.note
    listing = await store.begin()
    await store.apply(job("a", 5), job("b", 6), listing=listing)
    await store.finish(listing, everywhere="6")
    await store.touch()
    keys = store.rig.store.keys
    note("an older state of the writers' numbers")
    value = await client.hget(keys.freshness, JOB.id)
    await client.hset(keys.freshness, JOB.id, value.rsplit(b" ", 1)[0] + b" 1")
    await store.touch()
    await store.observe(ObserveRequest(ref(JOB, "a")))
    note("a stranger in the index of owners")
    listing = await store.begin()
    await store.apply(job("a", 5, owner=OWNER), listing=listing)
    await store.finish(listing, everywhere="6")
    await client.zadd(keys.owners(JOB.id), {"stranger": 0.5})
    await store.touch()
    note("values that cannot be read")
    for name, text in (("x", "garbage"), ("y", "v 1 uid - - - 1 s 10 {}"), ("z", "1 now uid - - - 1 s 10 {}")):
        await client.hset(keys.objects(JOB.id), f"default/{name}", text)
    await store.transcript.look()
    listing = await store.begin()
    await store.apply(job("a", 5, owner=OWNER), listing=listing)
    await store.finish(listing, everywhere="6")
    note("freshness that cannot be read")
    await client.hset(keys.freshness, JOB.id, "garbage")
    await store.touch()
    note("nothing is left")
    await client.flushall()
    await store.touch()
    await store.apply(job("b", 7), epoch=1)
    listing = await store.begin()
    await store.apply(job("b", 7), listing=listing)
    await store.finish(listing, everywhere="7")
    assert store.transcript.text == store.transcript.expected("loss")


async def test_tombstones_go_when_they_are_old(store: ToldStore) -> None:
    listing = await store.begin()
    await store.apply(job("a", 5, owner=OWNER), job("b", 6), job("c", 7), listing=listing)
    await store.gone(ObjectVersion.deleted(JOB, job("a", 8, owner=OWNER)))
    store.rig.now += 200 * SECOND
    await store.gone(ObjectVersion.deleted(JOB, job("b", 9)))
    await store.touch()
    store.rig.now += 200 * SECOND
    await store.touch()
    store.rig.now += 600 * SECOND
    await store.touch()
    store.transcript.note("of one only the time is left")
    keys = store.rig.store.keys
    await store.gone(ObjectVersion.deleted(JOB, job("c", 10)))
    await store.rig.client.hdel(keys.objects(JOB.id), "default/c")  # type: ignore[misc]
    await store.transcript.look()
    store.rig.now += 900 * SECOND
    await store.touch()
    assert store.transcript.text == store.transcript.expected("tombstones")


async def test_what_is_observed(store: ToldStore) -> None:
    await store.apply(OWNER, OTHER)
    listing = await store.begin()
    await store.apply(job("a", 5, owner=OWNER), job("b", 6), naming("c", 7, "work"), listing=listing)
    await store.finish(listing, everywhere="7")
    await store.touch()
    store.rig.now += SECOND
    await store.gone(ObjectVersion.deleted(JOB, job("a", 8, owner=OWNER)))
    await store.observe(
        ObserveRequest(ref(SCALED_JOB, "work"), (JOB,), (JOB,), (JOB,)),
        ObserveRequest(ref(SCALED_JOB, "nobody"), (JOB,)),
        ObserveRequest(ref(JOB, "c")),
    )
    store.transcript.note("who has read it before gets heads alone")
    await store.observe(ObserveRequest(ref(SCALED_JOB, "work"), (JOB,), (JOB,), (JOB,)))
    found = [each.ref.name async for each in store.rig.store.stored_since(JOB, store.rig.now)]
    await store.transcript.after("stored since now", sorted(found))
    found = [each.ref.name async for each in store.rig.store.stored_since(JOB, 0)]
    await store.transcript.after("stored since ever", sorted(found))
    assert store.transcript.text == store.transcript.expected("observed")
