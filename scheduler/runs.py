"""When Celery's own periodic entries last ran, shared by all beats: each run is emitted by one of them."""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.scripts import Script, load

#: Seconds for which a beat has a run to itself. Longer than publishing can take with all its retries.
EMITTING = 20.0

#: No publishing is started this close to the end of that time.
MARGIN = 1.0

_BEGIN = Script(load("scheduler", "begin_run"))
_END = Script(load("scheduler", "end_run"))


@dataclass(frozen=True, slots=True)
class RunLease:
    """One beat's right to emit one run. deadline: on `time.monotonic()`; after it another beat may take over."""

    name: str
    id: str
    deadline: float

    @property
    def expired(self) -> bool:
        """Too late to start publishing."""
        return time.monotonic() > self.deadline - MARGIN


class LastRuns:
    """The last runs, by entry name, in microseconds since the epoch on the broker's clock.

    clock: replaces that clock; for tests only.
    """

    def __init__(self, client: Redis, keys: Keys, *, clock: Callable[[], int] | None = None) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock

    async def now(self) -> int:
        """The broker's clock, microseconds since the epoch."""
        if self._clock:
            return self._clock()
        seconds, micros = await self._client.time()
        return int(seconds) * 1_000_000 + int(micros)

    async def learn(self, last: Mapping[str, int]) -> dict[str, int]:
        """The last run of each of these entries; an entry that the broker does not know is taken from `last`."""
        if not last:
            return {}
        runs = self._keys.beat("runs")
        async with self._client.pipeline(transaction=False) as pipe:
            for name, moment in last.items():
                pipe.hsetnx(runs, name, str(moment))
            pipe.hmget(runs, list(last))
            known = (await pipe.execute())[-1]
        return {name: int(moment) for name, moment in zip(last, known, strict=True) if moment is not None}

    async def begin(self, name: str, last: int) -> RunLease | int | None:
        """Ask to emit the run that follows the one at `last`.

        Answers the attempt if it is the caller's, None while another beat is at it, or the moment of the last run if
        that is not the one the caller knew.
        """
        attempt = RunLease(name, uuid.uuid4().hex, time.monotonic() + EMITTING)
        answer = await _BEGIN(self._client, self._names(name), (name, last, attempt.id, round(EMITTING * 1000)))
        if isinstance(answer, bytes):
            return int(answer)
        return attempt if answer else None

    async def end(self, attempt: RunLease, run: int | None) -> bool:
        """Say that the run was emitted, as the one of this moment, or (None) that it was not and is to be tried again.

        False if the attempt took too long and another beat has taken over.
        """
        args = (attempt.name, attempt.id, "" if run is None else run)
        return bool(await _END(self._client, self._names(attempt.name), args))

    def _names(self, name: str) -> tuple[str, str]:
        return self._keys.beat("runs"), self._keys.beat(f"emitting:{name}")
