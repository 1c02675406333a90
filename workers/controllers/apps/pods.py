"""Pods of apps/v1 objects: their states, and their bodies from the template."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.api import conditions, times
from workers.api.kinds import POD, Kind, Object, owner_reference
from workers.api.statuses import is_finished
from workers.controllers.batch.job.pods import is_deleting


@dataclass(frozen=True, slots=True)
class OwnedPods:
    """Pods that exist. active: neither finished nor being deleted. terminating: being deleted, not finished yet.

    Finished pods (evicted ones, for example) are in neither; they stay for inspection.
    """

    active: tuple[Object, ...]
    terminating: tuple[Object, ...]


def sort(bodies: Iterable[Object]) -> OwnedPods:
    """Sorts the pods by state."""
    left = [pod for pod in bodies if not is_finished(pod)]
    return OwnedPods(tuple(pod for pod in left if not is_deleting(pod)), tuple(pod for pod in left if is_deleting(pod)))


def available_at(pod: Object, least: int) -> datetime | None:
    """Returns when the pod has been ready for this many seconds; None if it is not ready."""
    condition = conditions.find(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    since = condition.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"]
    return times.parse(since) + timedelta(seconds=least)


def is_available(pod: Object, least: int, now: datetime) -> bool:
    """True if the pod has been ready for this many seconds."""
    at = available_at(pod, least)
    return at is not None and (least == 0 or at <= now)


def build(kind: Kind, owner: Object, name: str) -> Object:
    """Builds a pod from the template of its owner, which is of this kind."""
    template = owner["spec"]["template"]
    given = template.get("metadata") or {}
    metadata = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "labels": dict(given.get("labels") or {}),
        "annotations": dict(given.get("annotations") or {}),
        "ownerReferences": [owner_reference(kind, owner)],
    }
    if finalizers := given.get("finalizers"):
        metadata["finalizers"] = list(finalizers)
    return {**POD.type_meta, "metadata": metadata, "spec": template.get("spec") or {}}
