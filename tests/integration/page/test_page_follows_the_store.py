"""The page on a real broker: lists, objects and updates as the store changes."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio as redis_async

from deploy.page.live import store_follower
from scheduler.keys import Keys
from tests.support.page_server import PREFIX, PageServer, page_server
from tests.support.stored_readings import store_readings
from tests.unit.workers.objects import job, ref, scaled_job
from workers.api.kinds import JOB, SCALED_JOB
from workers.cache.store import ObjectVersion, Store
from workers.decision.plan import Figure, Plan
from workers.decision.snapshot import Reading, Snapshot, TriggerSample


@pytest.fixture
async def served(real_redis: redis_async.Redis, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PageServer]:
    # Changes are heard, or found after a reconnection: no look at the generation comes first.
    monkeypatch.setattr(store_follower, "GENERATION", 1e6)
    async with page_server(real_redis) as served:
        yield served


async def test_lists_show_what_is_stored_and_updates_what_changes(served: PageServer) -> None:
    owner = scaled_job("crunch", 1)
    await served.list(SCALED_JOB, owner)
    await served.list(JOB, job("crunch-1", 2, owner=owner))
    status, answer = await served.get("/objects?q=crunch")
    assert status == 200
    assert answer["total"] == 2
    assert [row["name"] for row in answer["items"]] == ["crunch", "crunch-1"]
    assert answer["items"][1]["owner"] == {"kind": SCALED_JOB.id, "namespace": "default", "name": "crunch"}
    _, kinds = await served.get("/kinds")
    assert {kind["id"]: kind["count"] for kind in kinds} == {SCALED_JOB.id: 1, JOB.id: 1}

    async with served.updates(f"objects:{JOB.id}", f"object:{SCALED_JOB.id}/default/crunch") as events:
        assert await events.next() == ("hello", {"resumed": False})
        done = job("crunch-1", 3, owner=owner)
        done["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        await served.put(JOB, done)
        _, row = await events.next("row")
        while row["phase"] != "Complete":
            _, row = await events.next("row")
        last = events.last
    await served.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "crunch-1"), "uid-crunch-1")])
    async with served.updates(f"objects:{JOB.id}", last=last) as events:
        assert await events.next() == ("hello", {"resumed": True})
        assert await events.next("gone") == ("gone", {"kind": JOB.id, "namespace": "default", "name": "crunch-1"})
    _, answer = await served.get("/objects")
    assert [row["name"] for row in answer["items"]] == ["crunch"]


async def test_an_object_is_shown_with_children_decisions_and_series(served: PageServer) -> None:
    owner = scaled_job("crunch", 1, annotations={"note": "hello"})
    await served.list(SCALED_JOB, owner)
    await served.list(JOB, job("crunch-1", 2, owner=owner))
    path = f"/objects/{SCALED_JOB.id}/default/crunch"
    status, shown = await served.get(path)
    assert status == 200
    assert "note: hello" in shown["manifest"]
    assert [child["name"] for child in shown["children"]] == ["crunch-1"]
    assert shown["row"]["numbers"] == {"pending": 1, "running": 0}
    assert (await served.get(f"{path}x"))[0] == 404

    where = ref(SCALED_JOB, "crunch")
    async with served.updates(f"object:{SCALED_JOB.id}/default/crunch") as events:
        sample = TriggerSample("s0-redis-work", "redis", value=7.0)
        reading = Reading(1, 10**16, 1, (sample,), uid="uid-crunch")
        await store_readings(served.page.readings, {where.key: reading}, served.page.lanes["reconcile"])
        _, point = await events.next("point")
        while point["waiting"] != 7:
            _, point = await events.next("point")
        assert point["object"] == {"kind": SCALED_JOB.id, "namespace": "default", "name": "crunch"}
        assert (point["pending"], point["done"]) == (1, None)
        snapshot = Snapshot(where, owner)
        await served.page.decisions.note([(snapshot, Plan(why="7 wait", figures=(Figure("wanted", 7, "7 / 1"),)))])
        _, decision = await events.next("decision")
        assert decision["why"] == "7 wait"
    _, made = await served.get(f"{path}/decisions")
    assert made[0]["figures"] == [{"name": "wanted", "value": 7, "how": "7 / 1"}]
    _, series = await served.get(f"{path}/series?minutes=5")
    assert 7 in series["waiting"]
    assert len(series["at"]) == len(series["done"])
    assert set(series["done"]) == {None}
    row = (await served.get(path))[1]["row"]
    assert row["numbers"]["waiting"] == 7


async def test_what_the_page_could_not_hear_of_it_finds_by_comparing(
    served: PageServer, real_redis: redis_async.Redis
) -> None:
    await served.list(JOB, *(job(f"crunch-{number}", 1) for number in range(3)))
    assert (await served.get("/objects"))[1]["total"] == 3
    # The connection that listens breaks, and changes happen before it is there again.
    for client in await real_redis.client_list(_type="pubsub"):
        await real_redis.client_kill_filter(_id=client["id"])
    await served.store.apply(JOB, [ObjectVersion.gone(ref(JOB, "crunch-0"), "uid-crunch-0")])
    await served.put(JOB, job("crunch-3", 5))
    await names_become(served, ["crunch-1", "crunch-2", "crunch-3"])


async def test_after_the_broker_was_emptied_only_what_is_stored_anew_is_shown(
    real_redis: redis_async.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_follower, "GENERATION", 0.1)
    async with page_server(real_redis) as served:
        await served.list(JOB, *(job(f"crunch-{number}", 1) for number in range(3)))
        await names_become(served, ["crunch-0", "crunch-1", "crunch-2"])
        await real_redis.flushall()
        fresh = Store(real_redis, Keys(PREFIX), {})
        listing = await fresh.begin(JOB, epoch=2)
        await fresh.apply(JOB, [ObjectVersion(job("crunch-1", 1))], listing=listing)
        await fresh.finish(listing, {"": "5"})
        await names_become(served, ["crunch-1"])


async def names_become(served: PageServer, names: list[str]) -> None:
    async with asyncio.timeout(20):
        while [row["name"] for row in (await served.get("/objects"))[1]["items"]] != names:
            await asyncio.sleep(0.05)
