"""Leases that a process holds: settled once, stopped in time, without effect after they are lost."""

import asyncio
import socket
import time
from dataclasses import replace
from urllib.request import urlopen

import pytest
from prometheus_client import REGISTRY
from redis.exceptions import ConnectionError

from scheduler.keys import Keys
from scheduler.queue import Done, Failed, Lane, Requeue
from tests.support.tables import cases
from workers.metrics import process
from workers.runtime.consumer import Consumer
from workers.runtime.leases import LeaseKeeper, LeaseLost

KEY = "jobs.batch/default/crunch"
OTHER = "jobs.batch/default/other"


class Bell:
    def __init__(self):
        self.notified = {}

    async def __call__(self, notifications):
        for lane, count in notifications.items():
            self.notified[lane] = self.notified.get(lane, 0) + count


@pytest.fixture
def notify():
    return Bell()


@pytest.fixture
async def lane(fake_redis):
    lane = Lane(fake_redis, "reconcile", Keys("test"), lease=30.0)
    await lane.open()
    return lane


@pytest.fixture
async def keeper(lane, notify):
    keeper = LeaseKeeper(lane, notify, lease=30.0)
    yield keeper
    await keeper.close()


async def claimed(lane, keeper, *keys):
    await lane.mark(keys)
    claim = await lane.claim(len(keys))
    keeper.take(claim.leases)
    return claim.leases


async def settled(claim, keeper):
    """A handler that does nothing."""
    await keeper.settle_all([(lease, Done()) for lease in claim.leases])


async def test_work_settles_its_lease_with_its_outcome(lane, keeper):
    [lease] = await claimed(lane, keeper, KEY)

    await keeper.work(lease, asyncio.sleep(0, Failed("no luck")))
    stats = await lane.stats()
    assert (stats.leased, stats.failing) == (0, 1)


async def test_a_lease_that_another_process_claimed_cancels_the_work_and_settles_nothing(lane, keeper):
    [lease] = await claimed(lane, keeper, KEY)
    started, harmed = asyncio.Event(), False

    async def works():
        nonlocal harmed
        started.set()
        await asyncio.Event().wait()
        harmed = True
        return Done()

    work = asyncio.create_task(keeper.work(lease, works()))
    await started.wait()
    # Somebody else has the key under a later token.
    await lane.finish([(lease, Done())])
    [theirs] = await claimed(lane, LeaseKeeper(lane, Bell(), lease=30.0), KEY)
    await keeper._renew()
    await work
    assert not harmed
    assert await lane.renew([theirs]) == frozenset()
    with pytest.raises(LeaseLost):
        keeper.check(lease)


async def test_work_on_a_lease_that_was_lost_before_it_does_not_begin(lane, keeper):
    [lost] = await claimed(lane, keeper, KEY)
    await lane.finish([(lost, Done())])
    await keeper._renew()
    began = False

    async def begins():
        nonlocal began
        began = True
        return Done()

    await keeper.work(lost, begins())
    assert not began
    assert not keeper.holds(lost)
    # Nothing of it is left that would end the renewal of others.
    [lease] = await claimed(lane, keeper, OTHER)
    keeper._deadlines[lease] = time.monotonic() + 1.2
    await keeper._renew()
    keeper.check(lease)


async def test_a_write_is_refused_in_the_last_second_before_the_deadline(lane, keeper):
    [lease] = await claimed(lane, keeper, KEY)
    keeper.check(lease)
    late = replace(lease, token=lease.token + 1, deadline=time.monotonic() + 0.5)
    keeper.take([late])
    with pytest.raises(LeaseLost, match="ran out"):
        keeper.check(late)


async def test_work_that_notices_its_lease_is_gone_settles_nothing(lane, keeper):
    [lease] = await claimed(lane, keeper, KEY)

    async def notices():
        raise LeaseLost("it ran out")

    await keeper.work(lease, notices())
    assert (await lane.stats()).leased == 1


async def test_renewal_moves_the_deadline(lane, keeper):
    [lease] = await claimed(lane, keeper, KEY)
    keeper._deadlines[lease] = time.monotonic() + 1.2
    await keeper._renew()
    keeper.check(lease)
    assert keeper._deadlines[lease] > time.monotonic() + 20


async def test_a_process_stopped_past_its_deadline_cancels_work_even_if_the_key_was_not_claimed(lane, keeper):
    [lease] = await claimed(lane, keeper, KEY)
    keeper._deadlines[lease] = time.monotonic() - 1
    await keeper._renew()
    with pytest.raises(LeaseLost):
        keeper.check(lease)


async def test_a_notification_consumes_the_lane_in_batches(lane, keeper, notify):
    seen = []

    async def handle(claim, keeper):
        seen.append(len(claim.leases))
        await settled(claim, keeper)

    await lane.mark(f"jobs.batch/default/{number}" for number in range(10))
    assert await Consumer(keeper, handle, notify, batch=4, work=60.0).consume() == 10
    assert seen == [4, 4, 2]


