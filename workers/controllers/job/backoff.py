"""How long a Job waits before it replaces a failed pod."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.controllers import conditions

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


def delay(failures: int) -> timedelta:
    """The wait after this many failures in a row, at least one."""
    # Beyond 2^6 the cap holds anyway, and the power stays small.
    return min(_BASE * (1 << min(failures - 1, 6)), _CAP)


def finish_time(pod: Object) -> datetime:
    """When a pod finished.

    Kubernetes' order: the last container's end if all ended, else since when it is not ready, else its deletion
    without the grace period, else its creation.
    """
    status, metadata = pod.get("status") or {}, pod["metadata"]
    ends = [_ended(container) for container in status.get("containerStatuses") or ()]
    if ends and all(ends):
        return max(times.parse(end) for end in ends if end)
    ready = conditions.find(pod, "Ready") or {}
    if ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return times.parse(ready["lastTransitionTime"])
    if deleted := metadata.get("deletionTimestamp"):
        return times.parse(deleted) - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return times.parse(metadata["creationTimestamp"])


def _ended(container: Object) -> str | None:
    terminated = (container.get("state") or {}).get("terminated") or {}
    return terminated.get("finishedAt")
