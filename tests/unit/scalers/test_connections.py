"""Clients of measured servers: one per server, closed when nobody uses them."""

from dataclasses import dataclass

import pytest

from scalers.connections import Connections
from scalers.errors import SourceError, Unreached


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


async def test_a_server_has_one_client() -> None:
    connections, make = Connections(), Factory()
    async with connections.use("a", make, Client.close) as first, connections.use("a", make, Client.close) as second:
        assert first is second
    assert not first.closed


async def test_a_retired_client_is_closed_when_its_last_user_is_done() -> None:
    connections, make = Connections(), Factory()
    async with connections.use("a", make, Client.close) as old:
        await connections.retire("a")
        assert not old.closed
        async with connections.use("a", make, Client.close) as fresh:
            assert fresh is not old
    assert (old.closed, fresh.closed) == (True, False)


async def test_a_client_that_was_replaced_already_takes_no_other_with_it() -> None:
    connections, make = Connections(), Factory()
    async with connections.use("a", make, Client.close) as old:
        await connections.retire("a", old)
        async with connections.use("a", make, Client.close) as fresh:
            await connections.retire("a", old)
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
    assert (old.closed, fresh.closed) == (True, False)


async def test_the_longest_unused_makes_room() -> None:
    connections, make = Connections(limit=2), Factory()
    for server in ("a", "b", "a", "c"):
        async with connections.use(server, make, Client.close):
            pass
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
