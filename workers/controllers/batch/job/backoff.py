"""How long a Job waits before it replaces a failed pod, and when an index has failed too often."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.controllers import conditions
from workers.controllers.batch.job import containers
from workers.controllers.batch.job.failure_policy import FailureAction
from workers.controllers.batch.job.indexes import count_of, ignored_count_of, index_of

#: Kubernetes' pod failure back-off: 10 s, doubling, at most 10 minutes.
_BASE = timedelta(seconds=10)
_CAP = timedelta(seconds=600)


def ready_at(succeeded: Sequence[Object], failed: Sequence[Object]) -> datetime | None:
    """When the next pod may be made, or None when nothing has failed since the last success.

    Kubernetes keeps this record in memory and forgets it with its process; here it follows from the pods' own
    finish times.
    """
    last_success = max((finish_time(pod) for pod in succeeded), default=None)
    failures = [finish_time(pod) for pod in failed]
    if last_success is not None:
        failures = [at for at in failures if at > last_success]
    return max(failures) + delay(len(failures)) if failures else None


def index_ready_at(pod: Object) -> datetime:
    """When the failed pod of an index that retries on its own may be replaced. pod: the newest of its index."""
    return finish_time(pod) + delay(count_of(pod) + ignored_count_of(pod) + 1)


def waited_for(pod: Object) -> bool:
    """Whether this failed pod makes the Job wait: it failed by itself. One that was deleted is replaced at once.

    One that failed in the second in which it was deleted was stopped: most pods end as soon as they are told to.
    """
    metadata = pod["metadata"]
    if not (deleted := metadata.get("deletionTimestamp")):
        return True
    asked = times.parse(deleted) - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return (pod.get("status") or {}).get("phase") == "Failed" and finish_time(pod) < asked


def delay(failures: int) -> timedelta:
    """The wait after this many failures in a row, at least one."""
    # Beyond 2^6 the cap holds anyway, and the power stays small.
    return min(_BASE * (1 << min(failures - 1, 6)), _CAP)


def newest_failed(pods: Iterable[Object]) -> dict[int, Object]:
    """Of the failed pods given, the newest of each index: it carries the counts that the replacement goes on from.

    It keeps its finalizer until the replacement is there, or the index needs none. Newest is the one that knows of
    more failures before it, then the one that finished later.
    """
    ordered = sorted(pods, key=_age)
    return {index: pod for pod in ordered if (index := index_of(pod)) is not None}


def failed_index(pod: Object, limit: int, verdict: FailureAction) -> bool:
    """Whether this failed pod is its index's last. limit: backoffLimitPerIndex; verdict: of the pod failure policy."""
    if verdict.action == "FailIndex":
        return True
    return verdict.counted and count_of(pod) >= limit


def finish_time(pod: Object) -> datetime:
    """When a pod finished.

    Kubernetes' order: the last container's end if all ended, else since when it is not ready, else its deletion
    without the grace period, else its creation. Of the init containers only those that run beside the others matter.
    """
    metadata = pod["metadata"]
    ends = [_ended(container) for container in (*containers.regular(pod), *containers.restartable(pod))]
    if ends and all(ends):
        return max(times.parse(end) for end in ends if end)
    ready = conditions.find(pod, "Ready") or {}
    if ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return times.parse(ready["lastTransitionTime"])
    if deleted := metadata.get("deletionTimestamp"):
        return times.parse(deleted) - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return times.parse(metadata["creationTimestamp"])


def _age(pod: Object) -> tuple[int, datetime, str]:
    return count_of(pod) + ignored_count_of(pod), finish_time(pod), pod["metadata"]["name"]


def _ended(container: Object) -> str | None:
    terminated = (container.get("state") or {}).get("terminated") or {}
    return terminated.get("finishedAt")
