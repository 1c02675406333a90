"""What waits is in the broker: however much it is, the memory of a process does not grow with it."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from deploy.processes import command_lines
from penstock.client import AsyncItemList
from scalers.deliveries.deliveries import Deliveries
from scheduler.keys import Keys
from scheduler.queue import PIECE, Lane
from tests.benchmarks.manifests import TEMPLATE, body, scaled_job
from tests.support.bookings import book
from tests.support.conditions import eventually
from tests.support.processes import peak_memory
from tests.support.sites import LONG, Site
from tests.support.tables import cases
from workers.api.kinds import EVENT_JOB, SCALED_JOB
from workers.lanes import LANES, queue_key
from workers.runtime.notifier import Notifier

pytestmark = pytest.mark.timeout(300)

#: Keys, items and messages that wait when processes start: so few that they tell what a process takes anyway, and many.
#: An event takes longer, so there are a quarter as many, each four times as large.
FEW, MANY, PER_EVENT = 1_000, 100_000, 4
#: MB that a process may take more for many than for few. As bytes each sort of many has 25 MB at least, and as objects
#: of Python several times that.
GROWTH = 40.0
#: Makes keys as long as names may be.
LONG_NAME = "a" * 240
KILOBYTE = "x" * 1000

Condition = Callable[[], Awaitable[bool]]


@cases(
    ("standalone", ("standalone",)),
    ("a process of each sort", ("watch", "beat", "scaler", "worker")),
)
async def test_a_backlog_a_hundred_times_as_long_takes_no_more_memory(parts: tuple[str, ...], site: Site) -> None:
    for lane in LANES:
        # A lane of a new broker is closed for as long as a lease may last.
        await Lane(site.client, lane, Keys()).open()
    few = await _peaks(parts, site, FEW)
    many = await _peaks(parts, site, MANY)
    growth = {part: round(many[part] - few[part], 1) for part in parts}
    assert max(growth.values()) < GROWTH, f"MB: {growth}, more than {few}"


async def _peaks(parts: tuple[str, ...], site: Site, number: int) -> dict[str, float]:
    """Returns the most memory of processes that start when so many of each sort wait, and take them up; MB."""
    backlog = [await load(site, number) for load in (_ready_keys, _due_polls, _items, _events, _messages)]
    processes = {part: await site.start(getattr(command_lines, part)(), f"{part}-{number}") for part in parts}
    for taken_up in backlog:
        await eventually(taken_up, LONG)
    peaks = {part: peak_memory(process.popen.pid) for part, process in processes.items()}
    for process in processes.values():
        assert process.end() == 0
        assert '"level":"ERROR"' not in process.log.read_text()
    return peaks


async def _ready_keys(site: Site, number: int) -> Condition:
    lane = Lane(site.client, "reconcile", Keys())
    await lane.mark(_keys(number))
    return partial(_drained, lane)


async def _due_polls(site: Site, number: int) -> Condition:
    lane = Lane(site.client, "poll", Keys())
    now, _ = await site.client.time()
    await book(site.client, lane.keys, dict.fromkeys(_keys(number), now))
    return partial(_drained, lane)


async def _items(site: Site, number: int) -> Condition:
    """Items of a list, of which five are claimed."""
    name = f"items-{number}"
    items = AsyncItemList(site.client, name)
    for first in range(0, number, PIECE):
        await items.put(*(f"{each} {KILOBYTE}" for each in range(first, first + PIECE)))
    owner = scaled_job(name, site.address, most=5, polling=1, strategy="claim")
    await site.cluster.create(SCALED_JOB, owner)

    async def claimed() -> bool:
        return await site.has_jobs(f"{name}-", 5) and await site.client.llen(name) == number - 5

    return claimed


async def _events(site: Site, number: int) -> Condition:
    """Events of a channel, all of which its EventJob takes in, and of which it runs five."""
    number //= PER_EVENT
    name = f"events-{number}"
    event = {"specversion": "1.0", "source": "/backlog", "type": "t", "data": PER_EVENT * KILOBYTE}
    for first in range(0, number, PIECE):
        async with site.client.pipeline(transaction=False) as pipe:
            for each in range(first, min(first + PIECE, number)):
                pipe.xadd(f"{{{Keys().prefix}}}:events:default/{name}", {**event, "id": str(each)})
            await pipe.execute()
    spec = {"concurrency": {"total": 5}, "maxEvents": 1_000_000, "jobTemplate": {"spec": {"template": TEMPLATE}}}
    owner = await site.cluster.create(EVENT_JOB, body(EVENT_JOB, name, spec=spec))
    deliveries = Deliveries(site.client, Keys())

    async def taken_in() -> bool:
        counts = await deliveries.counts(owner["metadata"]["uid"])
        return counts.waiting == number - 5 and await site.has_jobs(f"{name}-", 5)

    return taken_in


async def _messages(site: Site, number: int) -> Condition:
    """Celery's messages, which ask for polls: each is a claim, of nothing but for the first ones."""
    notifier, key = Notifier(site.client, Keys().prefix), queue_key(Keys().prefix, "poll")
    for _ in range(0, number, PIECE):
        await notifier.notify({"poll": PIECE})

    async def some_taken() -> bool:
        return bool(await site.client.llen(key) < number * 0.95)

    return some_taken


def _keys(number: int) -> list[str]:
    """Returns keys of objects that do not exist."""
    return [f"{SCALED_JOB.id}/default/{LONG_NAME}-{each}" for each in range(number)]


async def _drained(lane: Lane) -> bool:
    stats = await lane.stats()
    return stats.ready == stats.leased == stats.due == 0
