"""A streamed answer that ends, and is cleaned up, when its client goes away."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from workers.cancellation import cancelled

Texts = AsyncGenerator[bytes, None]


class StreamedAnswer(Response):
    """Sends what a generator yields, as it comes. texts: makes the generator, which is closed in every case.

    Sending waits for a slow client, so only the generator's own bounds limit what is kept for it.
    """

    media_type = "text/event-stream"

    def __init__(self, texts: Callable[[], Texts]) -> None:
        # A proxy that gathers answers before it passes them on would keep updates back.
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._texts = texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Answers one request."""
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_left(receive))
        try:
            done, _ = await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancelled(sending, leaving)
        if sending in done:
            sending.result()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._texts()) as texts:
            async for text in texts:
                await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    """Returns once the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
