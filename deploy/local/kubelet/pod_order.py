"""Which pods come next: those that wait for a place on this node, by priority, then age, then arrival."""

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from workers.api.kinds import Object

#: Pods for other schedulers are left to them.
SCHEDULER = "default-scheduler"


def is_ours(pod: Object, node: str) -> bool:
    """Whether the pod runs here, or waits for a scheduler whose work this kubelet does."""
    spec = pod["spec"]
    if assigned := spec.get("nodeName"):
        return bool(assigned == node)
    return spec.get("schedulerName", SCHEDULER) == SCHEDULER and not spec.get("schedulingGates")


def mismatch(pod: Object, labels: Mapping[str, str]) -> str | None:
    """Why the pod may not run on a node with these labels, or None."""
    wanted = pod["spec"].get("nodeSelector") or {}
    missing = [f"{key}={value}" for key, value in wanted.items() if labels.get(key) != value]
    return f"the node lacks labels of spec.nodeSelector: {', '.join(missing)}" if missing else None


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
    told: bool = False


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
        """The next pod, which leaves the queue; None when nobody waits."""
        while self._order:
            uid = heapq.heappop(self._order)[-1]
            if place := self._places.pop(uid, None):
                return place.pod
        return None

    def overdue(self, now: float, patience: float, limit: int) -> list[Object]:
        """Pods that have waited for longer than `patience` seconds and were not yet told so; at most `limit`."""
        found: list[Object] = []
        for place in self._places.values():
            if len(found) == limit:
                break
            if not place.told and now - place.since >= patience:
                place.told = True
                found.append(place.pod)
        return found
