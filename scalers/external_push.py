"""Hearing of pushes from external scalers: one stream per object, all of one server on one channel."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from random import random
from typing import Any

from scalers.external_client import Address, Client
from scalers.external_messages import Reference
from scalers.listener import Status
from scalers.scaler import SourceError

log = logging.getLogger(__name__)


class PushListener:
    """Keeps a stream open for every reference it follows, and tells of each that something is pushed on.

    woke: called with the reference on every push, and once when its stream begins, since what was pushed before was
    not heard. backoff: seconds before the first new attempt after a stream broke, and at most; a stream that the
    server ends is opened again after the first.
    """

    def __init__(
        self,
        address: Address,
        woke: Callable[[Iterable[Reference]], None],
        *,
        backoff: tuple[float, float] = (2.0, 60.0),
    ) -> None:
        self._address = address
        self._woke = woke
        self._backoff = backoff
        self._wanted: frozenset[Reference] = frozenset()
        self._changed = asyncio.Event()
        self._streams: dict[Reference, asyncio.Task[None]] = {}
        self._open: set[Reference] = set()
        self._errors: dict[Reference, str] = {}

    def follow(self, names: Iterable[Any]) -> None:
        """Keep streams for exactly these references from now on."""
        self._wanted = frozenset(names)
        self._changed.set()

    def status(self) -> Status:
        """How it goes; a stream that is broken is told first."""
        detail = next(iter(self._errors.values()), None)
        return Status(str(self._address), len(self._wanted), bool(self._open) and detail is None, "on", detail)

    async def run(self) -> None:
        """Listen until cancelled."""
        client = Client(self._address)
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._end(self._streams.keys() - self._wanted)
                for reference in self._wanted - self._streams.keys():
                    self._streams[reference] = asyncio.create_task(self._keep(client, reference))
        finally:
            await self._end(tuple(self._streams))
            await client.close()

    async def _end(self, references: Iterable[Reference]) -> None:
        ending = {reference: self._streams.pop(reference) for reference in tuple(references)}
        for task in ending.values():
            task.cancel()
        await asyncio.gather(*ending.values(), return_exceptions=True)
        for reference in ending:
            self._errors.pop(reference, None)

    async def _keep(self, client: Client, reference: Reference) -> None:
        """One stream, opened again whenever it ends."""
        first, cap = self._backoff
        failures = 0
        while True:
            try:
                async for pushed in client.pushes(reference.message()):
                    failures = 0 if pushed else failures
                    self._open.add(reference)
                    self._errors.pop(reference, None)
                    self._woke((reference,))
                failures = 0
            except SourceError as error:
                failures += 1
                self._errors[reference] = str(error)
            except Exception as error:
                failures += 1
                self._errors[reference] = type(error).__name__
                log.exception("listening failed unexpectedly", extra={"source": str(self._address)})
            finally:
                self._open.discard(reference)
            if failures == 1:
                why = self._errors[reference]
                log.warning("no wake-ups from a server", extra={"source": str(self._address), "error": why})
            await asyncio.sleep(min(cap, first * 2.0 ** max(0, min(failures - 1, 16))) * (0.5 + random() / 2))
