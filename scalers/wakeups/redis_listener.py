"""Listens to the keyspace notifications of one Redis or Valkey server, on a connection of its own.

It never writes to the server, and only reads its configuration.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from random import random
from typing import Any, Literal

from redis import exceptions

from scalers.concurrency import side_by_side
from scalers.sources.redis.connection import RedisLink, RedisServer, reason

log = logging.getLogger(__name__)

#: Events after which a key may hold more than before.
GROWTH = frozenset(
    b"lpush rpush linsert sadd zadd zincr zincrby hset hincrby hincrbyfloat rename_to move_to copy_to restore"
    b" sortstore sinterstore sunionstore sdiffstore zinterstore zunionstore zdiffstore zrangestore"
    b" georadiusstore geosearchstore xadd".split()
)

#: Seconds between two pings, and of silence after which the connection counts as lost.
PING, SILENCE = 10.0, 25.0

#: Seconds that connecting and subscribing may take, and between two reads of the server's configuration.
SETUP, CHECK = 5.0, 60.0

Notifications = Literal["on", "off", "unknown"]


@dataclass(frozen=True, slots=True)
class ListenerStatus:
    """The status of the listener of one server.

    lists: number of keys or streams waited for. connected: the listener is subscribed. notifications: the server
    sends them; unknown if its configuration cannot be read. detail: the error, or the setting that is missing.
    """

    server: str
    lists: int
    connected: bool
    notifications: Notifications
    detail: str | None


class RedisListener:
    """Follows keys of one server.

    woke: called with the names of keys that may have grown; also once for every key when its subscription begins, for
    earlier pushes are lost. backoff: seconds before the first new attempt, and at most.
    """

    def __init__(
        self, server: RedisServer, woke: Callable[[Iterable[str]], None], *, backoff: tuple[float, float] = (0.5, 30.0)
    ) -> None:
        self._server = server
        self._woke = woke
        self._backoff = backoff
        self._prefix = f"__keyspace@{server.database}__:".encode()
        self._wanted: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._requested: set[str] = set()
        self._subscribed: set[str] = set()
        self._last_message = 0.0
        self._failures = 0
        self._notifications: Notifications = "unknown"
        self._detail: str | None = None
        self._error: str | None = None

    def follow(self, names: Iterable[Any]) -> None:
        """Listens for exactly these keys from now on."""
        self._wanted = frozenset(names)
        self._changed.set()

    def status(self) -> ListenerStatus:
        """Returns the status."""
        connected = self._error is None and bool(self._subscribed)
        return ListenerStatus(
            str(self._server), len(self._wanted), connected, self._notifications, self._error or self._detail
        )

    async def run(self) -> None:
        """Listens until cancelled; connects again after a failure, with a growing and jittered wait."""
        while True:
            try:
                await self._listen()
            except (exceptions.RedisError, OSError) as error:
                self._error = reason(error)
            except Exception as error:
                self._error = type(error).__name__
                log.exception("listening failed unexpectedly", extra={"source": str(self._server)})
            if not self._failures:
                log.warning("no wake-ups from a server", extra={"source": str(self._server), "error": self._error})
            self._failures += 1
            base, cap = self._backoff
            await asyncio.sleep(min(cap, base * 2.0 ** min(self._failures - 1, 16)) * (0.5 + random() / 2))

    async def _listen(self) -> None:
        link = RedisLink(self._server.client(connections=2))
        pubsub: Any = link.client.pubsub()
        self._requested, self._subscribed = set(), set()
        try:
            async with asyncio.timeout(SETUP):
                await self._check(link)
                await self._subscribe(pubsub)
            self._last_message = asyncio.get_running_loop().time()
            await side_by_side((self._receive(pubsub), self._keep_subscribed(pubsub), self._keep_alive(pubsub, link)))
        finally:
            with suppress(exceptions.RedisError, OSError):
                await asyncio.shield(_close(link, pubsub))

    async def _receive(self, pubsub: Any) -> None:
        while True:
            message = await pubsub.get_message(timeout=None)
            self._last_message = asyncio.get_running_loop().time()
            if message is None:
                continue
            name = message["channel"].removeprefix(self._prefix).decode() if message["channel"] else ""
            if message["type"] == "message" and message["data"] in GROWTH:
                self._woke((name,))
            elif message["type"] == "subscribe":
                self._error, self._failures = None, 0
                self._subscribed.add(name)
                self._woke((name,))

    async def _keep_subscribed(self, pubsub: Any) -> None:
        while True:
            await self._changed.wait()
            await self._subscribe(pubsub)

    async def _subscribe(self, pubsub: Any) -> None:
        self._changed.clear()
        wanted = self._wanted
        added, dropped = wanted - self._requested, self._requested - wanted
        self._requested = set(wanted)
        self._subscribed -= dropped
        if added:
            await pubsub.subscribe(*(self._prefix + name.encode() for name in added))
        if dropped:
            await pubsub.unsubscribe(*(self._prefix + name.encode() for name in dropped))

    async def _keep_alive(self, pubsub: Any, link: RedisLink) -> None:
        """Pings the server. Raises ConnectionError after a silence: a peer may vanish without a FIN."""
        loop = asyncio.get_running_loop()
        checked = loop.time()
        while True:
            await asyncio.sleep(PING)
            if loop.time() - self._last_message > SILENCE:
                raise exceptions.ConnectionError("the connection has gone silent")
            await pubsub.ping()
            if loop.time() - checked > CHECK:
                checked = loop.time()
                async with asyncio.timeout(SETUP):
                    await self._check(link)

    async def _check(self, link: RedisLink) -> None:
        """Reads whether the server sends notifications, and logs what is missing; many servers do not allow it."""
        before = self._detail
        try:
            answer = await link.client.config_get("notify-keyspace-events")
        except exceptions.ResponseError:
            self._notifications, self._detail = "unknown", "the server does not show its configuration"
        else:
            self._notifications, self._detail = judge(str(answer.get("notify-keyspace-events", "")))
        if self._detail and self._detail != before:
            more = {"source": str(self._server), "reason": self._detail}
            log.info("pushes to a server may be seen at the next poll only", extra=more)


def judge(flags: str) -> tuple[Notifications, str | None]:
    """Returns what ``notify-keyspace-events`` allows: notifications of lists, sets, sorted sets, hashes, streams."""
    kinds = [kind for kind in "lszht" if kind in flags or "A" in flags]
    if "K" not in flags or not kinds:
        return "off", f"notify-keyspace-events is '{flags}'; with Klszhtg pushes would be seen at once"
    if len(kinds) < 5:
        return "on", f"notify-keyspace-events is '{flags}'; with Klszhtg pushes to every kind of key would be seen"
    return "on", None


async def _close(link: RedisLink, pubsub: Any) -> None:
    await pubsub.aclose()
    await link.close()
