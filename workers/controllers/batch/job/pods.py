"""A Job's pods, sorted by what they mean for it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workers.api.kinds import Object
from workers.controllers import conditions
from workers.controllers.batch.job import backoff
from workers.controllers.batch.job.indexes import index_of
from workers.controllers.batch.job.spec import BatchJobSpec
from workers.reconcile.snapshot import CachedObject

#: Keeps a pod there until its end has been counted.
TRACKING = "batch.kubernetes.io/job-tracking"


@dataclass(frozen=True, slots=True)
class JobPods:
    """The pods that exist. active: neither finished nor being deleted. terminating: being deleted, not finished yet.

    succeeded: whatever else happens to them. failed: those that failed and, unless only failed pods are replaced,
    those being deleted, which are as good as failed. A pod that was stopped on purpose (suspended, one too many) is
    not among them: it lost its finalizer before it was deleted.
    """

    all: tuple[Object, ...]
    active: tuple[Object, ...]
    terminating: tuple[Object, ...]
    succeeded: tuple[Object, ...]
    failed: tuple[Object, ...]

    @property
    def ready(self) -> int:
        """How many active pods are ready."""
        return sum(conditions.holds(pod, "Ready") for pod in self.active)


def existing(entries: Iterable[CachedObject]) -> tuple[Object, ...]:
    """The pods that are there; the tombstones are left out."""
    return tuple(entry.body for entry in entries if entry.body is not None)


def sort(bodies: Sequence[Object], spec: BatchJobSpec) -> JobPods:
    """Sort the pods that exist."""
    active: list[Object] = []
    terminating: list[Object] = []
    succeeded: list[Object] = []
    failed: list[Object] = []
    for pod in bodies:
        phase, leaving = phase_of(pod), is_leaving(pod)
        if phase == "Succeeded":
            succeeded.append(pod)
            continue
        if phase != "Failed":
            (terminating if leaving else active).append(pod)
        if phase == "Failed" or (leaving and not spec.replace_only_failed):
            failed += [pod] if is_tracked(pod) or backoff.waited_for(pod) else []
    return JobPods(tuple(bodies), tuple(active), tuple(terminating), tuple(succeeded), tuple(failed))


def phase_of(pod: Object) -> str:
    """The pod's phase; one that has none yet is Pending."""
    return (pod.get("status") or {}).get("phase") or "Pending"


def is_leaving(pod: Object) -> bool:
    """Whether the pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_finished(pod: Object) -> bool:
    """Whether the pod has come to its end."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_tracked(pod: Object) -> bool:
    """Whether the pod's end has still to be counted: it holds the finalizer."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def place(pod: Object, spec: BatchJobSpec) -> int | None:
    """The index this pod works on; None for a pod of no index of the Job."""
    index = index_of(pod)
    return index if index is not None and index < spec.size else None
