"""Hearing of news from servers that stream them: one stream per name, each opened again whenever it ends."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from random import random
from typing import Any, Generic, TypeVar

from penstock.scaler import SourceError
from scalers.wakeups.redis_listener import ListenerStatus

log = logging.getLogger(__name__)

C = TypeVar("C")


class StreamListener(ABC, Generic[C]):
    """Keeps a stream open for every name it follows, and tells of each that there is news.

    server: what its text names. woke: called with the name on all news, and once when its stream begins, since what
    happened before was not heard. backoff: seconds before the first new attempt after a stream broke, and at most; a
    stream that the server ends is opened again after the first.
    """

    def __init__(
        self,
        server: Hashable,
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
        """What all streams share; nothing is sent before it is used."""

    @abstractmethod
    async def disconnect(self, client: C) -> None:
        """Close it."""

    @abstractmethod
    def news(self, client: C, name: Any) -> AsyncIterator[bool]:
        """False when the stream begins, then True with all news, until the server ends it. Raises SourceError."""

    def follow(self, names: Iterable[Any]) -> None:
        """Keep streams for exactly these names from now on."""
        self._wanted = frozenset(names)
        self._changed.set()

    def status(self) -> ListenerStatus:
        """How it goes; a stream that is broken is told first."""
        detail = next(iter(self._errors.values()), None)
        return ListenerStatus(str(self._server), len(self._wanted), bool(self._open) and detail is None, "on", detail)

    async def run(self) -> None:
        """Listen until cancelled."""
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
        for task in ending.values():
            task.cancel()
        await asyncio.gather(*ending.values(), return_exceptions=True)
        for name in ending:
            self._errors.pop(name, None)

    async def _keep(self, client: C, name: Any) -> None:
        """One stream, opened again whenever it ends."""
        first, cap = self._backoff
        failures = 0
        while True:
            try:
                async for told in self.news(client, name):
                    failures = 0 if told else failures
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
