"""The state of the pipeline itself: lanes, processes of this machine, lateness, the broker, and what is wrong."""

import logging
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from redis.asyncio import Redis
from redis.exceptions import RedisError

from deploy.local.supervisor.leftovers import birth
from scheduler.queue import Lane, Stats
from workers.api import times
from workers.cache.staleness import Ages
from workers.errors import ClusterError

log = logging.getLogger(__name__)

#: Measurements that percentiles are taken of: of the last minutes.
MEASURED = 60
#: Seconds after which an answer is measured anew, and between two questions to the API server.
FRESH, PROBE = 1.0, 10.0
#: Seconds that a key may be ready before the lane counts as behind.
BEHIND = 30.0


class PipelineMonitor:
    """Measures the pipeline on request.

    ages: returns the ages of the kinds in the store. probe: asks the API server something small. home: the folder of
    an embedded Penstock on this machine, None without one. stale: seconds after which a kind counts as unknown.
    """

    def __init__(
        self,
        client: Redis,
        lanes: Mapping[str, Lane],
        *,
        ages: Callable[[], Awaitable[Ages]],
        probe: Callable[[], Awaitable[Any]],
        home: Path | None,
        stale: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._lanes = lanes
        self._ages = ages
        self._probe = probe
        self._home = home
        self._stale = stale
        self._clock = clock
        self._late: deque[float] = deque(maxlen=MEASURED)
        self._answers: deque[float] = deque(maxlen=MEASURED)
        self._api_problem = ""
        self._probed = self._measured = -PROBE
        self._last = b""

    async def encoded(self) -> bytes:
        """Returns the state as JSON, at most `FRESH` seconds old. Raises RedisError if the broker does not answer."""
        if self._clock() - self._measured > FRESH or not self._last:
            self._last = orjson.dumps(await self._measure())
            self._measured = self._clock()
        return self._last

    async def _measure(self) -> Mapping[str, Any]:
        stats = {name: await lane.stats() for name, lane in self._lanes.items()}
        # The key that has been ready longest is as late as any poll of this moment.
        self._late.append(stats["poll"].oldest or 0.0 if "poll" in stats else 0.0)
        broker = await self._broker()
        await self._ask_api()
        ages = await self._ages()
        return {
            "lanes": [_lane(name, each) for name, each in stats.items()],
            "processes": processes(self._home) if self._home else [],
            "polls": percentiles(self._late),
            "api": percentiles(self._answers),
            "broker": {name: broker[name] for name in ("memoryBytes", "connectedClients", "version", "aof")},
            "problems": problems(stats, ages, broker, api=self._api_problem, stale=self._stale),
        }

    async def _broker(self) -> dict[str, Any]:
        info: Any = {}
        try:
            info = await self._client.info()
        except RedisError as error:  # an access list may forbid it
            log.debug("the broker does not tell its state", extra={"error": str(error)})
        return {
            "memoryBytes": info.get("used_memory"),
            "connectedClients": info.get("connected_clients"),
            "version": info.get("valkey_version") or info.get("redis_version"),
            "aof": bool(info["aof_enabled"]) if "aof_enabled" in info else None,
            "policy": info.get("maxmemory_policy"),
            "limit": info.get("maxmemory"),
        }

    async def _ask_api(self) -> None:
        began = self._clock()
        if began - self._probed < PROBE:
            return
        self._probed = began
        try:
            await self._probe()
        except ClusterError as error:
            self._api_problem = str(error)
        else:
            self._api_problem = ""
            self._answers.append(self._clock() - began)


def percentiles(measured: Sequence[float]) -> Mapping[str, float] | None:
    """Returns the median and the 99th percentile in seconds, None without measurements."""
    if not measured:
        return None
    ordered = sorted(measured)
    last = len(ordered) - 1
    return {"p50": round(ordered[last // 2], 4), "p99": round(ordered[round(last * 0.99)], 4)}


def problems(
    stats: Mapping[str, Stats], ages: Ages, broker: Mapping[str, Any], *, api: str, stale: float
) -> list[Mapping[str, str]]:
    """Returns what is wrong, why it matters and how to mend it. Pure.

    api: the last error of the API server, empty if it answered. stale: seconds after which a kind is too old.
    """
    found = []
    if api:
        found.append(
            _problem(
                "The API server does not answer.",
                f"Nothing can be created or deleted meanwhile: {api}",
                "Look whether it runs, and at the credentials of Penstock's processes: penstock doctor.",
            )
        )
    old = {kind_id: age for kind_id, age in ages.items() if age is not None and age > stale}
    if old:
        oldest = max(old, key=lambda kind_id: old[kind_id])
        found.append(
            _problem(
                f"{len(old)} kind{'s are' if len(old) > 1 else ' is'} not followed at the moment.",
                f"It last heard of {oldest} {old[oldest]:.0f} s ago, and decides nothing on objects it cannot see.",
                "Look whether the watching process (penstock watch) runs and reaches the API server.",
            )
        )
    for name, each in stats.items():
        if (each.oldest or 0.0) > BEHIND:
            role = "scaler" if name == "poll" else "worker"
            found.append(
                _problem(
                    f"The lane {name} is behind: its oldest key has waited for {each.oldest:.0f} s.",
                    f"{each.ready} keys are ready, and {each.leased} are being worked on.",
                    f"Look whether {role} processes run; start more of them.",
                )
            )
        if each.expired:
            found.append(
                _problem(
                    f"Leases of the lane {name} have expired: {each.expired}.",
                    "A process ended or lost the broker while it worked; others take its keys over.",
                    "If it lasts, look at the logs of the worker and scaler processes.",
                )
            )
    if broker.get("limit") and broker.get("policy") not in (None, "noeviction"):
        found.append(
            _problem(
                f"The broker may drop keys when its memory is full (maxmemory-policy {broker['policy']}).",
                "Queue and store would lose entries, and Jobs could come late or twice.",
                "Set maxmemory-policy noeviction on the broker.",
            )
        )
    return found


def processes(home: Path) -> list[Mapping[str, Any]]:
    """Returns the parts that `penstock up` runs from this home, as their notes and the system tell."""
    found: list[Mapping[str, Any]] = []
    for note in sorted((home / "parts").glob("*")):
        try:
            number, born = note.read_text(encoding="utf-8").strip().split(" ", 1)
            alive = bool(born) and birth(int(number)) == born
        except (OSError, ValueError):
            continue
        found.append(
            {
                "kind": note.name.rstrip("0123456789-"),
                "id": f"{note.name} (pid {number})",
                "alive": alive,
                "since": times.render_precisely(datetime.fromtimestamp(note.stat().st_mtime, UTC)) if alive else None,
                "memoryBytes": _memory(int(number)) if alive else None,
            }
        )
    return found


def _memory(pid: int) -> int | None:
    """Returns the resident memory of a process in bytes, None where the system does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _lane(name: str, stats: Stats) -> Mapping[str, Any]:
    oldest = None if stats.oldest is None else round(stats.oldest, 3)
    return {"name": name, "ready": stats.ready, "oldestSeconds": oldest, "leased": stats.leased, "later": stats.later}


def _problem(what: str, why: str, todo: str) -> Mapping[str, str]:
    return {"what": what, "why": why, "todo": todo}
