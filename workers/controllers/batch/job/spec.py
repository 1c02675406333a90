"""The part of a batch/v1 Job's spec that the decision uses, with the API's defaults."""

from dataclasses import dataclass

from workers.api.kinds import Object

#: backoffLimit where every index has its own: as good as none.
UNLIMITED = 2**31 - 1
_MODES = ("NonIndexed", "Indexed")


@dataclass(frozen=True, slots=True)
class BatchJobSpec:
    """Durations are seconds. completions: None for a work queue, whose pods decide when the work is done.

    backoff_limit_per_index, max_failed_indexes: None for no limit; only of Indexed Jobs. replace_only_failed: a pod
    that is being deleted is no failure yet and keeps its place until it has ended.
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
    selector: Object | None
    manual_selector: bool
    template: Object

    @property
    def size(self) -> int:
        """How many indexes an Indexed Job has."""
        return self.completions or 0

    @property
    def per_index(self) -> bool:
        """Whether every index retries on its own."""
        return self.indexed and self.backoff_limit_per_index is not None


def of(body: Object) -> BatchJobSpec:
    """The spec of a Job as the API server stores it, or as a user wrote it."""
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
        selector=spec.get("selector"),
        manual_selector=bool(spec.get("manualSelector")),
        template=spec["template"],
    )


def unknown_mode(body: Object) -> str | None:
    """A completionMode of a later version of the API, which this controller does not understand; or None."""
    mode = body["spec"].get("completionMode") or "NonIndexed"
    return None if mode in _MODES else str(mode)
