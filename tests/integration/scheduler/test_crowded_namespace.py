"""A namespace with a million keys in a lane: others wait no longer for it, and no call costs more than with a few."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import cycle

import pytest
import redis.asyncio as redis

from scheduler.keys import Keys
from scheduler.queue import PIECE, Done, Failed, Lane, Requeue, RequeueAt, RetryBackoff
from tests.support import valkeys
from tests.support.bookings import book
from tests.support.processes import peak_memory
from tests.support.redis_calls import commands_of
from tests.unit.scheduler.conftest import Clock

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

#: Keys of the namespace that are ready, by lane; as many are booked for a day later.
CROWDS = {"few": 5 * PIECE, "many": 1_000_000}
DAY = 86_400.0
#: Most keys of one claim, and claims.
BATCH, ROUNDS = 64, 50
#: MB that the broker may take for calls on a lane; what one reads of a million keys takes more than 100.
GROWTH = 16.0


def lane_of(client: redis.Redis, name: str, clock: Clock) -> Lane:
    return Lane(client, name, Keys("test"), backoff=RetryBackoff(base=1.0, cap=60.0, jitter=0.0), clock=clock)


async def _crowd(url: str) -> int:
    """Fills the lanes. Returns the server's process id."""
    clock = Clock()
    async with redis.Redis.from_url(url) as client:
        for name, number in CROWDS.items():
            lane = lane_of(client, name, clock)
            await lane.open()
            keys = [f"jobs.batch/crowded/{each}" for each in range(number)]
            await lane.mark(keys)
            await book(client, lane.keys, dict.fromkeys(keys, clock.seconds + DAY))
        return int((await client.info("server"))["process_id"])


@dataclass(frozen=True)
class Server:
    """A server with a lane of each size. peak: the most memory that it took until then; MB."""

    url: str
    pid: int
    peak: float


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with valkeys.installed(valkeys.program()) as url:
        pid = asyncio.run(_crowd(url))
        yield Server(url, pid, peak_memory(pid))


@pytest.fixture
async def client(server: Server) -> AsyncIterator[redis.Redis]:
    async with redis.Redis.from_url(server.url) as client:
        yield client


# Each test does the same on both lanes, so that they differ in their size alone.


async def test_a_key_of_another_namespace_is_in_the_next_claim_although_a_million_are_refused_for_ever(
    client: redis.Redis,
) -> None:
    for name in CROWDS:
        clock, attempts = Clock(), Counter[str]()
        lane = lane_of(client, name, clock)
        for number in range(ROUNDS):
            await lane.mark([quiet := f"jobs.batch/quiet/{number}"])
            leases = (await lane.claim(BATCH)).leases
            assert quiet in [lease.key for lease in leases[:2]]
            attempts.update(lease.key for lease in leases)
            await lane.finish((lease, Done() if lease.key == quiet else Failed("refused")) for lease in leases)
            clock.forward(60.0)
            assert (await lane.sweep()).moved == BATCH - 1
        # What is refused again and again comes back behind the rest of its own namespace, too.
        assert max(attempts.values()) == 1


async def test_a_call_on_a_million_keys_takes_the_commands_and_the_memory_of_one_on_a_few(
    client: redis.Redis, server: Server
) -> None:
    clock, commands = Clock(), {}
    clock.forward(DAY)
    for name in CROWDS:
        lane = lane_of(client, name, clock)
        # The first time the broker may not know the scripts.
        for turn in range(2):
            async with commands_of(client) as commands[name]:
                await _call_everything(client, lane, clock, f"turn-{turn}")
    assert commands["many"] == commands["few"]
    assert peak_memory(server.pid) - server.peak < GROWTH


async def _call_everything(client: redis.Redis, lane: Lane, clock: Clock, namespace: str) -> None:
    quiet = [f"jobs.batch/{namespace}/{each}" for each in range(100)]
    await lane.mark([*quiet, "jobs.batch/crowded/4000"])
    await book(client, lane.keys, dict.fromkeys(quiet, clock.seconds + 1.0))
    leases = (await lane.claim(BATCH)).leases
    assert len(leases) == BATCH
    assert not await lane.renew(leases)
    outcomes = cycle((Done(), Requeue(), RequeueAt(clock.seconds + 1.0), Failed("refused")))
    assert not (await lane.finish(zip(leases, outcomes, strict=False))).stale
    assert (await lane.sweep(BATCH)).moved == BATCH
    assert (await lane.stats()).due
