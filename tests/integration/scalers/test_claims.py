"""Claiming items from lists and streams of a real server, and of fakeredis where that knows the commands."""

import re
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.exceptions import OutOfMemoryError

from penstock.client import beside
from penstock.connections import Connections
from penstock.scaler import SourceError
from scalers.claimable import ClaimableItems, ClaimRequest
from scalers.sources.redis.lists import RedisLists
from scalers.sources.redis.streams import RedisStreams
from scheduler.scripts import load
from tests.integration.scalers.servers import work_list, work_stream
from tests.support.ledgers import ListLedger
from tests.support.tables import cases, for_each
from workers.decision.claims import LARGEST, ClaimedItem, ClaimOrder, ClaimSettlement

_ids = count(1)


def order(limit: int, *settlements: ClaimSettlement, **more: Any) -> ClaimOrder:
    """An order newer than any before."""
    return ClaimOrder(id=next(_ids), of="ledger", limit=limit, settlements=settlements, **more)


class Visits:
    """Errands of one object to one queue."""

    def __init__(self, scaler: RedisLists | RedisStreams, connections: Connections, uid: str = "uid") -> None:
        self.scaler, self.connections, self.uid = scaler, connections, uid

    async def __call__(self, order: ClaimOrder | None = None) -> ClaimableItems:
        return await self.scaler.carry_out(ClaimRequest("team/work", self.uid, order), self.connections)


@pytest.fixture
def of_list(port: int, connections: Connections) -> Visits:
    return Visits(work_list(port, "work"), connections)


@pytest.fixture
def of_stream(port: int, connections: Connections) -> Visits:
    return Visits(work_stream(port, "events"), connections)


def items(found: ClaimableItems) -> list[str | None]:
    return [claim.item for claim in found.claims]


async def parked(client: Redis, key: str) -> list[dict[bytes, bytes]]:
    return [fields for _, fields in await client.xrange(key)]


async def test_items_are_taken_up_to_the_limit_and_not_beyond_it(real_redis: Redis, of_list: Visits) -> None:
    await real_redis.rpush("work", "a", "b", "c")
    two = order(2)
    first = await of_list(two)
    assert (items(first), first.waiting, first.applied) == (["a", "b"], 1.0, True)
    assert await of_list(two) == first, "the limit is a target"
    looking = await of_list(None)
    assert (looking.claims, looking.waiting, looking.applied) == (first.claims, 1.0, False)


async def test_many_claims_are_told_in_the_order_in_which_they_were_taken(real_redis: Redis, of_list: Visits) -> None:
    """The server gives the fields of a large hash in any order."""
    numbers = [str(number) for number in range(1000)]
    await real_redis.rpush("work", *numbers)
    assert items(await of_list(order(1000))) == numbers
    assert items(await of_list(None)) == numbers


async def test_claims_are_settled_and_what_they_leave_is_taken_at_once(real_redis: Redis, of_list: Visits) -> None:
    await real_redis.rpush("work", "a", "b", "c", "d")
    a, b, c = (await of_list(order(3))).claims
    settling = order(
        3,
        ClaimSettlement(a.id, "done"),
        ClaimSettlement(b.id, "parked", "Job work-1 failed"),
        ClaimSettlement(c.id, "retried", attempt=2),
    )
    found = await of_list(settling)
    assert [(claim.item, claim.attempt) for claim in found.claims] == [("c", 2), ("d", 0)]
    assert await of_list(settling) == found
    [fields] = await parked(real_redis, "{work}:parked")
    assert fields == {b"claim": b.id.encode(), b"owner": b"team/work", b"reason": b"Job work-1 failed", b"item": b"b"}


@cases(("head", False, ["a", "b"], [b"c"]), ("tail", True, ["c", "b"], [b"a"]))
async def test_returned_items_are_where_they_were(
    tail: bool, taken: list[str], left: list[bytes], real_redis: Redis, of_list: Visits
) -> None:
    await real_redis.rpush("work", "a", "b", "c")
    first = await of_list(order(2, tail=tail))
    assert items(first) == taken
    assert await real_redis.lrange("work", 0, -1) == left
    back = [ClaimSettlement(claim.id, "returned") for claim in reversed(first.claims)]
    assert (await of_list(order(0, *back, tail=tail))).claims == ()
    assert await real_redis.lrange("work", 0, -1) == [b"a", b"b", b"c"]
    assert 0 < await real_redis.ttl("{work}:penstock:uid") <= 86400, "a closed ledger goes by itself"
    again = await of_list(order(2, tail=tail))
    assert items(again) == taken
    assert not {claim.id for claim in again.claims} & {claim.id for claim in first.claims}, "an id is given once"
    assert await real_redis.ttl("{work}:penstock:uid") == -1


