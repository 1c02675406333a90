"""The pool of HTTP/1.1 connections against a server that answers byte by byte what a test says."""

import asyncio
import gc
import gzip
import socket
import ssl
import weakref
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.certificate_authority import Authority
from tests.support.conditions import eventually
from tests.support.tables import cases
from workers.client import http_pool
from workers.client.http_pool import FEW, KEEP, ConnectionEnded, HttpPool
from workers.client.transport import unconnected_socket

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Peer:
    """A server whose connections are numbered; `answers` gives the bytes for each request, None ends the connection."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, bytes]] = []
        self.connections = 0
        self.open = 0
        self.answers: Callable[[int], bytes | None] = lambda _number: OK
        self.after: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        mine = self.connections
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")), 0
                )
                self.requests.append((mine, head + await reader.readexactly(length)))
                answer = self.answers(len(self.requests))
                if answer is None:
                    return
                writer.write(answer)
                await writer.drain()
                if self.after:
                    await self.after(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()


async def end(writer: asyncio.StreamWriter) -> None:
    writer.close()


@asynccontextmanager
async def pool_of(
    peer: Peer, clock: Callable[[], float] | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpPool]:
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    options = {"clock": clock} if clock else {}
    pool = HttpPool("127.0.0.1", port, f"127.0.0.1:{port}", "/prefix", unconnected_socket, **options)
    try:
        yield pool
    finally:
        await pool.close()
        server.close()


@pytest.fixture
def peer() -> Peer:
    return Peer()


@cases(
    ("length", OK, b"ok"),
    ("chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde"),
    ("no body", b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ("interim", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + OK, b"ok"),
    (
        "compressed although not asked for",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s"
        % (len(packed := gzip.compress(b"large")), packed),
        b"large",
    ),
    (
        "compressed in two members",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s"
        % (len(packed := gzip.compress(b"lar") + gzip.compress(b"ge")), packed),
        b"large",
    ),
    (
        "deflated",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: %d\r\n\r\n%s"
        % (len(packed := zlib.compress(b"large")), packed),
        b"large",
    ),
)
async def test_an_answer_is_whole_and_its_connection_is_used_again(sent: bytes, body: bytes, peer: Peer) -> None:
    peer.answers = lambda _number: sent
    async with pool_of(peer) as pool:
        for _ in range(3):
            assert (await pool.request("POST", "/x", {"A": "b"}, b"data")).body == body
    assert [connection for connection, _ in peer.requests] == [1, 1, 1]
    first = peer.requests[0][1]
    assert first.startswith(b"POST /prefix/x HTTP/1.1\r\nHost: 127.0.0.1:")
    assert first.endswith(b"A: b\r\nContent-Length: 4\r\n\r\ndata")


async def test_requests_side_by_side_have_a_connection_each_and_their_own_answers(peer: Peer) -> None:
    peer.answers = lambda number: b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number
    async with pool_of(peer) as pool:
        for _ in range(2):
            await asyncio.gather(*(pool.request("GET", f"/{number}", {}) for number in range(4)))
    assert peer.connections == 4


async def test_an_answer_that_ends_with_its_connection_is_whole_and_the_connection_is_not_used_again(
    peer: Peer,
) -> None:
    peer.answers = lambda _number: b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it"
    peer.after = end
    async with pool_of(peer) as pool:
        assert (await pool.request("GET", "/", {})).body == b"all of it"
        assert (await pool.request("GET", "/", {})).body == b"all of it"
    assert peer.connections == 2


async def test_an_answer_that_is_cut_is_an_error_and_is_not_asked_for_again(peer: Peer) -> None:
    peer.answers = lambda _number: b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"
    peer.after = end
    async with pool_of(peer) as pool:
        with pytest.raises(ConnectionEnded):
            await pool.request("GET", "/", {})
    assert len(peer.requests) == 1


@pytest.mark.parametrize(("method", "repeated"), [("GET", True), ("PUT", True), ("POST", False), ("PATCH", False)])
async def test_what_a_kept_connection_did_not_answer_is_sent_again_if_it_may_be(
    peer: Peer, method: str, *, repeated: bool
) -> None:
    peer.answers = lambda number: None if number == 2 else OK
    async with pool_of(peer) as pool:
        await pool.request("GET", "/", {})
        if repeated:
            assert (await pool.request(method, "/", {}, b"")).body == b"ok"
        else:
            with pytest.raises(ConnectionEnded):
                await pool.request(method, "/", {}, b"")
    assert len(peer.requests) == (3 if repeated else 2)


async def test_a_new_connection_that_answers_nothing_is_an_error(peer: Peer) -> None:
    peer.answers = lambda _number: None
    async with pool_of(peer) as pool:
        with pytest.raises(ConnectionEnded):
            await pool.request("GET", "/", {})
    assert len(peer.requests) == 1


async def test_a_cancelled_request_takes_its_connection_with_it(peer: Peer) -> None:
    peer.answers = lambda number: b"" if number == 1 else OK
    async with pool_of(peer) as pool:
        asked = asyncio.create_task(pool.request("GET", "/slow", {}))
        await eventually(lambda: bool(peer.requests))
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert (await pool.request("GET", "/next", {})).body == b"ok"
        await eventually(lambda: peer.open == 1)
    assert peer.connections == 2


async def test_a_request_that_is_cancelled_as_tls_stands_leaves_nothing_that_breaks_the_next(
    peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next connection has the descriptor of the one that was given up."""
    now = datetime.now(UTC)
    authority = Authority("authority", now - timedelta(days=1), now + timedelta(days=1))
    signed = authority.sign("server", ["127.0.0.1"])
    (tmp_path / "pem").write_text(signed.certificate + signed.key)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(tmp_path / "pem")
    trusted = ssl.create_default_context(cadata=authority.certificate)
    made = http_pool._HttpConnection.connection_made

    def cancelled(connection: http_pool._HttpConnection, transport: asyncio.BaseTransport) -> None:
        made(connection, transport)
        asked.cancel()

    async with pool_of(peer, tls=served) as pool:
        with monkeypatch.context() as once:
            once.setattr(http_pool._HttpConnection, "connection_made", cancelled)
            asked = asyncio.create_task(pool.request("GET", "/", {}, context=trusted))
            with pytest.raises(asyncio.CancelledError):
                await asked
        assert (await pool.request("GET", "/", {}, context=trusted)).body == b"ok"


