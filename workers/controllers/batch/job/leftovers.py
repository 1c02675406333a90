"""Pods of a Job that has finished or is gone: nothing may hold them any more."""

from collections.abc import Iterable

from workers.api.kinds import POD, Object, ref_of
from workers.controllers.batch.job.pods import TRACKING, is_finished, is_leaving, is_tracked
from workers.reconcile.plan import Delete, Step, Together, Unfinalize


def release(pods: Iterable[Object]) -> tuple[Step, ...]:
    """Take the tracking finalizer off all of them."""
    steps = tuple(unfinalize(pod) for pod in pods if is_tracked(pod))
    return (Together(steps),) if steps else ()


def clear(pods: Iterable[Object]) -> tuple[Step, ...]:
    """Of a Job that has finished: also stop what still works.

    Such a pod was made by a plan that died before anybody learned of the pod, and the Job ended meanwhile.
    """
    pods = tuple(pods)
    stray = tuple(
        Delete(ref_of(POD, pod), pod["metadata"]["uid"]) for pod in pods if not is_finished(pod) and not is_leaving(pod)
    )
    return (*((Together(stray),) if stray else ()), *release(pods))


def unfinalize(pod: Object) -> Unfinalize:
    """Take the tracking finalizer off this pod."""
    return Unfinalize(ref_of(POD, pod), pod["metadata"]["uid"], TRACKING)
