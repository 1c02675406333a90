"""The spec of a batch/v1 Job with the defaults of the API, and the test for Jobs that this controller manages."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from workers.api import times
from workers.api.kinds import Object

#: The value of `spec.managedBy` that gives a Job to this controller.
MANAGER = "penstock.dev/job-controller"
#: The value that gives a Job to the cluster's own controller; an absent `managedBy` means the same.
BUILT_IN = "kubernetes.io/job-controller"

#: ``managed``: only Jobs whose `spec.managedBy` is `MANAGER`. ``all``: also those of the built-in controller. A Job
#: that names any other manager is never ours.
Jobs = Literal["managed", "all"]

#: backoffLimit of a Job with a limit per index: as good as none.
UNLIMITED = 2**31 - 1
_MODES = ("NonIndexed", "Indexed")


@dataclass(frozen=True, slots=True)
class BatchJobSpec:
    """Durations are seconds. completions: None for a work queue, whose pods decide when the work is done.

    backoff_limit_per_index, max_failed_indexes: None for no limit; Indexed Jobs only. replace_only_failed: a pod that
    is being deleted is no failure yet and keeps its place until it has ended.
    """

    parallelism: int
    completions: int | None
    indexed: bool
    backoff_limit: int
    backoff_limit_per_index: int | None
    max_failed_indexes: int | None
    active_deadline: int | None
    ttl: int | None
    suspended: bool
    replace_only_failed: bool
    failure_policy: Object | None
    success_policy: Object | None
    manual_selector: bool
    template: Object

    @property
    def size(self) -> int:
        """Number of indexes of an Indexed Job."""
        return self.completions or 0

    @property
    def per_index(self) -> bool:
        """True if every index has a backoff limit of its own."""
        return self.indexed and self.backoff_limit_per_index is not None

    def deadline(self, started: datetime | None) -> datetime | None:
        """Returns the instant of activeDeadlineSeconds; None without a limit, before the start and while suspended."""
        if self.active_deadline is None or started is None or self.suspended:
            return None
        return times.after(started, times.duration(self.active_deadline))


def of(body: Object) -> BatchJobSpec:
    """Reads the spec of a Job as the API server stores it, or as a user wrote it."""
    spec = body["spec"]
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    limit, per_index = spec.get("backoffLimit"), spec.get("backoffLimitPerIndex")
    policy = spec.get("podFailurePolicy")
    return BatchJobSpec(
        parallelism=1 if parallelism is None else parallelism,
        completions=1 if completions is None and parallelism is None else completions,
        indexed=spec.get("completionMode") == "Indexed",
        backoff_limit=(6 if per_index is None else UNLIMITED) if limit is None else limit,
        backoff_limit_per_index=per_index,
        max_failed_indexes=spec.get("maxFailedIndexes"),
        active_deadline=spec.get("activeDeadlineSeconds"),
        ttl=spec.get("ttlSecondsAfterFinished"),
        suspended=bool(spec.get("suspend")),
        replace_only_failed=spec.get("podReplacementPolicy") == "Failed" or policy is not None,
        failure_policy=policy,
        success_policy=spec.get("successPolicy"),
        manual_selector=bool(spec.get("manualSelector")),
        template=spec["template"],
    )


def has_unknown_mode(body: Object) -> bool:
    """True for a completionMode of a later version of the API, which this controller does not understand."""
    return (body["spec"].get("completionMode") or "NonIndexed") not in _MODES


def managed(jobs: Jobs) -> Callable[[Object], bool]:
    """Returns the test for Jobs that this controller manages."""
    managers = {MANAGER} if jobs == "managed" else {MANAGER, BUILT_IN, None}
    return lambda body: body["spec"].get("managedBy") in managers
