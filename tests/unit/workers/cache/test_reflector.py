"""The informer against a cluster that breaks in every way a watch can, and against a broker that is flushed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio as redis_async

from scheduler.keys import Keys
from scheduler.queue import Lane
from tests.support.clusters import FakeCluster
from tests.support.conditions import eventually
from tests.unit.workers.objects import job, key, ref
from workers.api.kinds import JOB
from workers.cache.reflector import Pace, Reflector
from workers.cache.store import LeadershipLost, Store
from workers.errors import Unavailable

QUICK = Pace(relist=3600, watch=3600, beat=0.01, probe=0.03, base=0.01, cap=0.05)


class World:
    """A fake cluster, a mirror, and informers that follow Jobs."""

    def __init__(self, client: redis_async.Redis) -> None:
        self.client = client
        self.cluster = FakeCluster()
        self.lane = Lane(client, "reconcile", Keys("test"))
        self.mirror = Store(client, Keys("test"), {JOB.id: (self.lane,)})
        self.rung: list[Mapping[str, int]] = []

    async def ring(self, bells: Mapping[str, int]) -> None:
        if bells:
            self.rung.append(bells)

    @asynccontextmanager
    async def informing(
        self, *, epoch: int = 1, pace: Pace = QUICK, namespaces: tuple[str, ...] = ()
    ) -> AsyncIterator[asyncio.Task[None]]:
        informer = Reflector(self.cluster, self.mirror, JOB, self.ring, namespaces=namespaces, pace=pace)
        task = asyncio.create_task(informer.run(epoch))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def mirrored(self) -> dict[str, str]:
        return {
            entry.ref.name: entry.body["metadata"]["resourceVersion"]
            async for entry in self.mirror.scan(JOB)
            if entry.body
        }

    async def in_step(self) -> bool:
        """The mirror holds exactly what the cluster does."""
        truth = {
            body["metadata"]["name"]: body["metadata"]["resourceVersion"] for body in self.cluster.objects.values()
        }
        return await self.mirrored() == truth

    async def fresh(self, limit: float = 0.5) -> bool:
        age = (await self.mirror.freshness([JOB]))[JOB.id]
        return age is not None and age < limit

    async def ready(self) -> int:
        return (await self.lane.stats()).ready


@pytest.fixture
async def world(fake_redis: redis_async.Redis) -> World:
    return World(fake_redis)


async def test_what_is_there_is_listed_in_pages_and_what_happens_then_is_watched(world: World) -> None:
    for name in "abcde":
        world.cluster.put(JOB, job(name, 0))
    async with world.informing():
        await eventually(world.in_step)
        world.cluster.put(JOB, job("f", 0))
        world.cluster.put(JOB, job("a", 0))
        world.cluster.remove(ref(JOB, "b"))
        await eventually(world.in_step)
    assert world.cluster.lists == 1
    assert await world.ready() == 6
    assert world.rung


async def test_a_watch_that_breaks_is_taken_up_where_it_was(world: World) -> None:
    async with world.informing():
        await eventually(world.fresh)
        world.cluster.put(JOB, job("a", 0))
        await eventually(world.in_step)
        reached = world.cluster.version
        world.cluster.disconnect()
        world.cluster.put(JOB, job("b", 0))
        await eventually(world.in_step)
    assert world.cluster.lists == 1
    assert world.cluster.watches[-1] == str(reached)


async def test_a_bookmark_moves_the_place_to_take_up_from(world: World) -> None:
    async with world.informing():
        await eventually(lambda: bool(world.cluster.watches))
        world.cluster.bookmark(JOB)
        reached = world.cluster.version

        async def resumed() -> bool:
            world.cluster.disconnect()
            return world.cluster.watches[-1] == str(reached)

        await eventually(resumed)


async def test_a_version_too_old_to_watch_from_leads_to_a_new_list(world: World) -> None:
    async with world.informing():
        await eventually(world.fresh)
        world.cluster.down = True
        world.cluster.disconnect()
        world.cluster.put(JOB, job("a", 0))
        world.cluster.put(JOB, job("b", 0))
        world.cluster.remove(ref(JOB, "a"))
        world.cluster.forgotten = world.cluster.version - 1
        world.cluster.down = False
        await eventually(world.in_step)
    assert world.cluster.lists == 2


async def test_an_event_that_comes_twice_is_one(world: World) -> None:
    async with world.informing():
        await eventually(world.fresh)
        world.cluster.put(JOB, job("a", 0))
        await eventually(world.in_step)
        await world.lane.open()
        claim = await world.lane.claim(10)
        assert [lease.key for lease in claim.leases] == [key(JOB, "a")]
        again = world.cluster.log[-1]
        world.cluster.log.append((world.cluster.version, JOB, again[2]))
        world.cluster.put(JOB, job("b", 0))
        await eventually(world.in_step)
    assert (await world.lane.stats()).dirty == 0


async def test_freshness_is_claimed_while_the_stream_is_quiet_and_the_server_answers(world: World) -> None:
    async with world.informing():
        await eventually(world.fresh)
        before = (await world.mirror.freshness([JOB]))[JOB.id]
        assert before is not None
        await eventually(lambda: world.fresh(0.2))


async def test_a_server_that_answers_nothing_lets_the_kind_grow_stale(world: World) -> None:
    async with world.informing():
        await eventually(world.fresh)
        world.cluster.down = True

        async def stale() -> bool:
            return not await world.fresh(0.3)

        await eventually(stale)
        world.cluster.down = False
        await eventually(lambda: world.fresh(0.3))


def _refusing(*_: object, **__: object) -> AsyncIterator[object]:
    raise Unavailable("no more watches")


async def _flapping(*_: object, **__: object) -> AsyncIterator[tuple[object, ...]]:
    """Opens, and breaks before the server could send what was missed."""
    yield ()
    raise Unavailable("the connection broke")


@pytest.mark.parametrize("follow", [_refusing, _flapping])
async def test_no_freshness_is_claimed_while_the_watch_cannot_be_taken_up(world: World, follow: Any) -> None:
    async with world.informing():
        await eventually(world.fresh)
        working = world.cluster.follow
        world.cluster.follow = follow  # type: ignore[method-assign]
        world.cluster.disconnect()
        world.cluster.put(JOB, job("a", 0))

        async def stale() -> bool:
            return not await world.fresh(0.3)

        await eventually(stale)
        assert not await world.in_step()
        world.cluster.follow = working  # type: ignore[method-assign]
        await eventually(world.in_step)
        await eventually(world.fresh)


async def test_a_flushed_broker_is_filled_again_and_everything_is_marked(world: World) -> None:
    for name in "abc":
        world.cluster.put(JOB, job(name, 0))
    async with world.informing():
        await eventually(world.in_step)
        await eventually(world.fresh)
        await world.client.flushall()
        await eventually(world.in_step)
        await eventually(world.fresh)
    assert await world.ready() == 3


async def test_what_was_deleted_while_nobody_watched_is_gone_after_the_first_list(world: World) -> None:
    world.cluster.put(JOB, job("a", 0))
    world.cluster.put(JOB, job("b", 0))
    async with world.informing():
        await eventually(world.in_step)
    world.cluster.remove(ref(JOB, "a"))
    async with world.informing(epoch=2):
        await eventually(world.in_step)


async def test_a_later_informer_deposes_an_earlier_one(world: World) -> None:
    async with world.informing(epoch=1) as first:
        await eventually(world.fresh)
        async with world.informing(epoch=2):
            with pytest.raises(LeadershipLost):
                await asyncio.wait_for(first, 60)
            world.cluster.put(JOB, job("a", 0))
            await eventually(world.in_step)


async def test_everything_is_listed_again_now_and_then_without_leaving_the_watch(world: World) -> None:
    world.cluster.put(JOB, job("a", 0))
    async with world.informing(pace=Pace(relist=0.02, watch=3600, beat=0.01, probe=0.03, base=0.01, cap=0.05)):
        await eventually(world.in_step)
        await world.mirror.apply(JOB, [])
        await world.client.hdel("{test}:objects:jobs.batch", "default/a")
        await eventually(world.in_step)
    assert len(world.cluster.watches) == 1


async def test_only_the_namespaces_asked_for_are_followed(world: World) -> None:
    def elsewhere(name: str) -> dict[str, object]:
        body = job(name, 0)
        body["metadata"]["namespace"] = "elsewhere"
        return body

    world.cluster.put(JOB, job("a", 0))
    world.cluster.put(JOB, elsewhere("b"))
    async with world.informing(namespaces=("default", "third")):
        await eventually(world.fresh)
        world.cluster.put(JOB, elsewhere("c"))
        world.cluster.put(JOB, job("d", 0))

        async def mine() -> bool:
            return set(await world.mirrored()) == {"a", "d"}

        await eventually(mine)
        await eventually(world.fresh)


@pytest.mark.parametrize("failures", range(1, 40))
def test_pauses_grow_and_stay_bounded(failures: int) -> None:
    pace = Pace(base=0.2, cap=30)
    assert min(30.0, 0.2 * 2 ** (failures - 1)) / 2 <= pace.pause(failures) <= min(30.0, 0.2 * 2 ** (failures - 1))
