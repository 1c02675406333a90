"""The failure counts of triggers that cannot be measured, from one reading to the next."""

from dataclasses import replace
from typing import Any

from scalers.polling.circuit_breaker import CircuitBreaker
from workers.api.keda.scaledjob import FAILURE_THRESHOLD
from workers.api.kinds import Object
from workers.decision.snapshot import Reading, TriggerSample


def threshold(body: Object) -> int | None:
    """Returns the failures in a row after which the next one starts the object's fallback; None without a fallback."""
    fallback: Any = (body.get("spec") or {}).get("fallback")
    if not isinstance(fallback, dict):
        return None
    given = fallback.get("failureThreshold")
    return given if isinstance(given, int) else FAILURE_THRESHOLD


def counted(failed: TriggerSample, previous: Reading | None, limit: int | None) -> TriggerSample:
    """Returns a failed sample with its failures in a row and the Jobs that it asked for when it was measured last.

    previous: the same object's last reading. limit: its `threshold`; counting ends beyond it, so that a source that
    stays down does not change the reading. Without one nothing is counted.
    """
    if limit is None:
        return failed
    before = _before(failed, previous)
    if before is None:
        return replace(failed, failures=1)
    return replace(failed, failures=min(before.failures, limit) + 1, last=_wanted(before))


def with_breaker(
    failed: TriggerSample, previous: Reading | None, breaker: CircuitBreaker | None, source: str, now: int
) -> TriggerSample:
    """Returns a failed sample with the state of its server's open breaker.

    breaker: the server's in this process, if it is open. Other processes have breakers of their own: the state that
    one of them reported lasts until the trigger is measured. now: µs.
    """
    before = _before(failed, previous) or failed
    if breaker is None and not before.alone_since:
        return failed
    since, until = before.alone_since or now, breaker.until if breaker else before.next_attempt
    return replace(failed, source=source, alone_since=since, next_attempt=until)


def _before(failed: TriggerSample, previous: Reading | None) -> TriggerSample | None:
    return next((sample for sample in previous.samples if sample.name == failed.name), None) if previous else None


def _wanted(before: TriggerSample) -> float | None:
    if before.error is not None:
        return before.last
    return before.value / before.target if before.active and before.target else 0.0
