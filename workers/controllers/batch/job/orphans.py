"""The controller of pods without a Job: the tracking finalizer comes off pods that no Job will count.

If the Job that a pod's labels name is unfinished and selects the pod, that Job is enqueued and adopts the pod again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from workers.api import conditions
from workers.api.kinds import JOB, POD, Object, Ref, controller_of
from workers.controllers.batch.job import cleanup
from workers.controllers.batch.job.pods import is_deleting, is_tracked
from workers.controllers.batch.job.spec import Jobs, managed
from workers.controllers.label_selectors import selects
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING, MarkObject, Plan
from workers.decision.snapshot import Snapshot

_LABELS = ("batch.kubernetes.io/job-name", "job-name")


def accepts(pod: Object) -> bool:
    """Accepts pods without a controller that may be a Job's, and tracked pods of a Job that are being deleted."""
    if controller_of(pod) is None:
        return is_tracked(pod) or (_named(pod) is not None and not is_deleting(pod))
    return is_tracked(pod) and is_deleting(pod) and _owner(pod) is not None


def relatives(pod: Object) -> tuple[Ref, ...]:
    """Returns the Job that controls the pod, or the one its labels name."""
    ref = _owner(pod) if controller_of(pod) else _named(pod)
    return (ref,) if ref else ()


def controller(jobs: Jobs) -> Controller:
    """Returns the controller of orphaned pods. jobs: the Jobs that are managed; pods of others stay untouched."""
    return Controller(kind=POD, decide=_Orphans(jobs).decide, relatives=relatives, accepts=accepts)


@dataclass(frozen=True)
class _Orphans:
    jobs: Jobs

    def decide(self, snapshot: Snapshot, _now: datetime) -> Plan:
        """Releases the pod, enqueues the Job that may adopt it, or does nothing."""
        pod = snapshot.body
        if pod is None:
            return NOTHING
        job = _job(pod, snapshot.relatives)
        if job is None:
            return _release(pod)
        if not managed(self.jobs)(job):
            return NOTHING
        if controller_of(pod):
            return _release(pod) if conditions.finished(job) else NOTHING
        if _adopts(job, pod):
            return Plan((MarkObject(relatives(pod)[0]),), "its Job may take it back")
        return _release(pod)


def _release(pod: Object) -> Plan:
    return Plan((cleanup.unfinalize(pod),), "no Job will count it") if is_tracked(pod) else NOTHING


def _adopts(job: Object, pod: Object) -> bool:
    """True if the Job's next reconcile adopts the pod."""
    if conditions.finished(job) or job["metadata"].get("deletionTimestamp") or is_deleting(pod):
        return False
    selector = job["spec"].get("selector")
    return selector is not None and selects(selector)(pod)


def _job(pod: Object, jobs: Mapping[Ref, Object | None]) -> Object | None:
    """Returns the pod's Job as observed; a newer Job of the same name does not control the pod."""
    ref = next(iter(relatives(pod)), None)
    job = jobs.get(ref) if ref else None
    owner = controller_of(pod)
    return None if job is None or (owner and owner["uid"] != job["metadata"]["uid"]) else job


def _owner(pod: Object) -> Ref | None:
    """Returns the batch/v1 Job that controls the pod, or None."""
    owner = controller_of(pod)
    if owner is None or owner["kind"] != JOB.kind or owner["apiVersion"] != JOB.api_version:
        return None
    return Ref(JOB, pod["metadata"].get("namespace", ""), owner["name"])


def _named(pod: Object) -> Ref | None:
    labels = pod["metadata"].get("labels") or {}
    name = next((labels[label] for label in _LABELS if labels.get(label)), None)
    return Ref(JOB, pod["metadata"].get("namespace", ""), name) if name else None
