"""A Job's pods: their states, when they finished, and the order in which surplus ones are deleted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from workers.api import conditions, times
from workers.api.kinds import Object, finalizers_of
from workers.controllers.batch.job.indexes import index_of
from workers.controllers.batch.job.spec import BatchJobSpec
from workers.decision.snapshot import CachedObject

#: The finalizer that keeps a pod until its end has been counted.
TRACKING = "batch.kubernetes.io/job-tracking"

_LATEST = datetime.max.replace(tzinfo=UTC)
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class JobPods:
    """The pods that exist. active: neither finished nor being deleted. terminating: being deleted, not finished yet.

    succeeded: in phase Succeeded, deleted or not. failed: in phase Failed and, unless only failed pods are replaced,
    those being deleted. Pods stopped on purpose (suspension, surplus) are in neither: they lost their finalizers
    before they were deleted.
    """

    all: tuple[Object, ...]
    active: tuple[Object, ...]
    terminating: tuple[Object, ...]
    succeeded: tuple[Object, ...]
    failed: tuple[Object, ...]

    @property
    def ready(self) -> int:
        """Number of active pods that are ready."""
        return sum(conditions.holds(pod, "Ready") for pod in self.active)


def existing(entries: Iterable[CachedObject]) -> tuple[Object, ...]:
    """Returns the pods that exist, without tombstones."""
    return tuple(entry.body for entry in entries if entry.body is not None)


def sort(bodies: Sequence[Object], spec: BatchJobSpec) -> JobPods:
    """Sorts the pods that exist by state."""
    active: list[Object] = []
    terminating: list[Object] = []
    succeeded: list[Object] = []
    failed: list[Object] = []
    for pod in bodies:
        phase, deleting = phase_of(pod), is_deleting(pod)
        if phase == "Succeeded":
            succeeded.append(pod)
            continue
        if phase != "Failed":
            (terminating if deleting else active).append(pod)
        if phase == "Failed" or (deleting and not spec.replace_only_failed):
            failed += [pod] if is_tracked(pod) or delays_replacement(pod) else []
    return JobPods(tuple(bodies), tuple(active), tuple(terminating), tuple(succeeded), tuple(failed))


def phase_of(pod: Object) -> str:
    """Returns the pod's phase; Pending if it has none yet."""
    return (pod.get("status") or {}).get("phase") or "Pending"


def is_deleting(pod: Object) -> bool:
    """True if the pod's deletion was requested."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_tracked(pod: Object) -> bool:
    """True if the pod holds the tracking finalizer: its end has still to be counted."""
    return TRACKING in finalizers_of(pod)


def valid_index(pod: Object, spec: BatchJobSpec) -> int | None:
    """Returns the pod's completion index, or None if the Job has no such index."""
    index = index_of(pod)
    return index if index is not None and index < spec.size else None


def finish_time(pod: Object) -> datetime:
    """Returns when a pod finished.

    Kubernetes' order: the end of the last container if all ended, else the time since when it is not ready, else its
    deletion without the grace period, else its creation. Of the init containers only restartable ones count.
    """
    terminated = [(each.get("state") or {}).get("terminated") or {} for each in (*_regular(pod), *_restartable(pod))]
    ends = [each.get("finishedAt") for each in terminated]
    if ends and all(ends):
        return max(times.parse(end) for end in ends if end)
    ready = conditions.find(pod, "Ready") or {}
    if ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return times.parse(ready["lastTransitionTime"])
    return _deletion_requested(pod) or times.parse(pod["metadata"]["creationTimestamp"])


def delays_replacement(pod: Object) -> bool:
    """True if the backoff counts this failed pod: it failed by itself. A pod that was deleted is replaced at once.

    Most pods end as soon as they are told to, so one that failed in the second of its deletion counts as deleted.
    """
    requested = _deletion_requested(pod)
    return requested is None or (phase_of(pod) == "Failed" and finish_time(pod) < requested)


def rank(pod: Object) -> tuple[object, ...]:
    """Returns Kubernetes' deletion order as a sort key; the lowest is deleted first.

    Without a node, then by phase, then not ready, then ready for a shorter time, then more restarts (of one regular
    container, then of a restartable init container), then younger.
    """
    ready = conditions.find(pod, "Ready") or {}
    is_ready = ready.get("status") == "True"
    since = _instant(ready.get("lastTransitionTime")) if is_ready else _LATEST
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASES.get(phase_of(pod), 1),
        is_ready,
        -since.timestamp(),
        -max((each.get("restartCount") or 0 for each in _regular(pod)), default=0),
        -max((each.get("restartCount") or 0 for each in _restartable(pod)), default=0),
        -_instant(pod["metadata"].get("creationTimestamp")).timestamp(),
        pod["metadata"]["name"],
    )


def _deletion_requested(pod: Object) -> datetime | None:
    metadata = pod["metadata"]
    if not (deleted := metadata.get("deletionTimestamp")):
        return None
    # deletionTimestamp is the end of the grace period, not the request.
    return times.parse(deleted) - times.duration(metadata.get("deletionGracePeriodSeconds") or 0)


def _regular(pod: Object) -> list[Object]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def _restartable(pod: Object) -> list[Object]:
    """Returns the statuses of init containers that keep running beside the regular ones."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    names = {each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    return [each for each in status.get("initContainerStatuses") or () if each.get("name") in names]


def _instant(text: str | None) -> datetime:
    return times.parse(text) if text else _LATEST
