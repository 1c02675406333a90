"""Pods without a Job: whoever holds the tracking finalizer and has nobody left to count it is let go.

A pod may also have lost its Job by mistake: if the Job that its labels name is still at work, that one is told, and
takes the pod back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from workers.api.kinds import JOB, POD, Object, Ref, controller_of
from workers.controllers import conditions
from workers.controllers.batch.job import leftovers
from workers.controllers.batch.job.ownership import Jobs, ours
from workers.controllers.batch.job.pods import is_leaving, is_tracked
from workers.controllers.selectors import selects
from workers.reconcile.controller import Controller
from workers.reconcile.plan import NOTHING, MarkObject, Plan
from workers.reconcile.snapshot import Snapshot

_LABELS = ("batch.kubernetes.io/job-name", "job-name")


def accepts(pod: Object) -> bool:
    """Pods that nobody controls and that may be a Job's, and tracked ones that a Job controls and that are leaving."""
    if controller_of(pod) is None:
        return is_tracked(pod) or (_named(pod) is not None and not is_leaving(pod))
    return is_tracked(pod) and is_leaving(pod) and _owner(pod) is not None


def relatives(pod: Object) -> tuple[Ref, ...]:
    """The Job that controls the pod, or the one its labels name."""
    ref = _owner(pod) if controller_of(pod) else _named(pod)
    return (ref,) if ref else ()


def controller(jobs: Jobs) -> Controller:
    """The controller of pods that Jobs left behind. jobs: which Jobs are ours; pods of others are left alone."""
    return Controller(kind=POD, decide=_Orphans(jobs).decide, relatives=relatives, accepts=accepts)


@dataclass(frozen=True)
class _Orphans:
    jobs: Jobs

    def decide(self, snapshot: Snapshot, _now: datetime) -> Plan:
        """Let the pod go, tell its Job of it, or leave it to those who are not us."""
        pod = snapshot.body
        if pod is None:
            return NOTHING
        job = _job(pod, snapshot.relatives)
        if job is None:
            return _release(pod)
        if not ours(self.jobs)(job):
            return NOTHING
        if controller_of(pod):
            return _release(pod) if conditions.finished(job) else NOTHING
        if _takes(job, pod):
            return Plan((MarkObject(relatives(pod)[0]),), "its Job may take it back")
        return _release(pod)


def _release(pod: Object) -> Plan:
    return Plan((leftovers.unfinalize(pod),), "no Job will count it") if is_tracked(pod) else NOTHING


def _takes(job: Object, pod: Object) -> bool:
    """Whether the Job, left to itself, will adopt the pod."""
    if conditions.finished(job) or job["metadata"].get("deletionTimestamp") or is_leaving(pod):
        return False
    selector = job["spec"].get("selector")
    return selector is not None and selects(selector)(pod)


def _job(pod: Object, jobs: Mapping[Ref, Object | None]) -> Object | None:
    """The pod's Job as it is now. One of the same name that does not control this pod is not it."""
    ref = next(iter(relatives(pod)), None)
    job = jobs.get(ref) if ref else None
    owner = controller_of(pod)
    return None if job is None or (owner and owner["uid"] != job["metadata"]["uid"]) else job


def _owner(pod: Object) -> Ref | None:
    """The batch/v1 Job that controls the pod."""
    owner = controller_of(pod)
    if owner is None or owner["kind"] != JOB.kind or owner["apiVersion"] != JOB.api_version:
        return None
    return Ref(JOB, pod["metadata"].get("namespace", ""), owner["name"])


def _named(pod: Object) -> Ref | None:
    labels = pod["metadata"].get("labels") or {}
    name = next((labels[label] for label in _LABELS if labels.get(label)), None)
    return Ref(JOB, pod["metadata"].get("namespace", ""), name) if name else None
