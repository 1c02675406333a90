"""What comes before a request's body is bounded in bytes and in time: it comes before any token."""

from typing import Any
from unittest.mock import Mock

import pytest
from uvicorn.server import ServerState

from deploy.processes.https import HEAD_BYTES, HEAD_SECONDS, BoundedHttp, configured

START = b"GET /livez HTTP/1.1\r\n"
LARGE = b"x" * HEAD_BYTES


class Loop:
    """An event loop that runs nothing: it keeps what is to be run later, and counts requests that are begun."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Any, Mock]] = []
        self.begun = 0

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


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([START, b"a: ", *[LARGE[:10_000]] * 8], id="a header that does not end"),
        pytest.param([START, *[b"a: b\r\n" * 1000] * 12], id="headers that do not end"),
        pytest.param([b"GET /" + LARGE], id="a path that does not end"),
        pytest.param([START + b"a: " + LARGE + b"\r\n\r\n"], id="too long at once"),
        pytest.param([START + b"content-length: 3\r\na: " + LARGE + b"\r\n\r\nabc", b"more"], id="with a body"),
    ],
)
def test_a_head_that_is_too_long_is_refused(
    connection: BoundedHttp, loop: Loop, transport: Mock, parts: list[bytes]
) -> None:
    for part in parts:
        connection.data_received(part)
    assert written(transport).startswith(b"HTTP/1.1 431 ")
    assert written(transport).count(b"HTTP/1.1") == 1
    assert (loop.begun, transport.close.called) == (0, True)
    loop.pass_time(1.0)
    assert transport.abort.called


@pytest.mark.parametrize("received", [b"", START, START + b"host: a\r\n"], ids=["nothing", "a line", "a header"])
def test_a_head_that_does_not_come_ends_the_connection(
    connection: BoundedHttp, loop: Loop, transport: Mock, received: bytes
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


@pytest.mark.parametrize("head", [START, START + b"a: " + LARGE + b"\r\n\r\n"], ids=["late", "too long"])
def test_the_next_request_of_a_connection_is_bounded_too(
    connection: BoundedHttp, loop: Loop, transport: Mock, head: bytes
) -> None:
    connection.data_received(START + b"\r\n")
    loop.pass_time(HEAD_SECONDS)
    assert (loop.begun, transport.abort.called) == (1, False)
    connection.data_received(head)
    loop.pass_time(HEAD_SECONDS)
    assert (loop.begun, transport.abort.called) == (1, True)