async def test_an_order_from_before_one_that_was_seen_is_refused(real_redis: Redis, of_list: Visits) -> None:
    await real_redis.rpush("work", "a")
    old, new = order(1), order(0)
    assert (await of_list(new)).claims == ()
    late = await of_list(old)
    assert (late.claims, late.applied, late.waiting) == ((), False, 1.0)


async def test_a_ledger_that_was_lost_gives_no_id_again(real_redis: Redis, of_list: Visits) -> None:
    await real_redis.rpush("work", "a")
    [before] = (await of_list(order(1))).claims
    await real_redis.flushall()
    await real_redis.rpush("work", "b")
    [after] = (await of_list(order(1))).claims
    assert int(after.id) > int(before.id)


async def test_items_of_bound_claims_are_not_read_again_nor_those_no_job_can_carry(
    real_redis: Redis, of_list: Visits
) -> None:
    await real_redis.rpush("work", "a", b"\xff\x00", "x" * (LARGEST + 1), "d")
    found = await of_list(order(4))
    assert [(claim.item, claim.encoding) for claim in found.claims[:2]] == [("a", "text"), ("/wA=", "base64")]
    assert found.claims[2] == ClaimedItem(found.claims[2].id, size=LARGEST + 1)
    bound = await of_list(order(4, bound=(found.claims[0].id,)))
    assert items(bound) == [None, "/wA=", None, "d"]


async def test_a_reading_carries_only_so_many_bytes_and_the_rest_follows(real_redis: Redis, of_list: Visits) -> None:
    await real_redis.rpush("work", *(["x" * 150_000] * 9))
    found = await of_list(order(9))
    there = [claim.id for claim in found.claims if claim.item]
    assert len(there) == 6
    rest = await of_list(order(9, bound=tuple(there)))
    assert [claim.id for claim in rest.claims if claim.item] == [claim.id for claim in found.claims[6:]]


@cases(("the queue", "work"), ("where parked items go", "{work}:parked"))
async def test_a_key_of_another_type_is_refused_before_anything_is_written(
    key: str, real_redis: Redis, of_list: Visits
) -> None:
    await real_redis.rpush("work", "a")
    await real_redis.delete(key)
    await real_redis.set(key, "a text")
    before = await real_redis.keys()
    with pytest.raises(SourceError, match="WRONGTYPE"):
        await of_list(order(1))
    assert sorted(await real_redis.keys()) == sorted(before)


@for_each(
    ("work", "{work}:parked"),
    ("{team}:work", "{team}:work:parked"),
    ("a{b}c", "a{b}c:parked"),
    ("{}work", "{}work:parked"),
    ("a}b", "a}b:parked"),
)
def test_what_lies_beside_a_queue_is_in_its_slot_where_that_can_be(queue: str, key: str) -> None:
    assert beside(queue, "parked") == key


MOVES = st.one_of(
    st.tuples(st.just("push"), st.integers(1, 3)),
    st.tuples(st.just("order"), st.integers(0, 4), st.booleans(), st.integers(0, 5), st.sampled_from("drpt")),
    st.tuples(st.just("late order"), st.integers(0, 4)),
    st.tuples(st.just("repeat")),
)
HOW = {"d": "done", "r": "returned", "p": "parked", "t": "retried"}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(MOVES, max_size=15))
@pytest.mark.parametrize("server", [pytest.param("real", marks=pytest.mark.broker), "fake"])
def test_the_script_does_what_the_model_does(moves: list[tuple[Any, ...]], server: str, request: Any) -> None:
    client = request.getfixturevalue(f"{server}_ledger_server")
    client.flushall()
    script = load("scalers", "claim_list")
    model, pushed, last, newest = ListLedger(), count(), order(0), 10**6
    names: dict[str, str] = {}

    def visit(given: ClaimOrder) -> None:
        settlements = [text for each in given.settlements for text in (each.id, each.how, each.reason, each.attempt)]
        args = [given.id, given.limit, int(given.tail), 10**6, 10**5, "team/work", len(given.settlements), *settlements]
        answer = client.eval(script, 3, "work", "ledger", "parked", *args)
        by_model = [ClaimSettlement(names[each.id], each.how, each.reason, each.attempt) for each in given.settlements]
        obeyed = model.carry_out(ClaimOrder(given.id, "", given.limit, given.tail, tuple(by_model)))
        rows = [answer[place : place + 4] for place in range(3, len(answer), 4)]
        wanted = [(item.encode(), attempt) for item, attempt in model.held.values()]
        assert [(item, int(attempt)) for _, attempt, _, item in rows] == wanted
        names.update(zip([id.decode() for id, *_ in rows], model.held, strict=True))
        assert answer[0] == len(model.items)
        assert answer[1] == (b"1" if obeyed else b"0")
        assert answer[2] == len(model.parked)
        assert client.lrange("work", 0, -1) == [item.encode() for item in model.items]
        assert [(one[b"item"].decode(), one[b"reason"].decode()) for _, one in client.xrange("parked")] == model.parked

    for what, *rest in moves:
        if what == "push":
            new = [str(next(pushed)) for _ in range(rest[0])]
            client.rpush("work", *new)
            model.items += new
        elif what == "order":
            limit, tail, place, how = rest
            newest += 1
            known = sorted(names)[place : place + 2]
            last = ClaimOrder(newest, "", limit, tail, tuple(ClaimSettlement(id, HOW[how], "why", 1) for id in known))
            visit(last)
        else:
            visit(ClaimOrder(newest - 1, "", rest[0]) if what == "late order" else last)


