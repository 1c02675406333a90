"""Listeners of servers that stream changes, etcd and external scalers: one stream per name, reopened when it ends."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from random import random
from typing import Any, Generic, TypeVar

import orjson

from penstock.scaler import SourceError
from scalers.sources.external.grpc_client import Address, ExternalClient
from scalers.sources.external.messages import Reference
from scalers.sources.http.etcd import EtcdServer, WatchedKey, encoded
from scalers.sources.http.web import Session
from scalers.wakeups.redis_listener import ListenerStatus
from workers.cancellation import cancelled
from workers.client import environment_proxies

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Hashable)
C = TypeVar("C")


class StreamListener(ABC, Generic[S, C]):
    """Keeps one stream open for every name that it follows.

    server: named in logs and status. woke: called with the name for every change, and once when its stream begins,
    for earlier changes are lost. backoff: seconds before the first new attempt after a failure, and at most; a stream
    that the server ends is reopened after the first.
    """

    def __init__(
        self,
        server: S,
        woke: Callable[[Iterable[Any]], None],
        *,
        backoff: tuple[float, float] = (2.0, 60.0),
    ) -> None:
        self._server = server
        self._woke = woke
        self._backoff = backoff
        self._wanted: frozenset[Any] = frozenset()
        self._changed = asyncio.Event()
        self._streams: dict[Any, asyncio.Task[None]] = {}
        self._open: set[Any] = set()
        self._errors: dict[Any, str] = {}

    @abstractmethod
    def connect(self) -> C:
        """Returns the client that all streams share; it sends nothing before it is used."""

    @abstractmethod
    async def disconnect(self, client: C) -> None:
        """Closes the client."""

    @abstractmethod
    def changes(self, client: C, name: Any) -> AsyncIterator[bool]:
        """Yields False when the stream begins and True for each change, until it ends. Raises SourceError."""

    def follow(self, names: Iterable[Any]) -> None:
        """Keeps streams for exactly these names from now on."""
        self._wanted = frozenset(names)
        self._changed.set()

    def status(self) -> ListenerStatus:
        """Returns the status; the error of any broken stream is its detail."""
        detail = next(iter(self._errors.values()), None)
        return ListenerStatus(str(self._server), len(self._wanted), bool(self._open) and detail is None, "on", detail)

    async def run(self) -> None:
        """Listens until cancelled."""
        client = self.connect()
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._end(self._streams.keys() - self._wanted)
                for name in self._wanted - self._streams.keys():
                    self._streams[name] = asyncio.create_task(self._keep(client, name))
        finally:
            await self._end(tuple(self._streams))
            await self.disconnect(client)

    async def _end(self, names: Iterable[Any]) -> None:
        ending = {name: self._streams.pop(name) for name in tuple(names)}
        await cancelled(*ending.values())
        for name in ending:
            self._errors.pop(name, None)

    async def _keep(self, client: C, name: Any) -> None:
        """Keeps one stream open, and reopens it whenever it ends."""
        first, cap = self._backoff
        failures = 0
        while True:
            try:
                async for changed in self.changes(client, name):
                    failures = 0 if changed else failures
                    self._open.add(name)
                    self._errors.pop(name, None)
                    self._woke((name,))
                failures = 0
            except SourceError as error:
                failures += 1
                self._errors[name] = str(error)
            except Exception as error:
                failures += 1
                self._errors[name] = type(error).__name__
                log.exception("listening failed unexpectedly", extra={"source": str(self._server)})
            finally:
                self._open.discard(name)
            if failures == 1:
                log.warning(
                    "no wake-ups from a server", extra={"source": str(self._server), "error": self._errors[name]}
                )
            await asyncio.sleep(min(cap, first * 2.0 ** max(0, min(failures - 1, 16))) * (0.5 + random() / 2))


class EtcdListener(StreamListener[EtcdServer, Session]):
    """Watches keys of one etcd cluster, over its JSON gateway."""

    def connect(self) -> Session:
        """Returns a session without a limit of connections: each watch keeps one for as long as it lasts."""
        return Session.of(self._server, limit=0)

    async def disconnect(self, client: Session) -> None:
        """Closes its connections."""
        await client.close()

    async def changes(self, client: Session, name: WatchedKey) -> AsyncIterator[bool]:
        """Yields the changes of the key, from the first endpoint that watches it."""
        import aiohttp

        reason = "there is no endpoint"
        for base in self._server.endpoints:
            begun = False
            try:
                async for changed in self._watch(client, base, name):
                    begun = True
                    yield changed
            except (aiohttp.ClientError, OSError, ValueError, AttributeError, TimeoutError) as error:
                reason = str(error) or type(error).__name__
            if begun:
                break
        else:
            raise SourceError(f"{self._server}: {reason}")

    async def _watch(self, client: Session, base: str, name: WatchedKey) -> AsyncIterator[bool]:
        import aiohttp

        headers = await self._login(client, base)
        request = {"create_request": {"key": encoded(name.key), "progress_notify": True}}
        timeout = aiohttp.ClientTimeout(connect=5.0, sock_read=name.silence)
        proxy = environment_proxies.current(base)
        async with client.http.post(
            f"{base}/v3/watch", json=request, headers=headers, timeout=timeout, proxy=proxy
        ) as response:
            if response.status != 200:
                raise ValueError(f"a watch is answered {response.status}")
            async for line in response.content:
                result: Any = orjson.loads(line).get("result") or {}
                if result.get("canceled"):
                    raise ValueError("a watch is refused")
                if result.get("created"):
                    yield False
                elif result.get("events"):
                    yield True

    async def _login(self, client: Session, base: str) -> dict[str, str]:
        if not self._server.username:
            return {}
        import aiohttp

        login = {"name": self._server.username, "password": self._server.password}
        timeout = aiohttp.ClientTimeout(total=5.0)
        proxy = environment_proxies.current(base)
        async with client.http.post(
            f"{base}/v3/auth/authenticate", json=login, timeout=timeout, proxy=proxy
        ) as response:
            answer: Any = await response.json(content_type=None)
        if not isinstance(answer, dict) or not answer.get("token"):
            raise ValueError("the login is refused")
        return {"Authorization": str(answer["token"])}


class PushListener(StreamListener[Address, ExternalClient]):
    """Listens to an external scaler: one stream per object, all on one channel."""

    def connect(self) -> ExternalClient:
        """Returns a channel to the scaler."""
        return ExternalClient(self._server)

    async def disconnect(self, client: ExternalClient) -> None:
        """Closes the client."""
        await client.close()

    def changes(self, client: ExternalClient, name: Reference) -> AsyncIterator[bool]:
        """Yields the pushes of the server."""
        return client.pushes(name.message())
