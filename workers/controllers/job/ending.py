"""Whether a Job has come to its end, and how."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from workers.api.kinds import Object
from workers.controllers import conditions
from workers.controllers.job.pods import phase_of
from workers.controllers.job.spec import Spec


@dataclass(frozen=True, slots=True)
class Ending:
    """The condition a Job gets as soon as its end is decided, and why.

    FailureTarget leads to Failed and SuccessCriteriaMet to Complete, once no pod is left running.
    """

    target: Literal["FailureTarget", "SuccessCriteriaMet"]
    reason: str
    message: str

    @property
    def final(self) -> Literal["Failed", "Complete"]:
        """The condition that says that the Job has finished."""
        return "Failed" if self.target == "FailureTarget" else "Complete"


_BACKOFF_LIMIT = Ending("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE = Ending("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
_COMPLETIONS = Ending("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")


def decided(job: Object) -> Ending | None:
    """The end that an earlier decision wrote down; it is never taken back."""
    for target in ("SuccessCriteriaMet", "FailureTarget"):
        condition = conditions.find(job, target)
        if condition and condition.get("status") == "True":
            return Ending(target, condition.get("reason") or "", condition.get("message") or "")
    return None


def failure(
    spec: Spec, failed: int, active: Iterable[Object], deadline: datetime | None, now: datetime
) -> Ending | None:
    """Kubernetes' order: too many failed pods or restarts, then the deadline.

    failed: pods counted as failed. deadline: when the Job has run too long, None for no limit.
    """
    if failed > spec.backoff_limit or _restarted_too_often(spec, active):
        return _BACKOFF_LIMIT
    if deadline is not None and now >= deadline:
        return _DEADLINE
    return None


def success(spec: Spec, succeeded: int, active: int) -> Ending | None:
    """All completions, or for a work queue any success; in both cases with no pod left that works."""
    enough = succeeded > 0 if spec.completions is None else succeeded >= spec.completions
    return _COMPLETIONS if enough and active == 0 else None


def _restarted_too_often(spec: Spec, active: Iterable[Object]) -> bool:
    """restartPolicy OnFailure: containers restart in place, and their restarts are what the limit counts."""
    if (spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(_restarts(pod) for pod in active if phase_of(pod) in ("Pending", "Running"))
    return restarts > 0 if spec.backoff_limit == 0 else restarts >= spec.backoff_limit


def _restarts(pod: Object) -> int:
    status = pod.get("status") or {}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return sum(container.get("restartCount", 0) for container in containers)
