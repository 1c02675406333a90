"""What is remembered of triggers that cannot be measured."""

from dataclasses import replace
from typing import Any

from scalers.polling.circuit_breaker import CircuitBreaker
from workers.api.keda.scaledjob import FAILURE_THRESHOLD
from workers.api.kinds import Object
from workers.reconcile.snapshot import Reading, TriggerSample


def threshold(body: Object) -> int | None:
    """After how many failures in a row the object's fallback begins with the next, or None if it has none."""
    fallback: Any = (body.get("spec") or {}).get("fallback")
    if not isinstance(fallback, dict):
        return None
    given = fallback.get("failureThreshold")
    return given if isinstance(given, int) else FAILURE_THRESHOLD


def remembered(failed: TriggerSample, previous: Reading | None, limit: int | None) -> TriggerSample:
    """A failed sample with its failures so far, and what it asked for when it was measured last.

    previous: the same object's last reading. limit: its `threshold`; counting ends beyond it, so that a source that
    stays away is no news. Without one nothing is remembered.
    """
    if limit is None:
        return failed
    before = _before(failed, previous)
    if before is None:
        return replace(failed, failures=1)
    return replace(failed, failures=min(before.failures, limit) + 1, last=_asked_for(before))


def alone(
    failed: TriggerSample, previous: Reading | None, breaker: CircuitBreaker | None, source: str, now: int
) -> TriggerSample:
    """A failed sample with what is told of a server that is left alone.

    breaker: the server's in this process, if it is open. Other processes have their own: what began in one of them
    goes on until the trigger is measured. now: µs.
    """
    before = _before(failed, previous) or failed
    if breaker is None and not before.alone_since:
        return failed
    since, until = before.alone_since or now, breaker.until if breaker else before.next_attempt
    return replace(failed, source=source, alone_since=since, next_attempt=until)


def _before(failed: TriggerSample, previous: Reading | None) -> TriggerSample | None:
    return next((sample for sample in previous.samples if sample.name == failed.name), None) if previous else None


def _asked_for(before: TriggerSample) -> float | None:
    if before.error is not None:
        return before.last
    return before.value / before.target if before.active and before.target else 0.0
