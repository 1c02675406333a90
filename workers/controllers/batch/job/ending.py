"""Whether a Job's end is decided, and which: Kubernetes' rules in their order, the first that holds decides."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from workers.api.kinds import Object
from workers.controllers.batch.job import success_policy
from workers.controllers.batch.job.findings import Findings
from workers.controllers.batch.job.pods import phase_of
from workers.controllers.batch.job.spec import BatchJobSpec


@dataclass(frozen=True, slots=True)
class JobEnding:
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


_BACKOFF_LIMIT = JobEnding("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE = JobEnding("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
_TOO_MANY_INDEXES = JobEnding(
    "FailureTarget", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
_FAILED_INDEXES = JobEnding("FailureTarget", "FailedIndexes", "Job has failed indexes")
_COMPLETIONS = JobEnding("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")


def decided(job: Object) -> JobEnding | None:
    """The end that an earlier decision wrote down; it is never taken back."""
    targets: tuple[Literal["SuccessCriteriaMet", "FailureTarget"], ...] = ("SuccessCriteriaMet", "FailureTarget")
    for target in targets:
        for condition in (job.get("status") or {}).get("conditions") or ():
            if condition.get("type") == target and condition.get("status") == "True":
                return JobEnding(target, condition.get("reason") or "", condition.get("message") or "")
    return None


def of(spec: BatchJobSpec, findings: Findings, deadline: datetime | None, now: datetime) -> JobEnding | None:
    """The end that these findings decide, or None. deadline: when the Job has run too long, None for no limit.

    A failure goes before a success, what the failure policy says before all limits.
    """
    if message := _fatal(findings):
        return JobEnding("FailureTarget", "PodFailurePolicy", message)
    if findings.failed > spec.backoff_limit or _restarted_too_often(spec, findings):
        return _BACKOFF_LIMIT
    if deadline is not None and now >= deadline:
        return _DEADLINE
    return _by_indexes(spec, findings) or _by_completions(spec, findings)


def _fatal(findings: Findings) -> str | None:
    """The first failed pod whose failure is the whole Job's."""
    return next((each.message for each in findings.verdicts.values() if each.action == "FailJob"), None)


def _by_indexes(spec: BatchJobSpec, findings: Findings) -> JobEnding | None:
    if not spec.indexed:
        return None
    if (failed := findings.failed_indexes) is not None:
        if spec.max_failed_indexes is not None and len(failed) > spec.max_failed_indexes:
            return _TOO_MANY_INDEXES
        if failed and len(failed) + len(findings.completed) >= spec.size:
            return _FAILED_INDEXES
    if message := success_policy.met(spec.success_policy, findings.completed):
        return JobEnding("SuccessCriteriaMet", "SuccessPolicy", message)
    return None


def _by_completions(spec: BatchJobSpec, findings: Findings) -> JobEnding | None:
    """All completions, or for a work queue any success with no pod left that works."""
    if spec.completions is None:
        return _COMPLETIONS if findings.succeeded and not findings.pods.active else None
    return _COMPLETIONS if findings.succeeded >= spec.completions else None


def _restarted_too_often(spec: BatchJobSpec, findings: Findings) -> bool:
    """restartPolicy OnFailure: containers restart in place, and their restarts are what the limit counts."""
    if (spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    working = (*findings.pods.active, *findings.pods.terminating)
    restarts = _restarts(pod for pod in working if phase_of(pod) in ("Pending", "Running"))
    return restarts > 0 if spec.backoff_limit == 0 else restarts >= spec.backoff_limit


def _restarts(pods: Iterable[Object]) -> int:
    statuses = [pod.get("status") or {} for pod in pods]
    return sum(
        container.get("restartCount") or 0
        for status in statuses
        for part in ("initContainerStatuses", "containerStatuses")
        for container in status.get(part) or ()
    )
