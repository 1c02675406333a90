"""The informer against a cluster that breaks in every way a watch can, and against a broker that is flushed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import redis.asyncio as redis_async
from redis.exceptions import ConnectionError as BrokerAway

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support import broker_clock
from tests.support.clusters import FakeCluster
from tests.support.conditions import eventually
from tests.support.tables import cases, for_each
from tests.unit.workers.objects import job, key, ref, scaled_job
from workers.api.kinds import JOB, SCALED_JOB, Kind, Object, Ref
from workers.cache.reflector import ECHOES, Pace, Reflector
from workers.cache.store import Applied, LeadershipLost, ObjectVersion, Store
from workers.client.rest import WatchEvent
from workers.decision.snapshot import CachedObject
from workers.errors import NotFound, Silent, Unavailable

QUICK = Pace(relist=3600, watch=3600, beat=0.01, probe=0.03, base=0.01, cap=0.05)


class ReflectorRig:
    """A fake cluster, a store, and informers that follow Jobs."""

    def __init__(self, client: redis_async.Redis) -> None:
        self.client = client
        self.cluster = FakeCluster()
        self.lane = Lane(client, "reconcile", Keys("test"))
        self.store = Store(client, Keys("test"), {JOB.id: (self.lane,)})
        self.notified: list[Mapping[str, int]] = []

    async def notify(self, notifications: Mapping[str, int]) -> None:
        if notifications:
            self.notified.append(notifications)

    @asynccontextmanager
    async def informing(
        self,
        *,
        epoch: int = 1,
        pace: Pace = QUICK,
        namespaces: tuple[str, ...] = (),
        selector: str = "",
        asked: asyncio.Event | None = None,
    ) -> AsyncIterator[asyncio.Task[None]]:
        informer = Reflector(
            self.cluster,
            self.store,
            JOB,
            self.notify,
            namespaces=namespaces,
            selector=selector,
            pace=pace,
            asked=asked,
        )
        task = asyncio.create_task(informer.run(epoch))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def mirrored(self) -> dict[str, str]:
        return {
            entry.ref.name: entry.body["metadata"]["resourceVersion"]
            async for entry in self.store.scan(JOB)
            if entry.body
        }

    async def in_step(self) -> bool:
        """The store holds exactly what the cluster does."""
        truth = {
            body["metadata"]["name"]: body["metadata"]["resourceVersion"] for body in self.cluster.objects.values()
        }
        return await self.mirrored() == truth

    async def fresh(self, limit: float = 0.5) -> bool:
        age = (await self.store.freshness([JOB]))[JOB.id]
        return age is not None and age < limit

    async def ready(self) -> int:
        return (await self.lane.stats()).ready


@pytest.fixture
async def rig(fake_redis: redis_async.Redis) -> ReflectorRig:
    return ReflectorRig(fake_redis)


async def test_what_is_there_is_listed_in_pages_and_what_happens_then_is_watched(rig: ReflectorRig) -> None:
    for name in "abcde":
        rig.cluster.put(JOB, job(name, 0))
    async with rig.informing():
        await eventually(rig.in_step)
        rig.cluster.put(JOB, job("f", 0))
        rig.cluster.put(JOB, job("a", 0))
        rig.cluster.remove(ref(JOB, "b"))
        await eventually(rig.in_step)
    assert rig.cluster.lists == 1
    assert await rig.ready() == 6
    assert rig.notified


async def test_a_watch_that_breaks_is_taken_up_where_it_was(rig: ReflectorRig) -> None:
    async with rig.informing():
        await eventually(rig.fresh)
        rig.cluster.put(JOB, job("a", 0))
        await eventually(rig.in_step)
        reached = rig.cluster.version
        rig.cluster.disconnect()
        rig.cluster.put(JOB, job("b", 0))
        await eventually(rig.in_step)
    assert rig.cluster.lists == 1
    assert rig.cluster.watches[-1] == str(reached)


@cases(("nothing happened", Silent("not a byte"), []), ("it broke", Unavailable("cut"), ["a watch broke off"]))
async def test_a_watch_that_was_only_silent_is_opened_again_and_not_worth_a_warning(
    error: Exception, warned: list[str], rig: ReflectorRig, caplog: pytest.LogCaptureFixture
) -> None:
    working = rig.cluster.follow

    async def silent(*_: object, **__: object) -> AsyncIterator[tuple[object, ...]]:
        rig.cluster.follow = working  # type: ignore[method-assign]
        yield ()
        raise error

    rig.cluster.follow = silent  # type: ignore[method-assign, assignment]
    async with rig.informing():
        await eventually(rig.fresh)
        rig.cluster.put(JOB, job("a", 0))
        await eventually(rig.in_step)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == warned
    assert rig.cluster.lists == 1


async def test_a_bookmark_moves_the_place_to_take_up_from(rig: ReflectorRig) -> None:
    async with rig.informing():
        await eventually(lambda: bool(rig.cluster.watches))
        rig.cluster.bookmark(JOB)
        reached = rig.cluster.version

        async def resumed() -> bool:
            rig.cluster.disconnect()
            return rig.cluster.watches[-1] == str(reached)

        await eventually(resumed)


async def test_a_version_too_old_to_watch_from_leads_to_a_new_list(rig: ReflectorRig) -> None:
    async with rig.informing():
        await eventually(rig.fresh)
        rig.cluster.down = True
        rig.cluster.disconnect()
        rig.cluster.put(JOB, job("a", 0))
        rig.cluster.put(JOB, job("b", 0))
        rig.cluster.remove(ref(JOB, "a"))
        rig.cluster.forgotten = rig.cluster.version - 1
        rig.cluster.down = False
        await eventually(rig.in_step)
    assert rig.cluster.lists == 2


async def test_an_object_that_matches_the_selector_again_comes_back(rig: ReflectorRig) -> None:
    rig.cluster.put(JOB, job("a", 0))
    async with rig.informing(selector="team=data"):
        await eventually(rig.in_step)
        # As a watch with a selector shows it: the object lives on.
        rig.cluster.remove(ref(JOB, "a"))
        await eventually(rig.in_step)
        rig.cluster.put(JOB, job("a", 0))
        await eventually(rig.in_step)
        assert rig.cluster.lists == 2
        rig.cluster.put(JOB, job("a", 0))
        await eventually(rig.in_step)
        assert rig.cluster.lists == 2


async def test_an_object_that_matches_the_selector_again_comes_back_although_the_broker_was_away(
    rig: ReflectorRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_many, failures = rig.store.get_many, iter((BrokerAway("connection refused"),))

    async def failing_once(refs: Sequence[Ref]) -> list[CachedObject | None]:
        if refs and (error := next(failures, None)):
            raise error
        return await get_many(refs)

    rig.cluster.put(JOB, job("a", 0))
    async with rig.informing(selector="team=data"):
        await eventually(rig.in_step)
        rig.cluster.remove(ref(JOB, "a"))
        await eventually(rig.in_step)
        monkeypatch.setattr(rig.store, "get_many", failing_once)
        rig.cluster.put(JOB, job("a", 0))
        await eventually(rig.in_step)


async def test_a_server_that_was_restored_from_a_backup_is_listed_again(rig: ReflectorRig) -> None:
    """A watch from a version to come shows nothing, and breaks off as little as any."""
    for name in "abc":
        rig.cluster.put(JOB, job(name, 0))
    async with rig.informing():
        await eventually(rig.in_step)
        await eventually(lambda: bool(rig.cluster.watches))
        del rig.cluster.objects[key(JOB, "c")]
        rig.cluster.log.clear()
        rig.cluster.version = 10
        rig.cluster.put(JOB, job("b", 0))
        await eventually(rig.in_step)
        rig.cluster.put(JOB, job("d", 0))
        await eventually(rig.in_step)
    assert rig.cluster.lists == 2


async def test_an_event_that_comes_twice_is_one(rig: ReflectorRig) -> None:
    async with rig.informing():
        await eventually(rig.fresh)
        rig.cluster.put(JOB, job("a", 0))
        await eventually(rig.in_step)
        await rig.lane.open()
        claim = await rig.lane.claim(10)
        assert [lease.key for lease in claim.leases] == [key(JOB, "a")]
        again = rig.cluster.log[-1]
        rig.cluster.log.append((rig.cluster.version, JOB, again[2]))
        rig.cluster.put(JOB, job("b", 0))
        await eventually(rig.in_step)
    assert (await rig.lane.stats()).dirty == 0


@cases(
    ("no object", None),
    ("no metadata", {"kind": "Job"}),
    ("no name", {"metadata": {"uid": "u", "resourceVersion": "101"}}),
    ("no uid", {"metadata": {"namespace": "default", "name": "x", "resourceVersion": "101"}}),
    ("a version that is no number", job("x", 0) | {"metadata": {"name": "x", "uid": "u", "resourceVersion": "x y"}}),
    ("an owner without a uid", job("x", 101, ownerReferences=[{"controller": True}])),
    ("a uid of two words", job("x", 101, uid="two words")),
)
@pytest.mark.parametrize("type_", ["MODIFIED", "DELETED"])
async def test_an_event_that_cannot_be_read_is_logged_and_left_out(
    body: Any, rig: ReflectorRig, type_: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with rig.informing() as informing:
        await eventually(rig.fresh)
        rig.cluster.version += 1
        rig.cluster.log.append((rig.cluster.version, JOB, WatchEvent(type_, body)))
        rig.cluster.put(JOB, job("b", 0))
        await eventually(rig.in_step)
        assert not informing.done()
    assert rig.cluster.lists == 1
    assert "cannot be" in caplog.text


async def test_a_listed_object_that_cannot_be_stored_is_not_taken_for_deleted(rig: ReflectorRig) -> None:
    known = rig.cluster.put(JOB, job("a", 0))
    async with rig.informing():
        await eventually(rig.in_step)
        await eventually(lambda: len(rig.cluster.watches) == 1)
    known["metadata"]["ownerReferences"] = [{"controller": True}]
    rig.cluster.put(JOB, job("b", 0))
    async with rig.informing(epoch=2):

        async def stored() -> bool:
            return "c" in await rig.mirrored()

        await eventually(lambda: len(rig.cluster.watches) == 2)
        # The watch stores it after the list has ended.
        rig.cluster.put(JOB, job("c", 0))
        await eventually(stored)
        assert set(await rig.mirrored()) == {"a", "b", "c"}


async def test_a_fault_of_a_reflector_does_not_end_it(
    rig: ReflectorRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin, faults = rig.store.begin, iter([KeyError("metadata")])

    async def faulty(kind: Kind, epoch: int) -> Any:
        if fault := next(faults, None):
            raise fault
        return await begin(kind, epoch)

    monkeypatch.setattr(rig.store, "begin", faulty)
    async with rig.informing():
        await eventually(rig.fresh)
    assert "the reflector failed; listing again" in caplog.text


async def test_a_kind_that_the_server_does_not_serve_is_named(
    rig: ReflectorRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def unserved(*_: Any, **__: Any) -> AsyncGenerator[tuple[list[Object], str], None]:
        raise NotFound("GET /apis/batch/v1/jobs: 404: the server could not find the requested resource", status=404)
        yield [], ""

    monkeypatch.setattr(rig.cluster, "pages", unserved)
    async with rig.informing():
        await eventually(lambda: "could not list" in caplog.text)
    [record, *_] = [record for record in caplog.records if record.message == "could not list"]
    assert vars(record)["error"].startswith("the API server does not serve jobs of batch/v1: ")
    assert not await rig.fresh()


async def test_freshness_is_claimed_while_the_stream_is_quiet_and_the_server_answers(rig: ReflectorRig) -> None:
    async with rig.informing():
        await eventually(rig.fresh)
        before = (await rig.store.freshness([JOB]))[JOB.id]
        assert before is not None
        await eventually(lambda: rig.fresh(0.2))


async def test_a_server_that_answers_nothing_lets_the_kind_grow_stale(rig: ReflectorRig) -> None:
    async with rig.informing():
        await eventually(rig.fresh)
        rig.cluster.down = True

        async def stale() -> bool:
            return not await rig.fresh(0.3)

        await eventually(stale)
        rig.cluster.down = False
        await eventually(lambda: rig.fresh(0.3))


#: Nothing is proved unless it is asked for.
UNASKED = replace(QUICK, beat=60, probe=3600, settle=0.01)


async def _progress(rig: ReflectorRig) -> tuple[int, int]:
    """The moment up to which all changes are claimed to be stored, and how often the reflector wrote."""
    words = (await rig.client.hget(rig.store.keys.freshness, JOB.id)).split()
    return int(words[0]), int(words[-1])


@for_each(1, 2)
async def test_freshness_is_proved_at_once_when_it_is_asked_for(namespaces: int, rig: ReflectorRig) -> None:
    asked = asyncio.Event()
    names = ("default", "other")[:namespaces]
    async with rig.informing(pace=UNASKED, namespaces=names, asked=asked):
        await eventually(lambda: len(rig.cluster.watches) == namespaces)
        for name in "ab":
            rig.cluster.put(JOB, job(name, 0))

            async def proved(since: int = await broker_clock.now(rig.client)) -> bool:
                # As a worker does. A watch that was not open yet when it was asked for is no proof.
                asked.set()
                return (await _progress(rig))[0] > since

            await eventually(proved)
            assert name in await rig.mirrored()


async def test_what_was_asked_for_is_not_proved_by_a_server_that_is_away(
    rig: ReflectorRig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "workers.cache.reflector")
    asked = asyncio.Event()
    async with rig.informing(pace=replace(UNASKED, beat=0.05), asked=asked) as informing:
        await eventually(lambda: bool(rig.cluster.watches))
        rig.cluster.down = True
        away = await broker_clock.now(rig.client)

        async def clocks_can_be_told_apart() -> bool:
            # A claim is early by the time that the broker's answer took.
            return await broker_clock.now(rig.client) > away + 100_000

        await eventually(clocks_can_be_told_apart)
        asked_at = (await _progress(rig))[1]
        asked.set()

        async def claimed_again() -> bool:
            return "could not be proved" in caplog.text and (await _progress(rig))[1] > asked_at + 4

        # Each of several beats claims what is proved until then.
        await eventually(claimed_again)
        assert (await _progress(rig))[0] < away
        assert not informing.done()
        rig.cluster.down = False

        async def proved() -> bool:
            asked.set()
            return (await _progress(rig))[0] > away

        await eventually(proved)


def _refusing(*_: object, **__: object) -> AsyncIterator[object]:
    raise Unavailable("no more watches")


async def _flapping(*_: object, **__: object) -> AsyncIterator[tuple[object, ...]]:
    """Opens, and breaks before the server could send what was missed."""
    yield ()
    raise Unavailable("the connection broke")


@for_each(_refusing, _flapping)
async def test_no_freshness_is_claimed_while_the_watch_cannot_be_taken_up(follow: Any, rig: ReflectorRig) -> None:
    async with rig.informing():
        await eventually(rig.fresh)
        working = rig.cluster.follow
        rig.cluster.follow = follow  # type: ignore[method-assign]

        async def stale() -> bool:
            # A watch that was asked for before may begin only now.
            rig.cluster.disconnect()
            return not await rig.fresh(0.3)

        await eventually(stale)
        rig.cluster.put(JOB, job("a", 0))
        assert not await rig.in_step()
        rig.cluster.follow = working  # type: ignore[method-assign]
        await eventually(rig.in_step)
        await eventually(rig.fresh)


async def test_a_flushed_broker_is_filled_again_and_everything_is_marked(rig: ReflectorRig) -> None:
    for name in "abc":
        rig.cluster.put(JOB, job(name, 0))
    async with rig.informing():
        await eventually(rig.in_step)
        await eventually(rig.fresh)
        await rig.client.flushall()
        await eventually(rig.in_step)
        await eventually(rig.fresh)
    assert await rig.ready() == 3


async def test_an_object_deleted_while_no_watch_ran_is_gone_after_the_first_list(rig: ReflectorRig) -> None:
    rig.cluster.put(JOB, job("a", 0))
    rig.cluster.put(JOB, job("b", 0))
    async with rig.informing():
        await eventually(rig.in_step)
    rig.cluster.remove(ref(JOB, "a"))
    async with rig.informing(epoch=2):
        await eventually(rig.in_step)


async def test_a_later_informer_deposes_an_earlier_one(rig: ReflectorRig) -> None:
    async with rig.informing(epoch=1) as first:
        await eventually(rig.fresh)
        async with rig.informing(epoch=2):
            with pytest.raises(LeadershipLost):
                await asyncio.wait_for(first, 60)
            rig.cluster.put(JOB, job("a", 0))
            await eventually(rig.in_step)


async def test_everything_is_listed_again_now_and_then_without_leaving_the_watch(rig: ReflectorRig) -> None:
    rig.cluster.put(JOB, job("a", 0))
    async with rig.informing(pace=Pace(relist=0.02, watch=3600, beat=0.01, probe=0.03, base=0.01, cap=0.05)):
        await eventually(rig.in_step)
        await rig.store.apply(JOB, [])
        await rig.client.hdel("{test}:objects:jobs.batch", "default/a")
        await eventually(rig.in_step)
    assert len(rig.cluster.watches) == 1


async def test_only_the_namespaces_asked_for_are_followed(rig: ReflectorRig) -> None:
    def elsewhere(name: str) -> dict[str, object]:
        body = job(name, 0)
        body["metadata"]["namespace"] = "elsewhere"
        return body

    rig.cluster.put(JOB, job("a", 0))
    rig.cluster.put(JOB, elsewhere("b"))
    async with rig.informing(namespaces=("default", "third")):
        await eventually(rig.fresh)
        rig.cluster.put(JOB, elsewhere("c"))
        rig.cluster.put(JOB, job("d", 0))

        async def mine() -> bool:
            return set(await rig.mirrored()) == {"a", "d"}

        await eventually(mine)
        await eventually(rig.fresh)


@pytest.mark.parametrize("failures", range(1, 40))
def test_pauses_grow_and_stay_bounded(failures: int) -> None:
    pace = Pace(base=0.2, cap=30)
    assert min(30.0, 0.2 * 2 ** (failures - 1)) / 2 <= pace.pause(failures) <= min(30.0, 0.2 * 2 ** (failures - 1))


class CountingStore(Store):
    """A store that counts the round trips of changes."""

    applied = 0

    async def apply_counted(self, *args: Any, **options: Any) -> Applied:
        self.applied += 1
        return await super().apply_counted(*args, **options)


async def _echo(rig: ReflectorRig, name: str) -> None:
    """A worker creates a Job and stores it; the watch shows it after that."""
    body = job(name, rig.cluster.version + 1)
    await Store.apply_counted(rig.store, JOB, [ObjectVersion(body)])
    rig.cluster.put(JOB, body)


async def test_a_watch_of_what_was_written_through_is_compared_in_few_round_trips(rig: ReflectorRig) -> None:
    store = rig.store = CountingStore(rig.client, Keys("test"), {JOB.id: (rig.lane,)})
    # A watch that was not read to its end for a beat is read without a pause: a slow machine needs a long one.
    async with rig.informing(pace=replace(QUICK, gather=1.0, beat=0.5)):
        await eventually(lambda: rig.fresh(5.0))
        for number in range(ECHOES):
            before = store.applied
            await _echo(rig, f"one-{number}")
            await eventually(lambda before=before: store.applied == before + 1)
        before = store.applied
        for number in range(50):
            await _echo(rig, f"many-{number}")
            await asyncio.sleep(0)
        rig.cluster.put(JOB, job("news", 0))
        await eventually(rig.in_step)
    assert store.applied - before <= 3


async def test_a_watch_of_what_a_plan_makes_and_has_not_stored_yet_is_stored_in_few_round_trips(
    rig: ReflectorRig,
) -> None:
    store = rig.store = CountingStore(rig.client, Keys("test"), {SCALED_JOB.id: (rig.lane,)})
    owner = scaled_job("work", 1)
    await Store.apply_counted(store, SCALED_JOB, [ObjectVersion(owner)])
    await rig.lane.open()
    assert len((await rig.lane.claim(1)).leases) == 1
    async with rig.informing(pace=replace(QUICK, gather=1.0, beat=0.5)):
        await eventually(lambda: rig.fresh(5.0))
        for number in range(ECHOES):
            before = store.applied
            rig.cluster.put(JOB, job(f"one-{number}", 0, owner=owner))
            await eventually(lambda before=before: store.applied == before + 1)
        before = store.applied
        for number in range(50):
            rig.cluster.put(JOB, job(f"many-{number}", 0, owner=owner))
            await asyncio.sleep(0)
        await eventually(rig.in_step)
    assert store.applied - before <= 3


async def test_what_the_store_does_not_have_ends_the_pauses_of_a_watch(rig: ReflectorRig) -> None:
    store = rig.store = CountingStore(rig.client, Keys("test"), {JOB.id: (rig.lane,)})
    # A single pause would outlast the test.
    async with rig.informing(pace=replace(QUICK, gather=3600)):
        await eventually(rig.fresh)
        for number in range(3 * ECHOES):
            before = store.applied
            if number % ECHOES == ECHOES - 1:
                rig.cluster.put(JOB, job(f"news-{number}", 0))
            else:
                await _echo(rig, f"echo-{number}")
            await eventually(lambda before=before: store.applied == before + 1)
        await eventually(rig.in_step)


class NeverDrained(FakeCluster):
    """A server whose watch shows one echo after another: for a reader that pauses there is always more to read."""

    async def follow(self, *_: Any, **__: Any) -> AsyncGenerator[tuple[WatchEvent, ...], None]:
        body = job("echo", self.version)
        read = asyncio.get_running_loop().time()
        while True:
            yield (WatchEvent("MODIFIED", body),)
            if asyncio.get_running_loop().time() - read < 0.005:
                yield ()
            read = asyncio.get_running_loop().time()
            await asyncio.sleep(0)


async def test_a_watch_that_shows_echoes_without_end_is_fresh(rig: ReflectorRig) -> None:
    store = rig.store = CountingStore(rig.client, Keys("test"), {JOB.id: (rig.lane,)})
    rig.cluster = NeverDrained()
    rig.cluster.put(JOB, job("echo", 0))
    async with rig.informing(pace=replace(QUICK, gather=0.01, beat=0.05)):
        await eventually(lambda: store.applied > 100)
        await eventually(rig.fresh)