@pytest.fixture
def real_ledger_server(redis_url: str) -> Any:
    with BlockingRedis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def fake_ledger_server() -> Any:
    fakeredis = pytest.importorskip("fakeredis")
    return fakeredis.FakeRedis()


async def test_entries_of_a_stream_are_claimed_and_acknowledged(real_redis: Redis, of_stream: Visits) -> None:
    for number in range(3):
        await real_redis.xadd("events", {"n": number, "kind": "é"}, id=f"{number + 1}-0")
    looking = await of_stream(None)
    assert (looking.claims, looking.waiting) == ((), 3.0)
    first = await of_stream(order(2))
    assert items(first) == ['{"n":"0","kind":"é"}', '{"n":"1","kind":"é"}']
    assert (first.claims[0].id, first.claims[0].encoding, first.waiting) == ("1-0", "json", 1.0)
    found = await of_stream(
        order(2, ClaimSettlement("1-0", "done"), ClaimSettlement("2-0", "parked", "Job failed"), bound=("3-0",))
    )
    assert [(claim.id, claim.item) for claim in found.claims] == [("3-0", None)]
    [fields] = await parked(real_redis, "{events}:parked")
    told = {b"claim": b"2-0", b"owner": b"team/work", b"reason": b"Job failed"}
    assert fields == {**told, b"item.n": b"1", b"item.kind": "é".encode()}
    pending: Any = await real_redis.xpending("events", "penstock")
    assert pending["pending"] == 1
    retried = await of_stream(order(2, ClaimSettlement("3-0", "retried", attempt=1)))
    assert [(claim.id, claim.attempt) for claim in retried.claims] == [("3-0", 1)]


async def test_a_returned_entry_is_another_claim_and_taken_before_what_is_new(
    real_redis: Redis, of_stream: Visits, port: int, connections: Connections
) -> None:
    for number in range(3):
        await real_redis.xadd("events", {"n": number}, id=f"{number + 1}-0")
    await of_stream(order(1))
    back = order(1, ClaimSettlement("1-0", "returned"))
    assert [claim.id for claim in (await of_stream(back)).claims] == ["1-0-1"]
    assert [claim.id for claim in (await of_stream(back)).claims] == ["1-0-1"], "it is returned once"
    closed = await of_stream(order(0, ClaimSettlement("1-0-1", "returned")))
    assert (closed.claims, closed.waiting) == ((), 3.0)
    other = Visits(work_stream(port, "events"), connections, uid="other")
    assert items(await other(order(2))) == ['{"n":"0"}', '{"n":"1"}'], "another object of the group goes on with it"


async def test_an_entry_that_was_deleted_meanwhile_has_no_item(real_redis: Redis, of_stream: Visits) -> None:
    await real_redis.xadd("events", {"n": 1}, id="1-0")
    await of_stream(order(1))
    await real_redis.xdel("events", "1-0")
    [claim] = (await of_stream(None)).claims
    assert (claim.size, claim.item) == (-1, None)
    assert (await of_stream(order(1, ClaimSettlement("1-0", "parked", "gone")))).claims == ()


async def test_fields_that_are_no_text_come_in_base64(real_redis: Redis, of_stream: Visits) -> None:
    await real_redis.xadd("events", {"n": b"\xff"})
    [claim] = (await of_stream(order(1))).claims
    assert (claim.item, claim.encoding) == ('{"bg==":"/w=="}', "json-base64")


async def test_a_stream_that_is_not_there_has_nothing(real_redis: Redis, of_stream: Visits) -> None:
    found = await of_stream(order(3))
    assert (found.claims, found.waiting, found.applied) == ((), 0.0, True)
    assert not await real_redis.exists("events")


async def test_the_given_group_is_used_and_what_waits_is_what_it_was_not_given(
    real_redis: Redis, port: int, connections: Connections
) -> None:
    for number in range(3):
        await real_redis.xadd("events", {"n": number})
    await real_redis.xgroup_create("events", "mine", id="0")
    await real_redis.xreadgroup("mine", "somebody", {"events": ">"}, count=1)
    visits = Visits(work_stream(port, "events", consumerGroup="mine"), connections)
    found = await visits(order(1))
    assert (items(found), found.waiting) == (['{"n":"1"}'], 1.0)


