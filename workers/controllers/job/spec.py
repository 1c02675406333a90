"""The part of a batch/v1 Job's spec that the decision uses, with the API's defaults."""

from dataclasses import dataclass

from workers.api.kinds import Object


@dataclass(frozen=True, slots=True)
class Spec:
    """Durations are seconds. completions: None for a work queue, whose pods decide when the work is done."""

    parallelism: int
    completions: int | None
    backoff_limit: int
    active_deadline: int | None
    ttl: int | None
    suspended: bool
    replace_only_failed: bool
    template: Object


def of(body: Object) -> Spec:
    """The spec of a Job as the API server stores it, or as a user wrote it."""
    spec = body["spec"]
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    limit = spec.get("backoffLimit")
    return Spec(
        parallelism=1 if parallelism is None else parallelism,
        completions=1 if completions is None and parallelism is None else completions,
        backoff_limit=6 if limit is None else limit,
        active_deadline=spec.get("activeDeadlineSeconds"),
        ttl=spec.get("ttlSecondsAfterFinished"),
        suspended=bool(spec.get("suspend")),
        replace_only_failed=spec.get("podReplacementPolicy") == "Failed",
        template=spec["template"],
    )


def unsupported(body: Object) -> str | None:
    """The first field that asks for something this controller does not do yet, or None.

    Such a Job is not run at all: running it without what it asks for would be silently wrong.
    """
    spec = body["spec"]
    if (spec.get("completionMode") or "NonIndexed") != "NonIndexed":
        return "completionMode"
    return next(
        (name for name in ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex") if spec.get(name) is not None),
        None,
    )
