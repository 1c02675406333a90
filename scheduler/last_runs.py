"""The last runs of Celery's own periodic entries, shared by all beats: each run is leased to one of them."""

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.scripts import Script, load, readable

log = logging.getLogger(__name__)

#: Seconds a run is leased to a beat. Longer than publishing can take with all its retries.
LEASE = 20.0

#: Seconds before the end of the lease in which no publishing starts.
MARGIN = 1.0

_ACQUIRE = Script(load("scheduler", "acquire_run"), ours=True)
_RELEASE = Script(load("scheduler", "release_run"), ours=True)


@dataclass(frozen=True, slots=True)
class RunLease:
    """The lease of one run. deadline: on `time.monotonic()`; after it another beat may emit the run."""

    name: str
    id: str
    deadline: float

    @property
    def expired(self) -> bool:
        """True when it is too late to start publishing."""
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
        """Returns the broker's time, microseconds since the epoch."""
        if self._clock:
            return self._clock()
        seconds, micros = await self._client.time()
        return int(seconds) * 1_000_000 + int(micros)

    async def load(self, last: Mapping[str, int]) -> dict[str, int]:
        """Returns the last run of each of these entries; those the broker does not know are stored from `last`."""
        if not last:
            return {}
        runs = self._keys.beat("runs")

        async def stored() -> list[bytes | None]:
            async with self._client.pipeline(transaction=False) as pipe:
                for name, moment in last.items():
                    pipe.hsetnx(runs, name, str(moment))
                pipe.hmget(runs, list(last))
                known: list[bytes | None] = (await pipe.execute())[-1]
                return known

        known = await readable(self._client, [runs], stored)
        moments = zip(last, known, strict=True)
        return {name: _moment(name, moment, last[name]) for name, moment in moments if moment is not None}

    async def acquire(self, name: str, last: int) -> RunLease | int | None:
        """Leases the run that follows the one at `last`.

        Returns the lease, None while another beat has it, or the moment of the last run if it is a later one.
        """
        # The deadline counts from before the call: it passes before the broker's expiry.
        lease = RunLease(name, uuid.uuid4().hex, time.monotonic() + LEASE)
        args = (name, last, lease.id, round(LEASE * 1000), self._clock() if self._clock else "")
        answer = await _ACQUIRE(self._client, self._names(name), args)
        if isinstance(answer, bytes):
            return int(answer)
        return lease if answer else None

    async def release(self, lease: RunLease, run: int | None) -> bool:
        """Records the run as emitted at this moment, or (None) gives it back to be tried again.

        Returns False if the lease has expired, and changes nothing then.
        """
        args = (lease.name, lease.id, "" if run is None else run)
        return bool(await _RELEASE(self._client, self._names(lease.name), args))

    def _names(self, name: str) -> tuple[str, str]:
        return self._keys.beat("runs"), self._keys.beat(f"lease:{name}")


def _moment(name: str, stored: bytes, last: int) -> int:
    """Returns a stored moment; one that cannot be read counts as `last`, and the next run replaces it."""
    if stored.isdigit():
        return int(stored)
    log.warning("a last run that cannot be read counts as unknown", extra={"entry": name, "value": repr(stored)[:100]})
    return last
