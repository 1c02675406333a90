"""What comes before a request's body is bounded in bytes and in time: it comes before any token."""

import asyncio
import gc
import socket
import weakref
from typing import Any
from unittest.mock import Mock

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from deploy.processes.https import HEAD_BYTES, HEAD_SECONDS, BoundedHttp, JoinedWrites, configured, listen
from scalers.gateway.whole_answer import WHOLE_ANSWER
from tests.support.tables import cases, for_each

START = b"GET /livez HTTP/1.1\r\n"
LARGE = b"x" * HEAD_BYTES


class Loop:
    """An event loop that runs nothing: it keeps what is to be run later, and counts requests that are begun."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Any, Mock]] = []
        self.begun = 0
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Any) -> Mock:
        handle = Mock()
        self.later.append((delay, callback, handle))
        return handle

    def create_task(self, coroutine: Any, **_: Any) -> Mock:
        coroutine.close()
        self.begun += 1
        return Mock()

    def pass_time(self, seconds: float) -> None:
        for delay, callback, handle in self.later:
            if delay <= seconds and not handle.cancel.called:
                callback()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def transport(loop: Loop) -> Mock:
    made = Mock()
    made.is_closing.return_value = False
    made.get_extra_info.return_value = None
    return made


@pytest.fixture
def connection(loop: Loop, transport: Mock) -> BoundedHttp:
    """A connection that has been made."""
    config = configured(Mock())
    config.load()
    made = BoundedHttp(config, ServerState(), {}, _loop=loop)  # type: ignore[arg-type]
    made.connection_made(transport)
    return made


def written(transport: Mock) -> bytes:
    return b"".join(call.args[0] for call in transport.write.call_args_list)


@cases(
    ("a header that does not end", [START, b"a: ", *[LARGE[:10_000]] * 8]),
    ("headers that do not end", [START, *[b"a: b\r\n" * 1000] * 12]),
    ("a path that does not end", [b"GET /" + LARGE]),
    ("too long at once", [START + b"a: " + LARGE + b"\r\n\r\n"]),
    ("with a body", [START + b"content-length: 3\r\na: " + LARGE + b"\r\n\r\nabc", b"more"]),
)
def test_a_head_that_is_too_long_is_refused(
    parts: list[bytes], connection: BoundedHttp, loop: Loop, transport: Mock
) -> None:
    for part in parts:
        connection.data_received(part)
    assert written(transport).startswith(b"HTTP/1.1 431 ")
    assert written(transport).count(b"HTTP/1.1") == 1
    assert (loop.begun, transport.close.called) == (0, True)
    loop.pass_time(1.0)
    assert transport.abort.called


@cases(("nothing", b""), ("a line", START), ("a header", START + b"host: a\r\n"))
def test_a_head_that_does_not_come_ends_the_connection(
    received: bytes, connection: BoundedHttp, loop: Loop, transport: Mock
) -> None:
    connection.data_received(received)
    loop.pass_time(HEAD_SECONDS - 1)
    assert not transport.abort.called
    loop.pass_time(HEAD_SECONDS)
    assert transport.abort.called


def test_a_body_may_be_longer_and_take_its_time(connection: BoundedHttp, loop: Loop, transport: Mock) -> None:
    connection.data_received(b"POST / HTTP/1.1\r\ncontent-length: 200000\r\n\r\n")
    connection.data_received(LARGE)
    connection.data_received(LARGE)
    loop.pass_time(HEAD_SECONDS)
    assert (loop.begun, transport.abort.called, written(transport)) == (1, False, b"")


@cases(("late", START), ("too long", START + b"a: " + LARGE + b"\r\n\r\n"))
def test_the_next_request_of_a_connection_is_bounded_too(
    head: bytes, connection: BoundedHttp, loop: Loop, transport: Mock
) -> None:
    connection.data_received(START + b"\r\n")
    loop.pass_time(HEAD_SECONDS)
    assert (loop.begun, transport.abort.called) == (1, False)
    connection.data_received(head)
    loop.pass_time(HEAD_SECONDS)
    assert (loop.begun, transport.abort.called) == (1, True)


OFFERS = [
    pytest.param(b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n", id="HTTP/2"),
    pytest.param(b"connection: upgrade\r\nupgrade: websocket\r\n", id="WebSocket"),
]
BODIES = [
    pytest.param(b"content-length: 23\r\n\r\n", b"GET /other HTTP/1.1\r\n\r\n", b"", id="with a length"),
    pytest.param(
        b"transfer-encoding: chunked\r\n\r\n17\r\n", b"GET /other HTTP/1.1\r\n\r\n", b"\r\n0\r\n\r\n", id="chunked"
    ),
    pytest.param(b"\r\n", b"", b"", id="none"),
]


@cases(("at once", True), ("in pieces", False))
@pytest.mark.parametrize(("framing", "body", "end"), BODIES)
@pytest.mark.parametrize("offer", OFFERS)
def test_an_offer_of_another_protocol_leaves_the_body_a_body(
    whole: bool, connection: BoundedHttp, loop: Loop, offer: bytes, framing: bytes, body: bytes, end: bytes
) -> None:
    parts = [b"POST / HTTP/1.1\r\n" + offer + framing, body + end]
    for part in [b"".join(parts)] if whole else parts:
        connection.data_received(part)
    assert (loop.begun, connection.cycle.body, connection.cycle.more_body) == (1, body, False)
    connection.cycle.response_complete = True
    connection.data_received(b"PUT /next HTTP/1.1\r\ncontent-length: 2\r\n\r\nab")
    assert (loop.begun, connection.scope["path"], connection.cycle.body) == (2, "/next", b"ab")


def test_a_body_that_does_not_end_is_awaited_after_an_offer(connection: BoundedHttp) -> None:
    connection.data_received(b"POST / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 3\r\n\r\nab")
    assert (connection.cycle.body, connection.cycle.more_body) == (b"ab", True)


@for_each(b"transfer-encoding: xchunked\r\n", b"content-length: 1\r\ntransfer-encoding: chunked\r\n")
def test_an_offer_lets_no_ambiguous_length_pass(framing: bytes, connection: BoundedHttp, transport: Mock) -> None:
    connection.data_received(b"POST / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n" + framing + b"\r\n")
    assert written(transport).startswith(b"HTTP/1.1 400 ")


async def test_connections_send_small_answers_at_once() -> None:
    with listen("127.0.0.1:0", "--gateway") as listener:
        client = socket.create_connection(listener.getsockname())
        with client, (await asyncio.get_running_loop().sock_accept(listener))[0] as connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


class Turns:
    """An event loop that runs what is due at the end of a turn when a test says."""

    def __init__(self) -> None:
        self.due: list[Any] = []

    def call_soon(self, callback: Any) -> None:
        self.due.append(callback)

    def end_turn(self) -> None:
        for callback in self.due:
            callback()
        self.due.clear()


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def answers(turns: Turns, transport: Mock) -> JoinedWrites:
    return JoinedWrites(transport, turns)  # type: ignore[arg-type]


def test_a_head_leaves_with_its_body(answers: JoinedWrites, turns: Turns, transport: Mock) -> None:
    answers.write(b"head")
    assert written(transport) == b""
    answers.write(b"body")
    assert transport.write.call_args_list == [((b"headbody",),)]
    turns.end_turn()
    assert written(transport) == b"headbody"


def test_a_head_alone_leaves_at_the_end_of_the_turn(answers: JoinedWrites, turns: Turns, transport: Mock) -> None:
    answers.write(b"head")
    turns.end_turn()
    answers.write(b"first")
    turns.end_turn()
    assert [call.args[0] for call in transport.write.call_args_list] == [b"head", b"first"]


def test_what_is_held_leaves_before_the_connection_closes(answers: JoinedWrites, transport: Mock) -> None:
    answers.write(b"head")
    answers.close()
    assert [call[0] for call in transport.method_calls if call[0] != "is_closing"] == ["write", "close"]


def test_what_is_held_for_a_connection_that_is_lost_is_dropped(
    answers: JoinedWrites, turns: Turns, transport: Mock
) -> None:
    answers.write(b"head")
    transport.is_closing.return_value = True
    turns.end_turn()
    assert not transport.write.called


def test_a_head_that_comes_at_once_needs_no_timer(connection: BoundedHttp, loop: Loop) -> None:
    connection.data_received(START + b"\r\n")
    timers = len(loop.later)
    connection.cycle.response_complete = True
    connection.data_received(START + b"\r\n")
    assert (loop.begun, len(loop.later)) == (2, timers)


def request(connection: BoundedHttp) -> Any:
    """A request that has been read: its cycle, and the function that answers it with one write."""
    connection.data_received(START + b"\r\n")
    return connection.cycle, connection.scope["extensions"][WHOLE_ANSWER]  # type: ignore[typeddict-item]


def test_a_whole_answer_is_one_write(connection: BoundedHttp, transport: Mock) -> None:
    cycle, answer = request(connection)
    assert answer(202, [(b"content-length", b"2")], b"{}")
    assert transport.write.call_args_list == [((b"HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}",),)]
    assert (cycle.response_started, cycle.response_complete) == (True, True)


def test_a_request_that_was_answered_gets_no_second_answer(connection: BoundedHttp, transport: Mock) -> None:
    _, answer = request(connection)
    answer(202, [], b"")
    assert not answer(202, [], b"")
    assert transport.write.call_count == 1


@for_each("one write", "messages")
def test_an_answered_request_leaves_nothing_to_the_garbage_collector(by: str, connection: BoundedHttp) -> None:
    cycle, answer = request(connection)
    gone = weakref.ref(cycle)
    gc.disable()
    try:
        if by == "one write":
            answer(202, [], b"")
        else:
            cycle.response_started = cycle.response_complete = True
            cycle.on_response()
        del cycle, answer
        request(connection)
        assert gone() is None
    finally:
        gc.enable()


@for_each("the last request", "a slow reader")
def test_what_one_write_cannot_say_is_left_to_messages(
    hindrance: str, connection: BoundedHttp, transport: Mock
) -> None:
    cycle, answer = request(connection)
    if hindrance == "a slow reader":
        connection.flow.pause_writing()
    else:
        cycle.keep_alive = False
    assert not answer(202, [], b"")
    assert not transport.write.called
    assert not cycle.response_started


def test_a_client_that_is_gone_gets_nothing(connection: BoundedHttp, transport: Mock) -> None:
    cycle, answer = request(connection)
    cycle.disconnected = True
    assert answer(202, [], b"")
    assert not transport.write.called


def test_a_connection_rests_for_so_long_after_its_last_answer(
    connection: BoundedHttp, loop: Loop, transport: Mock
) -> None:
    request(connection)[1](202, [], b"")
    [(rest, end_rest, _)] = [each for each in loop.later if each[0] == connection.timeout_keep_alive]
    loop.now = rest - 1
    request(connection)[1](202, [], b"")
    assert [each[0] for each in loop.later].count(rest) == 1
    loop.now = rest
    end_rest()
    assert not transport.close.called
    left, end_rest, _ = loop.later[-1]
    assert left == rest - 1
    loop.now += left
    end_rest()
    assert transport.close.called


def test_a_request_that_is_under_way_is_no_rest(connection: BoundedHttp, loop: Loop, transport: Mock) -> None:
    request(connection)[1](202, [], b"")
    rest, end_rest, _ = loop.later[-1]
    _, answer = request(connection)
    loop.now = 2 * rest
    end_rest()
    assert not transport.close.called
    answer(202, [], b"")
    assert loop.later[-1][0] == rest


def test_the_rest_of_a_connection_ends_when_a_stream_takes_it_over(
    connection: BoundedHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpToolsProtocol, "handle_websocket_upgrade", lambda _: None)
    request(connection)[1](202, [], b"")
    assert connection._rest is not None
    connection.handle_websocket_upgrade()
    assert connection._rest is None
