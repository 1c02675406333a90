"""Transcripts of claims from lists and streams: what the scripts answer and write, one order after the other."""

from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from scalers.claimable import ClaimRequest
from scalers.sources.redis.lists import RedisLists
from scalers.sources.redis.streams import RedisStreams
from tests.integration.scalers.servers import work_list, work_stream
from tests.support.keyspaces import KeyspaceTranscript
from workers.decision.claims import ClaimedItem, ClaimOrder, ClaimSettlement


class ToldClaims:
    """Orders of one object to one queue, which are added to a transcript. claims: by their items."""

    def __init__(self, client: Redis, scaler: RedisLists | RedisStreams, connections: Connections) -> None:
        self.client: Any = client
        self.scaler, self.connections = scaler, connections
        self.claims: dict[str, ClaimedItem] = {}
        self.orders = 0
        self.transcript = KeyspaceTranscript(Path(__file__).parent / "transcripts", client, None)

    async def order(self, limit: int, *settlements: ClaimSettlement, id: int | None = None, **more: Any) -> None:
        self.orders += 1
        order = ClaimOrder(id or self.orders, "ledger", limit, settlements=settlements, **more)
        settled = "".join(f", {each.how} {each.id}" for each in settlements)
        shown = "".join(f" {name}={value}" for name, value in more.items())
        await self._carry_out(f"order {order.id}: {limit}{settled}{shown}", order)

    async def look(self) -> None:
        await self._carry_out("no order", None)

    async def _carry_out(self, call: str, order: ClaimOrder | None) -> None:
        found = await self.scaler.carry_out(ClaimRequest("team/work", "uid", order), self.connections)
        self.claims |= {str(each.item): each for each in found.claims if each.item is not None}
        for each in found.claims:
            if each.id.isdecimal() and each.item is not None:
                self.transcript.call(each.id, f"of-{each.item}")
        await self.transcript.after(call, found)

    def settled(self, item: str, how: Any, **more: Any) -> ClaimSettlement:
        return ClaimSettlement(self.claims[item].id, how, **more)


async def test_items_of_a_list(real_redis: Redis, port: int, connections: Connections) -> None:
    told = ToldClaims(real_redis, work_list(port, "work"), connections)
    await real_redis.rpush("work", *"abcdefg")
    await told.transcript.look()
    await told.look()
    await told.order(3)
    await told.order(3)
    done, retried, parked = (told.settled(*one) for one in (("a", "done"), ("b", "retried"), ("c", "parked")))
    await told.order(
        2, done, ClaimSettlement(retried.id, "retried", attempt=4), ClaimSettlement(parked.id, "parked", "no")
    )
    told.transcript.note("an older order, the same one once more, and claims that are settled already")
    await told.order(9, id=2)
    await told.order(2, done, id=3)
    await told.order(3, done, ClaimSettlement(parked.id, "returned"))
    told.transcript.note("from the tail, with items that are not to be answered")
    await told.order(4, tail=True, bound=(told.claims["b"].id, told.claims["d"].id))
    await told.order(0, told.settled("g", "returned"), told.settled("d", "returned"), tail=True)
    await told.order(0, told.settled("b", "done"), told.settled("e", "done"))
    await told.look()
    await told.order(1)
    assert told.transcript.text == told.transcript.expected("list")


async def test_entries_of_a_stream(real_redis: Redis, port: int, connections: Connections) -> None:
    told = ToldClaims(real_redis, work_stream(port, "events"), connections)
    await told.order(2)
    for number in range(6):
        await told.client.xadd("events", {"n": str(number)}, id=f"1900000000000-{number + 1}")
    await told.transcript.look()
    await told.look()
    await told.order(4)
    await told.order(4)
    ids = [f"1900000000000-{number + 1}" for number in range(6)]
    await told.order(
        3,
        ClaimSettlement(ids[0], "done"),
        ClaimSettlement(ids[1], "retried", attempt=2),
        ClaimSettlement(ids[2], "parked", "no"),
        ClaimSettlement(ids[3], "returned"),
    )
    told.transcript.note("an older order, and settlements of claims that are others by now")
    await told.order(9, id=2)
    await told.order(3, ClaimSettlement(ids[3], "done"), ClaimSettlement(ids[2], "done"))
    told.transcript.note("returned twice, and an entry that is gone")
    await told.order(1, ClaimSettlement(f"{ids[3]}-1", "returned"))
    await told.client.xdel("events", ids[1])
    await told.order(4, bound=(ids[4],))
    await told.order(0, ClaimSettlement(ids[1], "returned"))
    await told.order(0, *(ClaimSettlement(each, "done") for each in (*ids[4:], f"{ids[3]}-2")))
    await told.look()
    assert told.transcript.text == told.transcript.expected("stream")


@pytest.mark.parametrize("kind", ["list", "stream"])
async def test_items_beyond_what_an_answer_may_have(
    kind: str, real_redis: Redis, port: int, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaler = work_list(port, "work") if kind == "list" else work_stream(port, "work")
    told = ToldClaims(real_redis, scaler, connections)
    monkeypatch.setattr("scalers.sources.redis.claim_scripts.BUDGET", 12)
    monkeypatch.setattr("workers.decision.claims.LARGEST", 8)
    for text in ("a" * 8, "b" * 9, "c" * 5, "d" * 4):
        if kind == "list":
            await told.client.rpush("work", text)
        else:
            await told.client.xadd("work", {"": text})
    await told.transcript.look()
    await told.order(9)
    assert told.transcript.text == told.transcript.expected(f"{kind}_budget")
