"""The presence of a process in the broker: others learn within seconds that it was killed, or is cut off from there.

A key with a short life is renewed by a thread of its own, so that a busy event loop does not pass for a dead process.
Presence is a hint: who acts on its end must be fenced against a process that lives nevertheless.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.exceptions import RedisError

from scheduler import shared_ticks
from scheduler.keys import Keys
from workers.cancellation import cancelled
from workers.runtime.loop import LoopThread

log = logging.getLogger(__name__)

#: Seconds between two signs of life, and between two looks at those of others.
EVERY = 0.5
#: Seconds that a sign of life lasts.
LASTS = 2.0
#: Looks in a row that find no sign of life of a process that is gone: after a loss of data they come back within one.
LOOKS = 3


class Presence:
    """The presence of this process and of others under one prefix.

    client: of the broker, on the caller's loop. connect: makes another one, for the thread of the signs of life.
    identity: unique to this process. every, lasts: as `EVERY` and `LASTS`.
    """

    def __init__(
        self,
        client: Redis,
        connect: Callable[[], Redis],
        keys: Keys,
        *,
        every: float = EVERY,
        lasts: float = LASTS,
    ) -> None:
        self.identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
        self._client = client
        self._connect = connect
        self._keys = keys
        self._every = every
        self._lasts = lasts
        self._waiting: dict[str, asyncio.Event] = {}
        self._missed: dict[str, int] = {}
        self._asked = asyncio.Event()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Gives signs of life, and looks for those that `until_gone` asks for."""
        thread = LoopThread(self._announced)
        looking = asyncio.create_task(self._look_forever(), name="look for others")
        thread.start()
        try:
            yield
        finally:
            await cancelled(looking)
            await asyncio.to_thread(thread.stop)

    async def until_gone(self, identity: str) -> None:
        """Returns once the process of this identity gives no sign of life although the broker answers."""
        gone = self._waiting.setdefault(identity, asyncio.Event())
        self._asked.set()
        await gone.wait()

    @asynccontextmanager
    async def _announced(self) -> AsyncIterator[None]:
        client = self._connect()
        announcing = asyncio.create_task(self._announce_forever(client), name="signs of life")
        try:
            yield
        finally:
            await cancelled(announcing)
            await client.aclose()

    async def _announce_forever(self, client: Redis) -> None:
        while True:
            try:
                await client.set(self._keys.present(self.identity), 1, px=round(self._lasts * 1000))
            except (RedisError, OSError) as error:
                log.debug("no sign of life", extra={"error": str(error)})
            await shared_ticks.tick(self._every)

    async def _look_forever(self) -> None:
        while True:
            if not self._waiting:
                self._asked.clear()
                await self._asked.wait()
            await asyncio.sleep(self._every)
            identities = list(self._waiting)
            try:
                found = await self._client.mget([self._keys.present(each) for each in identities])
            except (RedisError, OSError):
                # Unknown is not gone.
                self._missed.clear()
                continue
            self._note([each for each, sign in zip(identities, found, strict=True) if sign is None])

    def _note(self, missing: list[str]) -> None:
        self._missed = {each: self._missed.get(each, 0) + 1 for each in missing}
        for each, looks in list(self._missed.items()):
            if looks >= LOOKS:
                del self._missed[each]
                self._waiting.pop(each).set()
