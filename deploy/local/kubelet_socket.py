"""The Unix socket by which the API server reaches the kubelet for streams: exec, attach and port-forward.

It is in the folder of the pods' logs, which both know, and only its owner can use it.
"""

import asyncio
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: A socket's address has 104 bytes or more, the zero byte at its end included.
_LONGEST = 103
#: Seconds between two checks of a connection that is not read from.
_PERIOD = 1.0
_CLOSED = getattr(select, "POLLRDHUP", 0)


def path(logs: Path) -> Path:
    """Returns the socket of the kubelet that writes its pods' logs into this folder."""
    return logs / "kubelet.sock"


@contextmanager
def address(socket: Path) -> Iterator[str]:
    """Yields a name for the socket that is short enough for its address, by the descriptor of its folder on Linux."""
    if len(os.fsencode(socket)) <= _LONGEST:
        yield str(socket)
        return
    folder = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{socket.name}"
    finally:
        os.close(folder)


async def hung_up(transport: asyncio.BaseTransport) -> None:
    """Returns soon after the other side has closed the connection, even while nothing is read from it."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), _CLOSED)
    while not transport.is_closing() and not poll.poll(0):  # noqa: ASYNC110 - a transport that is not read tells nothing
        await asyncio.sleep(_PERIOD)
