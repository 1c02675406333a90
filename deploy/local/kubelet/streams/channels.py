"""Channels: several streams over one WebSocket connection, the first byte of a message being the channel's number.

In ``v5.channel.k8s.io`` a client ends a channel by the message ``255 <channel>``; in ``v4.channel.k8s.io`` it cannot.
"""

import json
from collections.abc import AsyncIterator
from contextlib import suppress

from aiohttp import WSMsgType, web

from workers.api.kinds import Object

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
#: In v5 the channel of messages that end another one.
CLOSE = 255
#: The longest message of a client, in bytes.
LONGEST = 32 * 1024 * 1024
_SUCCESS: Object = {"metadata": {}, "status": "Success"}


class Channels:
    """The channels of one connection."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def send(self, channel: int, data: bytes) -> None:
        """Sends data, waiting while the client is behind; a client that is gone gets nothing."""
        with suppress(ConnectionError):
            await self._socket.send_bytes(bytes((channel,)) + data)

    async def receive(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yields channel and data of each message until the client has closed the connection."""
        async for message in self._socket:
            if message.type is WSMsgType.ERROR:
                return
            # Python's client sends what was given to it as text as a text.
            data = message.data.encode() if message.type is WSMsgType.TEXT else message.data
            if data:
                yield data[0], data[1:]

    async def left(self) -> None:
        """Returns when the client has closed the connection; what it sends is dropped."""
        async for _ in self.receive():
            pass

    async def finish(self, status: Object) -> None:
        """Sends how the command ended, and closes the connection."""
        await self.send(ERROR, json.dumps(status).encode())
        await self.close()

    async def close(self) -> None:
        """Closes the connection."""
        await self._socket.close()


def ended(code: int) -> Object:
    """Returns the `Status` of a command that ended with this exit code."""
    if code == 0:
        return _SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failed(why: str) -> Object:
    """Returns the `Status` of a stream that could not be served."""
    message = f"Internal error occurred: {why}"
    details = {"causes": [{"message": why}]}
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "InternalError",
        "details": details,
        "code": 500,
    }