def test_scripts_say_what_they_are_for() -> None:
    for name in ("claim_list", "claim_stream"):
        text = load("scalers", name)
        assert all(re.search(f"^-- {part}: ", text, re.MULTILINE) for part in ("Purpose", "KEYS", "ARGV", "Answer"))


async def test_a_stream_refuses_an_order_from_before_one_that_was_seen(real_redis: Redis, of_stream: Visits) -> None:
    await real_redis.xadd("events", {"n": 1})
    old, new = order(1), order(0)
    assert (await of_stream(new)).claims == ()
    late = await of_stream(old)
    assert (late.claims, late.applied, late.waiting) == ((), False, 1.0)


async def test_a_returned_entry_begins_afresh_and_nothing_is_remembered_of_one_that_is_done(
    real_redis: Redis, of_stream: Visits
) -> None:
    await real_redis.xadd("events", {"n": 1}, id="1-0")
    await of_stream(order(1))
    await of_stream(order(1, ClaimSettlement("1-0", "retried", attempt=2)))
    [again] = (await of_stream(order(1, ClaimSettlement("1-0", "returned")))).claims
    assert (again.id, again.attempt) == ("1-0-1", 0)
    await of_stream(order(1, ClaimSettlement("1-0-1", "done")))
    assert await real_redis.hkeys("{events}:penstock:uid") == [b"order"]


async def test_an_entry_of_very_many_fields_is_parked_in_one(real_redis: Redis, of_stream: Visits) -> None:
    names = [f"f{number}" for number in range(5_000)]
    await real_redis.xadd("events", dict.fromkeys(names, b"\xff"), id="1-0")
    await real_redis.xadd("events", {"n": 1}, id="2-0")
    assert [claim.id for claim in (await of_stream(order(2))).claims] == ["1-0", "2-0"]
    found = await of_stream(order(2, ClaimSettlement("1-0", "parked", "Job failed"), ClaimSettlement("2-0", "done")))
    assert (found.claims, found.counts) == ((), {"parked": 1})
    [fields] = await parked(real_redis, "{events}:parked")
    packed = fields.pop(b"item")
    assert fields == {b"claim": b"1-0", b"owner": b"team/work", b"reason": b"Job failed"}
    assert await real_redis.eval("return cmsgpack.unpack(ARGV[1])", 0, packed) == [
        text for name in names for text in (name.encode(), b"\xff")
    ]


async def _fill(client: Redis, number: int) -> None:
    """Adds so many items to the list and to the stream."""
    await client.rpush("work", *map(str, range(number)))
    for each in range(number):
        await client.xadd("events", {"n": each})


@pytest.fixture(params=["list", "stream"])
def of_either(request: pytest.FixtureRequest, of_list: Visits, of_stream: Visits) -> Visits:
    return of_list if request.param == "list" else of_stream


async def test_an_order_that_failed_half_way_is_settled_when_it_is_repeated(
    real_redis: Redis, of_either: Visits
) -> None:
    await _fill(real_redis, 2)
    first, second = (await of_either(order(2))).claims
    # The stream of parked items is full: its next id would be beyond the last one.
    full = beside(of_either.scaler.queue, "parked")
    await real_redis.xadd(full, {"n": 1}, id=f"{2**64 - 1}-{2**64 - 1}")
    half = order(0, ClaimSettlement(first.id, "done"), ClaimSettlement(second.id, "parked", "Job failed"))
    with pytest.raises(SourceError):
        await of_either(half)
    await real_redis.delete(full)
    assert (await of_either(half)).claims == ()
    assert [fields[b"claim"] for fields in await parked(real_redis, full)] == [second.id.encode()]


async def test_a_server_without_memory_gives_items_and_takes_settlements(real_redis: Redis, of_either: Visits) -> None:
    await _fill(real_redis, 3)
    await real_redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(OutOfMemoryError):
            await real_redis.rpush("work", "more")
        [one] = (await of_either(order(1))).claims
        [two] = (await of_either(order(1, ClaimSettlement(one.id, "done")))).claims
        [again] = (await of_either(order(1, ClaimSettlement(two.id, "retried", attempt=1)))).claims
        [three] = (await of_either(order(1, ClaimSettlement(two.id, "parked", "Job failed")))).claims
        assert len({one.id, two.id, three.id}) == 3
        assert (again.id, again.attempt) == (two.id, 1)
        assert (await of_either(order(0, ClaimSettlement(three.id, "returned")))).claims == ()
    finally:
        await real_redis.config_set("maxmemory", 0)
