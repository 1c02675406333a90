"""The end of a Job: the first of Kubernetes' rules that decides it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from workers.api import conditions
from workers.api.kinds import Object
from workers.controllers.batch.job import policies
from workers.controllers.batch.job.observed import ObservedBatchJob
from workers.controllers.batch.job.pods import phase_of
from workers.controllers.batch.job.spec import BatchJobSpec


@dataclass(frozen=True, slots=True)
class JobEnding:
    """The end of a Job: the condition set as soon as it is decided, with its reason.

    FailureTarget leads to Failed and SuccessCriteriaMet to Complete, once no pod is left running.
    """

    target: Literal["FailureTarget", "SuccessCriteriaMet"]
    reason: str
    message: str

    @property
    def final(self) -> Literal["Failed", "Complete"]:
        """The condition that the finished Job gets."""
        return "Failed" if self.target == "FailureTarget" else "Complete"


_BACKOFF_LIMIT = JobEnding("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE = JobEnding("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
_TOO_MANY_INDEXES = JobEnding(
    "FailureTarget", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
_FAILED_INDEXES = JobEnding("FailureTarget", "FailedIndexes", "Job has failed indexes")
_COMPLETIONS = JobEnding("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")


def decided(job: Object) -> JobEnding | None:
    """Returns the end that an earlier decision wrote; it is never taken back."""
    targets: tuple[Literal["SuccessCriteriaMet", "FailureTarget"], ...] = ("SuccessCriteriaMet", "FailureTarget")
    for target in targets:
        if (found := conditions.find(job, target)) and found.get("status") == "True":
            return JobEnding(target, found.get("reason") or "", found.get("message") or "")
    return None


def of(spec: BatchJobSpec, observed: ObservedBatchJob, deadline: datetime | None, now: datetime) -> JobEnding | None:
    """Returns the end that the observed pods decide, or None. deadline: None for no limit.

    A failure goes before a success, and the pod failure policy before all limits.
    """
    fatal = (each.message for each in observed.verdicts.values() if each.action == "FailJob")
    if message := next(fatal, None):
        return JobEnding("FailureTarget", "PodFailurePolicy", message)
    if observed.failed > spec.backoff_limit or _restarted_too_often(spec, observed):
        return _BACKOFF_LIMIT
    if deadline is not None and now >= deadline:
        return _DEADLINE
    return _by_indexes(spec, observed) or _by_completions(spec, observed)


def _by_indexes(spec: BatchJobSpec, observed: ObservedBatchJob) -> JobEnding | None:
    if not spec.indexed:
        return None
    if (failed := observed.failed_indexes) is not None:
        if spec.max_failed_indexes is not None and len(failed) > spec.max_failed_indexes:
            return _TOO_MANY_INDEXES
        if failed and len(failed) + len(observed.completed) >= spec.size:
            return _FAILED_INDEXES
    if message := policies.judge_success(spec.success_policy, observed.completed, spec.size):
        return JobEnding("SuccessCriteriaMet", "SuccessPolicy", message)
    return None


def _by_completions(spec: BatchJobSpec, observed: ObservedBatchJob) -> JobEnding | None:
    """All completions; for a work queue any success once no pod is active."""
    if spec.completions is None:
        return _COMPLETIONS if observed.succeeded and not observed.pods.active else None
    return _COMPLETIONS if observed.succeeded >= spec.completions else None


def _restarted_too_often(spec: BatchJobSpec, observed: ObservedBatchJob) -> bool:
    """True if restarts in place exceed backoffLimit; only restartPolicy OnFailure counts restarts."""
    if (spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    unfinished = (*observed.pods.active, *observed.pods.terminating)
    statuses = [pod.get("status") or {} for pod in unfinished if phase_of(pod) in ("Pending", "Running")]
    restarts = sum(
        container.get("restartCount") or 0
        for status in statuses
        for part in ("initContainerStatuses", "containerStatuses")
        for container in status.get(part) or ()
    )
    return restarts > 0 if spec.backoff_limit == 0 else restarts >= spec.backoff_limit
