"""Cleanup behind a Job that finished or is gone: finalizers come off its pods, and its TTL deletes it."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from workers.api import conditions, times
from workers.api.kinds import POD, Object, ref_of
from workers.api.statuses import is_finished
from workers.controllers.batch.job.pods import TRACKING, is_deleting, is_tracked
from workers.controllers.batch.job.spec import BatchJobSpec
from workers.decision.plan import (
    NOTHING,
    ComeBack,
    CountMetric,
    Delete,
    Plan,
    Step,
    Together,
    Unfinalize,
)
from workers.decision.snapshot import Snapshot


def release(pods: Iterable[Object]) -> tuple[Step, ...]:
    """Takes the tracking finalizer off all of them."""
    steps = tuple(unfinalize(pod) for pod in pods if is_tracked(pod))
    return (Together(steps),) if steps else ()


def clear(pods: Iterable[Object]) -> tuple[Step, ...]:
    """Releases the pods of a finished Job and deletes those that still run.

    Such a pod was created by a plan that died before the watch showed the pod, and the Job finished meanwhile.
    """
    pods = tuple(pods)
    stray = tuple(
        Delete(ref_of(POD, pod), pod["metadata"]["uid"])
        for pod in pods
        if not is_finished(pod) and not is_deleting(pod)
    )
    return (*((Together(stray),) if stray else ()), *release(pods))


def unfinalize(pod: Object) -> Unfinalize:
    """Takes the tracking finalizer off this pod."""
    return Unfinalize(ref_of(POD, pod), pod["metadata"]["uid"], TRACKING)


def expire(snapshot: Snapshot, job: Object, spec: BatchJobSpec, end: str, now: datetime) -> Plan:
    """Deletes a Job ttlSecondsAfterFinished after its end, or comes back then. end: the finished condition's type."""
    ended = (conditions.find(job, end) or {}).get("lastTransitionTime")
    if spec.ttl is None or not ended or is_deleting(job):
        return NOTHING
    expiry = times.parse(ended) + timedelta(seconds=spec.ttl)
    if now < expiry:
        return Plan((ComeBack(expiry),), "finished, kept until its time is up")
    late = CountMetric("job_deletion_delay", (now - expiry).total_seconds())
    return Plan((Delete(snapshot.ref, job["metadata"]["uid"], "Foreground"), late), "its time after finishing is up")
