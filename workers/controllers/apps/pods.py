"""Pods of apps/v1 objects: what state they are in, and what they are made from."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import POD, Kind, Object
from workers.controllers import conditions
from workers.reconcile.snapshot import CachedObject

#: Phases a pod never leaves.
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class OwnedPods:
    """Pods that exist. active: neither ended nor being deleted. terminating: being deleted and not ended yet.

    Pods that have ended (evicted ones, for example) count for nothing; they stay for people to look at.
    """

    active: tuple[Object, ...]
    terminating: tuple[Object, ...]


def existing(entries: Iterable[CachedObject]) -> tuple[Object, ...]:
    """The objects that are there; tombstones are left out."""
    return tuple(entry.body for entry in entries if entry.body is not None)


def is_leaving(body: Object) -> bool:
    """Whether the object is being deleted."""
    return bool(body["metadata"].get("deletionTimestamp"))


def has_ended(pod: Object) -> bool:
    """Whether the pod has come to its end."""
    return (pod.get("status") or {}).get("phase") in _ENDED


def sort(bodies: Iterable[Object]) -> OwnedPods:
    """Tell the pods apart."""
    left = [pod for pod in bodies if not has_ended(pod)]
    return OwnedPods(tuple(pod for pod in left if not is_leaving(pod)), tuple(pod for pod in left if is_leaving(pod)))


def is_ready(pod: Object) -> bool:
    """Whether the pod says that it serves."""
    return conditions.holds(pod, "Ready")


def available_at(pod: Object, least: int) -> datetime | None:
    """When the pod has been ready for so many seconds; None for one that is not ready."""
    condition = conditions.find(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    since = condition.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"]
    return times.parse(since) + timedelta(seconds=least)


def is_available(pod: Object, least: int, now: datetime) -> bool:
    """Whether the pod has been ready for so many seconds."""
    at = available_at(pod, least)
    return at is not None and (least == 0 or at <= now)


def made(kind: Kind, owner: Object, name: str) -> Object:
    """A new pod from the template of its owner, which is of this kind."""
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
    return {"apiVersion": POD.api_version, "kind": POD.kind, "metadata": metadata, "spec": template.get("spec") or {}}


def owner_reference(kind: Kind, owner: Object) -> Object:
    """The reference by which an object belongs to its controller."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
