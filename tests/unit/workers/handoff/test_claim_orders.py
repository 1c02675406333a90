"""Standing orders in the broker, and readings that carry what became of them."""

import orjson
import pytest
from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.queue import Done, Lane
from tests.support.stored_readings import store_readings
from tests.support.tables import for_each
from workers.decision.claims import ClaimedItem, ClaimLedger, ClaimOrder, ClaimSettlement
from workers.decision.snapshot import Reading
from workers.handoff.claim_orders import ClaimOrders
from workers.handoff.readings import Readings

KEYS = Keys("test")
WORK = "scaledjobs.keda.sh/default/work"


@pytest.fixture
async def lane(client: Redis) -> Lane:
    lane = Lane(client, "poll", KEYS)
    await lane.open()
    return lane


def order(id: int, limit: int = 3) -> ClaimOrder:
    return ClaimOrder(
        id, "ledger", limit, True, (ClaimSettlement("5", "parked", "it failed"), ClaimSettlement("6", "done")), ("7",)
    )


async def test_an_order_is_kept_with_the_mark_of_the_object(client: Redis, lane: Lane) -> None:
    orders = ClaimOrders(client, KEYS)
    assert await orders.put(WORK, order(1), lane) == 1
    assert await orders.get_many([WORK, "other"]) == [order(1), None]
    claim = await lane.claim(10)
    assert [lease.key for lease in claim.leases] == [WORK]


async def test_an_older_order_is_dropped_but_the_object_is_looked_at(client: Redis, lane: Lane) -> None:
    orders = ClaimOrders(client, KEYS)
    await orders.put(WORK, order(2), lane)
    claim = await lane.claim(10)
    await lane.finish((lease, Done()) for lease in claim.leases)
    await orders.put(WORK, order(1, limit=9), lane)
    assert await orders.get_many([WORK]) == [order(2)]
    assert len((await lane.claim(10)).leases) == 1


async def test_a_dropped_order_is_gone(client: Redis, lane: Lane) -> None:
    orders = ClaimOrders(client, KEYS)
    await orders.put(WORK, order(2), lane)
    await orders.drop([WORK])
    assert await orders.get_many([WORK]) == [None]


@for_each("nonsense", "1 {}", '1 {"id":1,"of":"x","limit":1,"settlements":[],"more":1}')
async def test_an_order_of_another_version_counts_as_none(
    stored: str, client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await client.hset("{test}:orders", WORK, stored)
    assert await ClaimOrders(client, KEYS).get_many([WORK]) == [None]
    assert [record.key for record in caplog.records] == [WORK]  # type: ignore[attr-defined]


async def test_orders_in_a_broken_entry_count_as_none(client: Redis, caplog: pytest.LogCaptureFixture) -> None:
    await client.set("{test}:orders", "garbage")
    orders = ClaimOrders(client, KEYS)
    assert await orders.get_many([WORK]) == [None]
    assert [record.key for record in caplog.records] == ["{test}:orders"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("claims", [None, (), (ClaimedItem("1", 2, 3, "abc", "text"), ClaimedItem("2"))])
async def test_a_reading_brings_the_ledger_along(
    client: Redis, lane: Lane, claims: tuple[ClaimedItem, ...] | None
) -> None:
    reading = Reading(id=1, started=1, generation=1, ledger=ClaimLedger("ledger", 4, claims))
    readings = Readings(client, KEYS)
    await store_readings(readings, {WORK: reading}, lane)
    assert await readings.get_many([WORK]) == [reading]
    assert await Readings(client, KEYS).get_many([WORK]) == [reading], "as another process decodes it"


async def test_a_ledger_of_another_version_makes_the_reading_unknown(client: Redis) -> None:
    body = {"id": 1, "started": 1, "generation": 1, "ledger": {"of": "x"}}
    await client.hset("{test}:readings", WORK, b"1 " + orjson.dumps(body))
    assert await Readings(client, KEYS).get_many([WORK]) == [None]
