"""Deliveries whose EventJob is gone, and no poll has seen it go."""

import pytest

from scalers.deliveries.forgotten_deliveries import ForgottenDeliveries
from tests.support import broker_clock
from tests.support.event_jobs import KEYS, PolledEventJob
from tests.support.tables import cases
from workers.api.kinds import EVENT_JOB
from workers.cache.store import ObjectVersion, Store
from workers.errors import Stale


async def listed(job: PolledEventJob, *uids: str) -> Store:
    """A store that was filled with these EventJobs just now."""
    store = Store(job.client, KEYS, {})
    listing = await store.begin(EVENT_JOB, 1)
    for uid in uids:
        metadata = {"namespace": "default", "name": f"of-{uid}", "uid": uid, "resourceVersion": "1"}
        await store.apply(EVENT_JOB, [ObjectVersion({"metadata": metadata, "spec": {}})], listing=listing)
    await store.finish(listing, {"": "1"})
    await store.touch(EVENT_JOB, 1, await broker_clock.now(job.client))
    return store


async def kept(job: PolledEventJob) -> set[str]:
    """The keys of deliveries, and the groups of the channel."""
    keys = {key.decode() async for key in job.client.scan_iter(match=f"*{job.uid}*")}
    groups = await job.client.xinfo_groups(f"{job.intake}:accepted") if await _there(job) else []
    return {key for key in keys if not key.endswith(":meta")} | {group["name"].decode() for group in groups}


async def _there(job: PolledEventJob) -> bool:
    return bool(await job.client.exists(f"{job.intake}:accepted"))


async def test_what_two_comparisons_miss_is_removed_and_what_is_there_stays(job: PolledEventJob) -> None:
    stays = PolledEventJob(job.client, uid="u2", orders=job.orders)
    for each in (job, stays):
        await each.poll(1)
    await job.push("a", "b")
    await job.poll(1)
    await stays.poll(1)
    await job.push("c")
    sweep = ForgottenDeliveries(job.deliveries, await listed(job, "u2"), stale=60.0)
    before = await kept(job)
    assert {"eventjob:u1", "eventjob:u2"} < before
    assert (await sweep.sweep(), await kept(job)) == (0, before)
    assert await sweep.sweep() == 1
    assert await kept(job) == {"eventjob:u2"}
    assert await stays.ids("running", "waiting") == ["b", "a"]
    assert await sweep.sweep() == 0


async def test_one_that_is_there_again_is_kept(job: PolledEventJob) -> None:
    await job.push("a")
    await job.poll(1)
    store = await listed(job)
    sweep = ForgottenDeliveries(job.deliveries, store, stale=60.0)
    assert await sweep.sweep() == 0
    metadata = {"namespace": "default", "name": "orders", "uid": "u1", "resourceVersion": "2"}
    await store.apply(EVENT_JOB, [ObjectVersion({"metadata": metadata, "spec": {}})])
    assert await sweep.sweep() == 0
    assert await job.ids("running") == ["a"]


@cases(("lost", True), ("old", False))
async def test_nothing_is_removed_while_the_store_is_not_fresh(lost: bool, job: PolledEventJob) -> None:
    await job.push("a")
    await job.poll(1)
    store = await listed(job)
    sweep = ForgottenDeliveries(job.deliveries, store, stale=60.0 if lost else -1.0)
    if lost:
        await job.client.delete(f"{KEYS.tag}:freshness")
    for _ in range(3):
        with pytest.raises(Stale):
            await sweep.sweep()
    assert await job.ids("running") == ["a"]