@cases(("nothing more", None, 1), ("marked meanwhile", "mark", 2), ("comes back at once", "requeue", 2))
async def test_a_claim_that_leaves_nothing_ready_is_followed_by_one_for_what_its_settling_made_ready(
    what, claims, lane, keeper, notify, monkeypatch
):
    counted = []

    async def claim(*args, claim=lane.claim, **options):
        counted.append(args)
        return await claim(*args, **options)

    async def handle(claim, keeper):
        if what == "mark" and len(counted) == 1:
            await lane.mark([KEY])
        again = Requeue() if what == "requeue" and len(counted) == 1 else Done()
        await keeper.settle_all([(lease, again) for lease in claim.leases])

    marked = await lane.mark([KEY, OTHER])
    assert marked.notifications == 1
    monkeypatch.setattr(lane, "claim", claim)
    await Consumer(keeper, handle, notify, batch=10, work=60.0).consume()
    assert (len(counted), (await lane.stats()).ready) == (claims, 0)


async def test_a_notification_that_worked_long_enough_sends_the_next(lane, keeper, notify):
    marked = await lane.mark(f"jobs.batch/default/{number}" for number in range(10))
    for _ in range(marked.notifications):
        await lane.claim(0, notified=True)
    assert await Consumer(keeper, settled, notify, batch=4, work=0.0).consume() == 4
    assert notify.notified["reconcile"] >= 1


async def test_a_notification_too_many_claims_nothing(lane, keeper, notify):
    async def handle(claim, keeper):
        raise AssertionError("there is nothing to handle")

    assert await Consumer(keeper, handle, notify, batch=4, work=1.0).consume() == 0


async def test_a_key_marked_while_it_is_worked_on_is_worked_on_once_more(lane, keeper, notify):
    rounds = []

    async def handle(claim, keeper):
        rounds.append([lease.key for lease in claim.leases])
        if len(rounds) == 1:
            await lane.mark([KEY])
        await settled(claim, keeper)

    await lane.mark([KEY, OTHER])
    await Consumer(keeper, handle, notify, batch=10, work=60.0).consume()
    assert sorted(rounds[0]) == [KEY, OTHER]
    assert rounds[1:] == [[KEY]]


async def test_a_handler_that_crashes_gives_everything_back_as_failed(lane, keeper, notify):
    async def handle(claim, keeper):
        await keeper.settle(claim.leases[0], Done())
        raise ConnectionError("the broker went away")

    await lane.mark([KEY, OTHER])
    await Consumer(keeper, handle, notify, batch=10, work=60.0).consume()
    stats = await lane.stats()
    assert (stats.leased, stats.failing, stats.later) == (0, 1, 1)


async def test_a_cancelled_notification_leaves_no_renewed_lease(lane, keeper, notify):
    started = asyncio.Event()

    async def handle(claim, keeper):
        started.set()
        await asyncio.Event().wait()

    await lane.mark([KEY])
    notified = asyncio.create_task(Consumer(keeper, handle, notify, batch=10, work=60.0).consume())
    await started.wait()
    notified.cancel()
    await asyncio.gather(notified, return_exceptions=True)
    assert keeper._held == {}


async def test_the_sweep_shows_the_lane_in_numbers_and_logs_once_that_the_broker_is_away(
    lane, keeper, notify, caplog, monkeypatch
):
    caplog.set_level("INFO", "workers")
    sweep, sweeps, enough = lane.sweep, 0, asyncio.Event()

    async def away_for_three():
        nonlocal sweeps
        sweeps += 1
        if sweeps <= 3:
            raise ConnectionError("refused")
        if sweeps == 6:
            enough.set()
        return await sweep()

    monkeypatch.setattr(lane, "sweep", away_for_three)
    await lane.mark([KEY, OTHER])
    await lane.claim(1)
    sweeping = asyncio.create_task(Consumer(keeper, None, notify, batch=1, work=1.0).sweep_forever(every=0.0))
    async with asyncio.timeout(60):
        await enough.wait()
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    assert [record.message for record in caplog.records] == ["the broker is away; waiting for it", "the broker is back"]
    labels = {"lane": "reconcile"}
    assert REGISTRY.get_sample_value("penstock_workqueue_depth", labels) == 1
    assert REGISTRY.get_sample_value("penstock_workqueue_keys", {**labels, "state": "leased"}) == 1
    assert REGISTRY.get_sample_value("penstock_oldest_ready_seconds", labels) > 0


def test_a_metrics_port_is_opened_once_and_one_that_is_taken_stops_nothing(caplog):
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        process.serve(port)
        assert [record.message for record in caplog.records] == ["metrics are not served"]
    process.serve(port)
    process.serve(port)
    assert len(caplog.records) == 1
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert b"penstock_reconcile_total" in answer.read()
