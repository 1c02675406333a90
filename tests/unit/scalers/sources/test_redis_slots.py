"""Which node of a cluster is asked for a key, from what a node tells about slots."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import exceptions
from redis.crc import key_slot

from penstock.connections import Connections
from penstock.scaler import SourceError
from scalers.sources.redis.cluster import _Map, _ranges
from scalers.sources.redis.connection import RedisServer, Seeds
from tests.support.tables import cases

NODE = RedisServer("seed", 1, 0, "u", "p")


class Told:
    """A link to a node that tells this."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def run(self, commands: Any) -> list[Any]:
        assert list(commands) == [("CLUSTER", "SLOTS")]
        return [self.answer]


def named(host: str) -> RedisServer:
    return RedisServer(host, 7, 0, "u", "p")


@cases(
    ("address", b"10.0.0.1", named("10.0.0.1")),
    ("name", b"node.example", named("node.example")),
    ("IPv6 address", b"::1", named("::1")),
    ("no name: where the node is that tells", b"", named("seed")),
    ("null", None, named("seed")),
    ("a name that is not known yet", b"?", named("seed")),
)
async def test_nodes_are_where_they_are_said_to_be_with_the_login_of_the_trigger(host: Any, node: RedisServer) -> None:
    told: Any = Told([[0, 16383, [host, 7, b"id", []], [b"replica", 8, b"id", []]]])
    assert await _ranges(NODE, told) == [(0, 16383, node)]


@cases(
    ("no cluster", exceptions.ResponseError("cluster support disabled"), "cluster support disabled"),
    ("no slots", [], "its cluster serves no slots"),
)
async def test_a_node_that_tells_nothing_is_named(answer: Any, complaint: str) -> None:
    told: Any = Told(answer)
    with pytest.raises(SourceError, match=f"^seed:1: .*{complaint}"):
        await _ranges(NODE, told)


@given(
    cuts=st.sets(st.integers(1, 16383), max_size=12),
    unserved=st.sets(st.integers(0, 12), max_size=4),
    keys=st.lists(st.text(max_size=12), max_size=30),
)
async def test_every_key_belongs_to_the_node_of_its_slot(cuts: set[int], unserved: set[int], keys: list[str]) -> None:
    bounds = [0, *sorted(cuts), 16384]
    pairs = list(pairwise(bounds))
    served = [(place, start, end - 1) for place, (start, end) in enumerate(pairs) if place not in unserved]
    if not served:
        return
    # Nodes tell ranges in any order.
    told: Any = Told([[start, end, [f"n{place}".encode(), 7]] for place, start, end in reversed(served)])
    ranges = await _ranges(NODE, told)
    known = _Map(Seeds([NODE]), *map(list, zip(*ranges, strict=True)))  # type: ignore[arg-type]
    for key in keys:
        slot = key_slot(key.encode())
        owners = [f"n{place}" for place, start, end in served if start <= slot <= end]
        owner = known.owner(key)
        assert ([owner.host] if owner else []) == owners


async def test_a_map_that_is_known_is_not_asked_for_again() -> None:
    known = _Map(Seeds([]), [0], [16383], [NODE])
    await known.learn(Connections())
    assert known.owner("x") == NODE
    known.forget()
    assert known.owner("x") is None
