"""The fallback: Jobs kept alive while triggers cannot be measured, if the manifest asks for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.api.keda.scaledjob import FAILURE_THRESHOLD, ScaledJobSpec
from workers.controllers import rounding
from workers.controllers.keda.scaledjob.counting import JobCounts
from workers.controllers.keda.scaledjob.demand import JobBounds
from workers.decision.plan import Figure
from workers.decision.snapshot import TriggerSample


@dataclass(frozen=True, slots=True)
class FallbackDecision:
    """A fallback in force.

    floor: Jobs to keep alive beyond the minimum. failing: metric names of the failing triggers. unmeasured: those of
    them that were never measured, so that behavior hold has no value for them.
    """

    floor: int
    failing: tuple[str, ...]
    unmeasured: tuple[str, ...] = ()


def in_force(spec: ScaledJobSpec, samples: Sequence[TriggerSample], bounds: JobBounds) -> FallbackDecision | None:
    """Returns the fallback if a trigger failed more often in a row than the threshold allows, else None."""
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


def figures(fallback: FallbackDecision, number: int, counts: JobCounts, bounds: JobBounds) -> tuple[Figure, ...]:
    """Returns the Jobs to create at least. number: what the triggers that work ask for.

    The floor holds with every strategy; Jobs alive beyond the minimum count towards it. Jobs that ended since the
    reading began are replaced with the next reading, so that Jobs that fail at once come once per poll.
    """
    missing = fallback.floor - (counts.running - bounds.minimum) - counts.late
    how = f"{fallback.floor} - ({counts.running} - {bounds.minimum}) - {counts.late}"
    return (
        Figure("the fallback keeps alive", fallback.floor),
        Figure("missing to that", missing, how),
        Figure("to create", max(number, missing), f"max({number}, {missing})"),
    )
