"""The short way of a command: the bytes are redis-py's own, and what is unusual goes redis-py's way."""

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redis.asyncio.connection import Connection
from redis.exceptions import DataError

from scheduler.broker.fast_path import FastConnection
from tests.support.tables import for_each

ARGUMENTS = st.one_of(st.text(), st.binary(), st.integers(), st.floats(allow_nan=False))


class Packing(FastConnection, Connection):
    """A connection that is never opened."""


@given(name=st.sampled_from(["GET", "CLIENT SETNAME", b"SCRIPT LOAD", b"EVALSHA"]), rest=st.lists(ARGUMENTS))
@example(name="EVALSHA", rest=["é", b"\xff", -0.0, 1e22, 2**70, "x" * 10_000])
@example(name="SET", rest=[bytearray(b"a"), memoryview(b"bc")])
def test_the_bytes_are_those_of_redis_py(name: str | bytes, rest: list[Any]) -> None:
    expected = b"".join(map(bytes, Connection().pack_command(name, *rest)))
    assert b"".join(map(bytes, Packing().pack_command(name, *rest))) == expected


@for_each(None, True, {})
def test_what_redis_py_refuses_is_refused(wrong: Any) -> None:
    with pytest.raises(DataError):
        Packing().pack_command("SET", "key", wrong)


def test_a_command_of_a_thousand_arguments_makes_no_more_calls_than_one_of_ten() -> None:
    assert _calls(1000) == _calls(10)


def _calls(length: int) -> int:
    connection, arguments, count = Packing(), ("EVALSHA", *map(str, range(length))), 0

    def counted(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        connection.pack_command(*arguments)
    finally:
        sys.setprofile(None)
    return count
