"""The delay before a Job replaces a failed pod, and the failures after which an index is given up."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from workers.api.kinds import Object
from workers.controllers.batch.job.indexes import count_of, ignored_count_of, index_of
from workers.controllers.batch.job.pods import finish_time
from workers.controllers.batch.job.policies import FailureAction

#: Kubernetes' pod failure backoff: 10 s, doubling, at most 10 minutes.
_BASE = timedelta(seconds=10)
_CAP = timedelta(seconds=600)


def ready_at(succeeded: Sequence[Object], failed: Sequence[Object]) -> datetime | None:
    """Returns when the next pod may be created, or None if no pod failed since the last success.

    Kubernetes keeps this record in memory and loses it with the process; here it follows from the pods' finish times.
    """
    last_success = max((finish_time(pod) for pod in succeeded), default=None)
    failures = [finish_time(pod) for pod in failed]
    if last_success is not None:
        failures = [at for at in failures if at > last_success]
    return max(failures) + delay(len(failures)) if failures else None


def index_ready_at(pod: Object) -> datetime:
    """Returns when the failed pod of an index with its own limit may be replaced. pod: the newest of its index."""
    return finish_time(pod) + delay(count_of(pod) + ignored_count_of(pod) + 1)


def delay(failures: int) -> timedelta:
    """Returns the delay after this many failures in a row (at least one)."""
    # Beyond 2^6 the cap holds anyway, and the power stays small.
    return min(_BASE * (1 << min(failures - 1, 6)), _CAP)


def newest_failed(pods: Iterable[Object]) -> dict[int, Object]:
    """Returns the newest of these failed pods by index: the replacement continues from its failure counts.

    Newest is the pod with more failures before it, then the one that finished later. It keeps its finalizer until the
    replacement exists, or the index needs none.
    """
    ordered = sorted(
        pods, key=lambda pod: (count_of(pod) + ignored_count_of(pod), finish_time(pod), pod["metadata"]["name"])
    )
    return {index: pod for pod in ordered if (index := index_of(pod)) is not None}


def failed_index(pod: Object, limit: int, verdict: FailureAction) -> bool:
    """True if the index of this failed pod gets no further pod. limit: backoffLimitPerIndex."""
    return verdict.action == "FailIndex" or (verdict.counted and count_of(pod) >= limit)
