"""The queue of pods that wait for a free slot of this node: by priority, then age, then arrival."""

import heapq
from collections.abc import Collection, Container
from dataclasses import dataclass

from workers.api.kinds import Object

#: Pods for other schedulers are left to them.
SCHEDULER = "default-scheduler"


def is_ours(pod: Object, nodes: Container[str]) -> bool:
    """True if the pod is bound to one of these nodes, or waits for the scheduler that this kubelet stands in for."""
    spec = pod["spec"]
    if assigned := spec.get("nodeName"):
        return assigned in nodes
    return spec.get("schedulerName", SCHEDULER) == SCHEDULER and not spec.get("schedulingGates")


def limit(pods: int) -> str:
    """Returns the sentence that names the limit of pods and the setting."""
    return f"this node runs {pods} at once (`penstock up --pods {pods}`; a larger number lets more run)"


def binding(pod: Object, node: str) -> Object:
    """The object that assigns exactly this pod to the node."""
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


@dataclass(slots=True)
class _Place:
    pod: Object
    since: float
    reported: bool = False


class PodQueue:
    """Pods that wait for a place. A pod is known by its uid."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._order: list[tuple[int, str, int, str]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._places)

    def put(self, pod: Object, now: float) -> None:
        """Adds a pod, or notes its newest version without changing its place."""
        metadata = pod["metadata"]
        if place := self._places.get(metadata["uid"]):
            place.pod = pod
            return
        self._arrivals += 1
        rank = (-int(pod["spec"].get("priority") or 0), metadata.get("creationTimestamp") or "", self._arrivals)
        heapq.heappush(self._order, (*rank, metadata["uid"]))
        self._places[metadata["uid"]] = _Place(pod, now)

    def discard(self, uid: str) -> None:
        """The pod waits no more."""
        self._places.pop(uid, None)

    def keep(self, uids: Collection[str]) -> None:
        """Only these pods still exist."""
        for uid in self._places.keys() - set(uids):
            del self._places[uid]

    def take(self) -> Object | None:
        """Removes and returns the next pod; None when the queue is empty."""
        while self._order:
            uid = heapq.heappop(self._order)[-1]
            if place := self._places.pop(uid, None):
                return place.pod
        return None

    def overdue(self, now: float, patience: float, limit: int) -> list[Object]:
        """Returns at most `limit` pods that have waited for `patience` seconds, each of them once."""
        found: list[Object] = []
        for place in self._places.values():
            if len(found) == limit:
                break
            if not place.reported and now - place.since >= patience:
                place.reported = True
                found.append(place.pod)
        return found