async def test_bytes_that_answer_nothing_end_a_kept_connection(peer: Peer) -> None:
    async def more(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale")
        await writer.drain()

    peer.after = more
    async with pool_of(peer) as pool:
        for _ in range(3):
            assert (await pool.request("GET", "/", {})).body == b"ok"
            await eventually(lambda: peer.open == 0)


async def test_garbage_is_an_error(peer: Peer) -> None:
    peer.answers = lambda _number: b"SSH-2.0-OpenSSH_9.2\r\n"
    async with pool_of(peer) as pool:
        with pytest.raises(ConnectionEnded, match=r"not HTTP/1\.1"):
            await pool.request("GET", "/", {})


async def test_a_connection_that_was_not_needed_for_long_is_not_used_again(peer: Peer) -> None:
    moment = [0.0]
    async with pool_of(peer, clock=lambda: moment[0]) as pool:
        await pool.request("GET", "/", {})
        moment[0] += KEEP - 1
        await pool.request("GET", "/", {})
        assert peer.connections == 1
        moment[0] += KEEP + 1
        await pool.request("GET", "/", {})
    assert peer.connections == 2


async def test_of_the_connections_of_a_burst_a_few_are_kept_for_long(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_pool, "KEEP_MANY", 0.01)
    async with pool_of(peer) as pool:
        await asyncio.gather(*(pool.request("GET", "/", {}) for _ in range(FEW + 5)))
        assert peer.connections == FEW + 5
        await eventually(lambda: peer.open <= FEW)
        await asyncio.gather(*(pool.request("GET", "/", {}) for _ in range(FEW)))
        assert peer.open == FEW
        assert peer.connections == FEW + 5, "those that were kept are used again"


async def test_a_header_with_a_line_break_is_refused(peer: Peer) -> None:
    async with pool_of(peer) as pool:
        with pytest.raises(ValueError, match="Impersonate-User"):
            await pool.request("GET", "/", {"Impersonate-User": "a\r\nAuthorization: b"})
    assert not peer.requests


async def test_a_second_address_is_tried_when_the_first_refuses(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with pool_of(peer) as pool:
            found = await asyncio.get_running_loop().getaddrinfo("127.0.0.1", pool._port, type=socket.SOCK_STREAM)

            async def addresses(*_: object, **__: object) -> object:
                return [(*found[0][:4], closed.getsockname()), *found]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
            assert (await pool.request("GET", "/", {})).body == b"ok"


async def test_a_name_without_an_address_is_named(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async with pool_of(peer) as pool:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
        with pytest.raises(ConnectionError, match=r"127\.0\.0\.1: .*Name or service not known"):
            await pool.request("GET", "/", {})


async def test_a_closed_pool_ends_what_is_under_way_and_takes_nothing_more(peer: Peer) -> None:
    peer.answers = lambda _number: b""
    async with pool_of(peer) as pool:
        asked = asyncio.create_task(pool.request("GET", "/", {}))
        await eventually(lambda: bool(peer.requests))
        await pool.close()
        with pytest.raises(ConnectionError):
            await asked
        with pytest.raises(ConnectionError, match="closed"):
            await pool.request("GET", "/", {})


async def test_a_pool_that_is_closed_while_it_connects_sends_nothing(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved, loop = asyncio.Event(), asyncio.get_running_loop()
    async with pool_of(peer) as pool:
        found = await loop.getaddrinfo("127.0.0.1", pool._port, type=socket.SOCK_STREAM)

        async def addresses(*_: object, **__: object) -> object:
            await resolved.wait()
            return found

        monkeypatch.setattr(loop, "getaddrinfo", addresses)
        asked = asyncio.create_task(pool.request("GET", "/", {}))
        await asyncio.sleep(0)
        await pool.close()
        resolved.set()
        with pytest.raises(ConnectionError, match="closed"):
            await asked
    assert peer.requests == []


async def test_the_address_that_answered_last_is_tried_first(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, tried = asyncio.get_running_loop(), []
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with pool_of(peer) as pool:
            found = await loop.getaddrinfo("127.0.0.1", pool._port, type=socket.SOCK_STREAM)

            async def addresses(*_: object, **__: object) -> object:
                return [(*found[0][:4], closed.getsockname()), *found]

            def make_socket(address: tuple[object, ...]) -> socket.socket:
                tried.append(address[4])
                return unconnected_socket(address)

            monkeypatch.setattr(loop, "getaddrinfo", addresses)
            monkeypatch.setattr(pool, "_make_socket", make_socket)
            await asyncio.gather(pool.request("GET", "/", {}))
            await asyncio.gather(*(pool.request("GET", "/", {}) for _ in range(2)))
    assert tried[1:] == [found[0][4], found[0][4]]


async def test_an_address_that_takes_connections_and_answers_nothing_is_tried_last(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is frozen: its kernel still takes connections for it."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        frozen.setblocking(False)
        async with pool_of(peer) as pool:
            found = await loop.getaddrinfo("127.0.0.1", pool._port, type=socket.SOCK_STREAM)

            async def addresses(*_: object, **__: object) -> object:
                return [(*found[0][:4], frozen.getsockname()), *found]

            monkeypatch.setattr(loop, "getaddrinfo", addresses)
            asked = asyncio.create_task(pool.request("GET", "/", {}))
            taken, _ = await loop.sock_accept(frozen)
            with taken:
                assert await loop.sock_recv(taken, 3) == b"GET"
                # Its caller's time is over.
                asked.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asked
            async with asyncio.timeout(10):
                assert (await pool.request("GET", "/", {})).body == b"ok"


@cases(("is none of its format", b"no gzip"), ("ends too early", gzip.compress(b"large")[:-4]))
async def test_an_answer_without_a_length_that_cannot_be_unpacked_is_an_error(body: bytes, peer: Peer) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"
    peer.answers = lambda _number: head + body
    peer.after = end
    async with pool_of(peer) as pool:
        with pytest.raises(ConnectionEnded, match="not HTTP"):
            await pool.request("GET", "/", {})


async def test_a_closed_connection_leaves_nothing_for_the_collector(peer: Peer) -> None:
    peer.answers = lambda number: OK if number < 3 else None
    async with pool_of(peer) as pool:
        for _ in range(2):
            await pool.request("POST", "/", {})
        (connection,) = pool._idle
        kept = weakref.ref(connection)
        del connection
        gc.disable()
        try:
            with pytest.raises(ConnectionEnded):
                await pool.request("POST", "/", {})
            await eventually(lambda: kept() is None)
        finally:
            gc.enable()
