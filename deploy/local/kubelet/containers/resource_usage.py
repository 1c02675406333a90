"""The resource usage of running pods, measured from /proc, as PodMetrics of the resource metrics API."""

import asyncio
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local.kubelet.containers.container_states import timestamp
from deploy.local.supervisor.guard import stat_fields
from workers.api.kinds import POD, POD_METRICS, Object, Ref, ref_of, reference
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, ClusterError, NotFound

log = logging.getLogger(__name__)

#: Seconds between two samples: a rate is an average of about this time.
PERIOD = 5.0

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Consumed:
    """By the processes of one session. cpu: seconds of CPU time so far. memory: bytes now."""

    cpu: float
    memory: int


def sessions(proc: Path = _PROC) -> Mapping[int, Consumed]:
    """Returns the consumption of every session of processes; empty on a system without /proc.

    CPU time of processes that have ended counts with the one that waited for them.
    """
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    cpu: defaultdict[int, int] = defaultdict(int)
    memory: defaultdict[int, int] = defaultdict(int)
    for folder in proc.glob("[0-9]*"):
        if not (fields := stat_fields(folder / "stat")):
            # The process has ended meanwhile.
            continue
        session = int(fields[3])
        cpu[session] += sum(int(fields[place]) for place in (11, 12, 13, 14))
        memory[session] += max(0, int(fields[21])) * page
    return {session: Consumed(cpu[session] / tick, memory[session]) for session in cpu}


@dataclass(frozen=True, slots=True)
class MeasuredContainer:
    """A pod with its running containers, each with the session of its processes."""

    pod: Object
    containers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class UsageSample:
    """The consumption of all sessions at an instant of the monotonic clock (seconds)."""

    at: float
    consumed: Mapping[int, Consumed]


def metrics(running: MeasuredContainer, before: UsageSample, after: UsageSample, now: float) -> Object | None:
    """Returns the PodMetrics of a pod; None unless both samples have all its running containers."""
    both = before.consumed.keys() & after.consumed.keys()
    seconds = after.at - before.at
    if not running.containers or not both.issuperset(running.containers.values()) or seconds <= 0:
        return None
    metadata = running.pod["metadata"]
    known = reference(POD, running.pod)
    owner = {key: known[key] for key in ("apiVersion", "kind", "name", "uid")}
    return {
        "apiVersion": POD_METRICS.api_version,
        "kind": POD_METRICS.kind,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": metadata.get("labels") or {},
            "ownerReferences": [owner],
        },
        "timestamp": timestamp(now),
        "window": f"{seconds:.3f}s",
        "containers": [
            {"name": name, "usage": _usage(before.consumed[session], after.consumed[session], seconds)}
            for name, session in running.containers.items()
        ],
    }


def _usage(before: Consumed, after: Consumed, seconds: float) -> Object:
    rate = max(0.0, after.cpu - before.cpu) / seconds
    return {"cpu": f"{round(rate * 1e9)}n", "memory": f"{after.memory // 1024}Ki"}


class ContainerUsage:
    """Writes the PodMetrics of this node's pods. running: those that have processes now."""

    def __init__(
        self, cluster: Cluster, running: Callable[[], Iterable[MeasuredContainer]], clock: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._running = running
        self._clock = clock

    async def live(self) -> None:
        """Measures until cancelled. Idles where PodMetrics cannot be written: there metrics-server measures."""
        before = await _sample()
        while True:
            await asyncio.sleep(PERIOD)
            after = await _sample()
            for running in tuple(self._running()):
                measured = metrics(running, before, after, self._clock())
                if measured and not await self._write(measured):
                    await asyncio.Event().wait()
            before = after

    async def _write(self, measured: Object) -> bool:
        """False where the API server does not take it at all."""
        ref: Ref = ref_of(POD_METRICS, measured)
        try:
            try:
                await self._cluster.patch(ref, measured)
            except NotFound:
                await self._cluster.create(POD_METRICS, measured)
        except AlreadyExists:
            return True
        except NotFound:
            return False
        except ClusterError as error:
            log.debug("what a pod consumes could not be written", extra={"pod": str(ref), "error": str(error)})
        return True


async def _sample() -> UsageSample:
    return UsageSample(time.monotonic(), await asyncio.to_thread(sessions))
