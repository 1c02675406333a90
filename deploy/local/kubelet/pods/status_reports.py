"""Statuses on their way to the API server: one at a time per pod, the newest wins, failures are tried again."""

import asyncio
import logging
from dataclasses import dataclass, field

from workers.api.kinds import Object, Ref
from workers.cancellation import cancelled
from workers.client.rest import STRATEGIC_MERGE_PATCH, Cluster
from workers.errors import ClusterError, Conflict, Invalid, NotFound

log = logging.getLogger(__name__)

#: Pause before a refused status is sent again (seconds); doubles up to LONGEST.
_FIRST = 0.1
_LONGEST = 10.0


@dataclass(slots=True)
class _Pod:
    """wanted: what is to be sent next. idle: set when nothing is left to send."""

    ref: Ref
    uid: str
    wanted: Object | None = None
    idle: asyncio.Event = field(default_factory=asyncio.Event)


def _conditions(status: Object) -> Object:
    """The conditions as a patch that merges them by type: those that others set in the meantime stay.

    What a condition has no more is taken away by name.
    """
    given = status.get("conditions")
    return {} if given is None else {"conditions": [{"reason": None, "message": None, **one} for one in given]}


class Reports:
    """Sends the statuses of pods. width: how many are on their way at once."""

    def __init__(self, cluster: Cluster, *, width: int = 8) -> None:
        self._cluster = cluster
        self._width = asyncio.Semaphore(width)
        self._pods: dict[str, _Pod] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, ref: Ref, uid: str, status: Object) -> None:
        """Sends this status soon; one of the same pod that was not sent yet is forgotten."""
        if uid in self._pods:
            self._pods[uid].wanted = status
            return
        self._pods[uid] = _Pod(ref, uid, status)
        task = asyncio.create_task(self._send(self._pods[uid]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self, uid: str) -> None:
        """Waits until the newest status has arrived, or the API server does not know the pod any more."""
        if uid in self._pods:
            await self._pods[uid].idle.wait()

    async def close(self) -> None:
        """Drops what could not be sent."""
        await cancelled(*self._tasks)

    async def _send(self, pod: _Pod) -> None:
        pause = _FIRST
        while pod.wanted is not None:
            async with self._width:
                status, pod.wanted = pod.wanted, None
                sent = await self._try(pod, status)
            if sent:
                pause = _FIRST
                continue
            # a newer one may have come while this one was refused
            pod.wanted = pod.wanted or status
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST)
        del self._pods[pod.uid]
        pod.idle.set()

    async def _try(self, pod: _Pod, status: Object) -> bool:
        """Sends one status. Returns False if it must be sent again."""
        # the uid makes the patch fail when another pod has taken the name
        patch = {"metadata": {"uid": pod.uid}, "status": {**status, **_conditions(status)}}
        try:
            await self._cluster.patch(pod.ref, patch, type=STRATEGIC_MERGE_PATCH, subresource="status")
        except NotFound:
            pod.wanted = None
        except (Conflict, Invalid) as error:
            if await self._is_gone(pod):
                return True
            if isinstance(error, Conflict):
                log.debug("a status was refused", extra={"pod": str(pod.ref), "error": str(error)})
                return False
            # sending it again would not help, and the pod must not hang on it
            log.error("a status is not acceptable", extra={"pod": str(pod.ref), "error": str(error)})  # noqa: TRY400
        except ClusterError as error:
            log.warning("a status could not be sent", extra={"pod": str(pod.ref), "error": str(error)})
            return False
        return True

    async def _is_gone(self, pod: _Pod) -> bool:
        try:
            found = await self._cluster.get(pod.ref)
        except NotFound:
            return True
        except ClusterError:
            return False
        return bool(found["metadata"]["uid"] != pod.uid)
