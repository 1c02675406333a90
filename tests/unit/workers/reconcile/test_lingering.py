"""A claim that takes long goes on by itself: its bell goes on to the next, and what is under way stays bounded."""

import asyncio

import pytest

from scheduler.keys import Keys
from scheduler.queue import Done, Lane
from workers.runtime.consumer import Consumer
from workers.runtime.leases import LeaseKeeper


def key(number):
    return f"scaledjobs.keda.sh/default/{number}"


class House:
    """A lane whose keys are worked off when the test says so. begun: keys whose work has begun."""

    def __init__(self, lane, **options):
        self.lane, self.begun, self.free = lane, [], asyncio.Event()
        self.hands = LeaseKeeper(lane, self.ring, lease=30.0)
        self.drain = Consumer(self.hands, self.handle, self.ring, batch=1, work=60.0, **options)

    async def ring(self, bells):
        pass

    async def handle(self, claim, hands):
        self.begun += [lease.key for lease in claim.leases]
        await self.free.wait()
        await hands.settle_all([(lease, Done()) for lease in claim.leases])

    async def leased(self):
        return (await self.lane.stats()).leased


@pytest.fixture
async def house(fake_redis):
    lane = Lane(fake_redis, "poll", Keys("test"), lease=30.0)
    await lane.open()
    houses = []

    async def build(keys, **options):
        houses.append(house := House(lane, **options))
        await lane.mark(map(key, range(keys)))
        return house

    yield build
    for each in houses:
        await each.drain.close()
        await each.hands.close()


async def test_a_bell_goes_on_while_what_it_claimed_before_is_under_way(house):
    house = await house(5, linger=0.001)
    assert await house.drain.bell() == 5
    assert sorted(house.begun) == [key(number) for number in range(5)]
    assert await house.leased() == 5, "they are ours as long as it takes"
    assert len(house.hands._held) == 5
    house.free.set()
    while house.drain._lingering:
        await asyncio.sleep(0)
    assert await house.leased() == 0
    assert not house.hands._held


async def test_more_than_so_many_are_waited_for(house):
    house = await house(5, linger=0.001, lingering=3)
    bell = asyncio.create_task(house.drain.bell())
    while len(house.begun) < 4:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert (len(house.begun), bell.done()) == (4, False), "three by themselves, and the one that the bell waits for"
    house.free.set()
    assert await bell == 5


async def test_without_a_time_to_linger_a_bell_waits(house):
    house = await house(2)
    bell = asyncio.create_task(house.drain.bell())
    while not house.begun:
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert (len(house.begun), bell.done()) == (1, False)
    house.free.set()
    assert await bell == 2


async def test_what_lingers_is_given_up_when_the_process_ends_and_its_leases_run_out(house):
    house = await house(3, linger=0.001)
    await house.drain.bell()
    await house.drain.close()
    assert not house.hands._held
    assert await house.leased() == 3, "nobody said what became of them: they expire"


async def test_an_error_in_what_lingers_is_told(house, caplog, monkeypatch):
    house = await house(1, linger=0.001)

    async def refuse(_):
        raise ConnectionError("the broker is away")

    await house.drain.bell()
    monkeypatch.setattr(house.hands, "settle_all", refuse)
    house.free.set()
    while house.drain._lingering:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert "a claim that went on by itself could not be settled" in caplog.text
