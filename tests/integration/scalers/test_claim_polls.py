"""Polls of objects that claim: orders are carried out, and the reading says what was found."""

from typing import Any

import orjson

from tests.integration.scalers.world import World, key, redis_trigger, scaled_job
from tests.support.tables import cases
from workers.api.kinds import Object
from workers.decision.claims import LEDGER, ClaimLedger, ClaimOrder, ClaimSettlement, name_of

NONE_PARKED = {"parked": 0}


def claiming(trigger: Object, **more: Any) -> Object:
    """A ScaledJob whose ledger lies beside this trigger's queue; its spec names another by now."""
    annotations = {LEDGER: orjson.dumps(trigger).decode(), **more.pop("annotations", {})}
    return scaled_job("work", redis_trigger(1, "nowhere"), annotations=annotations, **more)


def of(body: Object) -> str:
    return name_of(body["metadata"]["annotations"][LEDGER])


async def ledger(world: World) -> ClaimLedger | None:
    return (await world.reading("work")).ledger


async def test_an_order_is_carried_out_by_every_poll_until_another_comes(world: World, port: int) -> None:
    body = claiming(redis_trigger(port, "queue"))
    await world.apply(body)
    async with world.polling() as polling:
        await polling.once()
        assert await ledger(world) == ClaimLedger(of(body), None, (), counts=NONE_PARKED)
        await world.orders.put(key("work"), ClaimOrder(1, of(body), 2), world.poll)
        await polling.once()
        assert await ledger(world) == ClaimLedger(of(body), 2, (), order=1, counts=NONE_PARKED)
        await world.client.rpush("queue", "a", "b", "c")
        await world.deciding()
        await polling.again("work")
        found = await ledger(world)
        assert found is not None
        assert [each.item for each in found.claims or ()] == ["a", "b"]
        assert await world.deciding() == {"work"}
        first = (found.claims or ())[0].id
        await world.orders.put(
            key("work"), ClaimOrder(2, of(body), 2, settlements=(ClaimSettlement(first, "done"),)), world.poll
        )
        await polling.once()
        found = await ledger(world)
        assert [each.item for each in (found and found.claims) or ()] == ["b", "c"]
    assert await world.client.llen("queue") == 0


async def test_an_order_for_another_ledger_is_not_carried_out(world: World, port: int) -> None:
    body = claiming(redis_trigger(port, "queue"))
    await world.apply(body)
    await world.client.rpush("queue", "a")
    await world.orders.put(key("work"), ClaimOrder(1, "another", 2), world.poll)
    async with world.polling() as polling:
        await polling.once()
    assert await ledger(world) == ClaimLedger(of(body), None, (), counts=NONE_PARKED)
    assert await world.client.llen("queue") == 1


@cases(
    ("paused", {"annotations": {"autoscaling.keda.sh/paused": "true"}}),
    ("being deleted", {"deleted": "2026-03-01T12:00:00Z"}),
)
async def test_an_object_with_a_ledger_is_polled_whatever_it_is(state: Object, world: World, port: int) -> None:
    body = claiming(redis_trigger(port, "queue"), **state)
    await world.apply(body)
    async with world.polling() as polling:
        await polling.once()
    assert await ledger(world) == ClaimLedger(of(body), None, (), counts=NONE_PARKED)


async def test_another_annotation_is_another_trigger(world: World, port: int) -> None:
    await world.client.rpush("second", "a")
    await world.apply(claiming(redis_trigger(port, "first")))
    async with world.polling() as polling:
        await polling.once()
        await world.apply(body := claiming(redis_trigger(port, "second"), version=2))
        await polling.once()
    reading = await world.reading("work")
    assert (reading.samples[0].value, reading.ledger) == (1.0, ClaimLedger(of(body), None, (), counts=NONE_PARKED))


@cases(
    ("wrong parameters", {"type": "redis"}, None, "trigger 0 (redis): "),
    ("no trigger", "nonsense", None, "must be a trigger as JSON"),
    (
        "no items",
        {
            "type": "cron",
            "metadata": {"timezone": "UTC", "start": "0 0 * * *", "end": "1 0 * * *", "desiredReplicas": "1"},
        },
        "items of cron cannot be claimed",
        None,
    ),
    ("no server", redis_trigger(1, "queue"), "127.0.0.1:1", None),
)
async def test_a_ledger_that_cannot_be_read_is_unknown_and_not_empty(
    trigger: Any, error: str | None, problem: str | None, world: World
) -> None:
    body = claiming(trigger)
    await world.apply(body)
    async with world.polling() as polling:
        await polling.once()
    reading = await world.reading("work")
    assert reading.ledger == ClaimLedger(of(body), None, None)
    assert (error or "") in ((reading.samples[0].error or "") if reading.samples else "")
    assert (problem or "") in (reading.problem or "")
    assert bool(reading.problem) is bool(problem)
