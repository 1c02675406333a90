"""Clients of measured servers: one per server, closed when nobody uses them."""

import asyncio
from dataclasses import dataclass

import pytest

from penstock.connections import Connections
from penstock.errors import SourceError, Unreached


@dataclass
class Client:
    number: int
    closed: bool = False

    async def close(self) -> None:
        self.closed = True


class Factory:
    def __init__(self) -> None:
        self.made: list[Client] = []

    def __call__(self) -> Client:
        self.made.append(Client(len(self.made)))
        return self.made[-1]


async def _turns() -> None:
    """Nobody waits for a client to be closed; it is as soon as everybody else has had a turn."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_server_has_one_client() -> None:
    connections, make = Connections(), Factory()
    async with connections.use("a", make, Client.close) as first, connections.use("a", make, Client.close) as second:
        assert first is second
    assert not first.closed


async def test_a_retired_client_is_closed_when_its_last_user_is_done() -> None:
    connections, make = Connections(), Factory()
    async with connections.use("a", make, Client.close) as old:
        connections.retire("a")
        assert not old.closed
        async with connections.use("a", make, Client.close) as fresh:
            assert fresh is not old
    await _turns()
    assert (old.closed, fresh.closed) == (True, False)


async def test_a_client_that_was_replaced_already_takes_no_other_with_it() -> None:
    connections, make = Connections(), Factory()
    async with connections.use("a", make, Client.close) as old:
        connections.retire("a", old)
        async with connections.use("a", make, Client.close) as fresh:
            connections.retire("a", old)
        async with connections.use("a", make, Client.close) as again:
            assert again is fresh


async def test_a_client_by_which_nobody_was_reached_is_retired() -> None:
    connections, make = Connections(), Factory()
    with pytest.raises(Unreached):
        async with connections.use("a", make, Client.close) as old:
            raise Unreached("a: refused")
    with pytest.raises(SourceError):
        async with connections.use("a", make, Client.close) as fresh:
            raise SourceError("a: not this question")
    async with connections.use("a", make, Client.close) as again:
        assert again is fresh
    await _turns()
    assert (old.closed, fresh.closed) == (True, False)


async def test_a_client_whose_library_raised_an_error_is_retired() -> None:
    connections, make = Connections(), Factory()
    with pytest.raises(RuntimeError):
        async with connections.use("a", make, Client.close) as broken:
            raise RuntimeError("closed")
    async with connections.use("a", make, Client.close) as fresh:
        assert fresh is not broken
    await _turns()
    assert broken.closed


async def test_the_longest_unused_makes_room() -> None:
    connections, make = Connections(limit=2), Factory()
    for server in ("a", "b", "a", "c"):
        async with connections.use(server, make, Client.close):
            pass
    await _turns()
    assert [client.closed for client in make.made] == [False, True, False]


async def test_one_in_use_never_makes_room() -> None:
    connections, make = Connections(limit=1), Factory()
    async with connections.use("a", make, Client.close) as busy, connections.use("b", make, Client.close):
        assert not busy.closed


async def test_closing_closes_all() -> None:
    connections, make = Connections(), Factory()
    for server in ("a", "b"):
        async with connections.use(server, make, Client.close):
            pass
    await connections.close()
    assert all(client.closed for client in make.made)


async def test_a_client_that_does_not_close_cleanly_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def close(client: Client) -> None:
        raise OSError("broken pipe")

    connections = Connections()
    async with connections.use("a", Factory(), close):
        pass
    await connections.close()
    assert "did not close cleanly" in caplog.text


async def test_nobody_waits_for_a_client_that_does_not_close() -> None:
    given_up = asyncio.Event()

    async def close(_: Client) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    connections = Connections(closing=0.01)
    async with asyncio.timeout(5):
        with pytest.raises(Unreached):
            async with connections.use("a", Factory(), close):
                raise Unreached("a: refused")
        assert not given_up.is_set()
        await connections.close()
    assert given_up.is_set(), "and it is not waited for for ever at the end"


async def test_who_is_cancelled_while_its_client_is_closed_leaves_no_socket_open() -> None:
    connections, make = Connections(), Factory()
    go_on = asyncio.Event()

    async def close(client: Client) -> None:
        await go_on.wait()
        client.closed = True

    async def ask() -> None:
        async with connections.use("a", make, close):
            connections.retire("a")
            await asyncio.Event().wait()

    asking = asyncio.create_task(ask())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    go_on.set()
    await connections.close()
    assert make.made[0].closed


async def test_a_client_that_nobody_used_for_long_is_closed_and_one_in_use_is_not() -> None:
    connections, make = Connections(idle=0.01), Factory()
    async with connections.use("busy", make, Client.close) as busy:
        async with connections.use("idle", make, Client.close) as idle:
            pass
        async with asyncio.timeout(5):
            while not idle.closed:
                await asyncio.sleep(0.001)
        assert not busy.closed
    async with asyncio.timeout(5):
        while not busy.closed:
            await asyncio.sleep(0.001)
    async with connections.use("idle", make, Client.close) as fresh:
        assert fresh is not idle
    await connections.close()
