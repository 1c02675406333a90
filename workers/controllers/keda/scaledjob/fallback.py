"""What is kept alive while triggers cannot be measured, where the manifest asks for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.api.keda.scaledjob import FAILURE_THRESHOLD, ScaledJobSpec
from workers.controllers import rounding
from workers.controllers.keda.scaledjob.bounds import JobBounds
from workers.controllers.keda.scaledjob.counting import JobCounts
from workers.reconcile.plan import Figure
from workers.reconcile.snapshot import TriggerSample


@dataclass(frozen=True, slots=True)
class FallbackDecision:
    """A fallback in force.

    floor: Jobs to keep alive beyond the minimum. failing: metric names of the triggers it is for. unmeasured: those of
    them that never were measured, so that there is nothing to hold.
    """

    floor: int
    failing: tuple[str, ...]
    unmeasured: tuple[str, ...] = ()


def in_force(spec: ScaledJobSpec, samples: Sequence[TriggerSample], bounds: JobBounds) -> FallbackDecision | None:
    """The fallback once a trigger has failed more often in a row than the threshold allows; None before, or without."""
    asked = spec.fallback
    if asked is None or asked.behavior == "none":
        return None
    allowed = FAILURE_THRESHOLD if asked.failure_threshold is None else asked.failure_threshold
    failing = [sample for sample in samples if sample.error is not None and sample.failures > allowed]
    if not failing:
        return None
    names = tuple(sample.name for sample in failing)
    if asked.behavior == "hold":
        floor = max(rounding.up(sample.last or 0.0) for sample in failing)
        unmeasured = tuple(sample.name for sample in failing if sample.last is None)
        return FallbackDecision(min(floor, bounds.maximum), names, unmeasured)
    return FallbackDecision(min(asked.replicas or 0, bounds.maximum), names)


def worked_out(fallback: FallbackDecision, number: int, counts: JobCounts, bounds: JobBounds) -> tuple[Figure, ...]:
    """How many Jobs to create at least, given what the triggers that work ask for.

    A floor under their number, whatever the strategy: what is alive beyond the minimum counts towards it. Jobs that
    ended since the reading began are replaced with the next reading, so that Jobs that fail at once come once per poll.
    """
    missing = fallback.floor - (counts.running - bounds.minimum) - counts.late
    how = f"{fallback.floor} - ({counts.running} - {bounds.minimum}) - {counts.late}"
    return (
        Figure("the fallback keeps alive", fallback.floor),
        Figure("missing to that", missing, how),
        Figure("to create", max(number, missing), f"max({number}, {missing})"),
    )
