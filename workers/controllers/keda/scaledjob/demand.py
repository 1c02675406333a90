"""Numbers of Jobs that one reading asks for, within the bounds of the spec: KEDA's way from the triggers' values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from workers.api.keda.scaledjob import Activation, Calculation, ScaledJob, ScaledJobSpec
from workers.controllers import rounding
from workers.decision.snapshot import Reading, Snapshot, TriggerSample

#: Jobs beyond the minimum of a ScaledJob that sets no maximum (KEDA's default).
UNSET_MAXIMUM = 100

#: Triggers whose sum an explanation shows in full.
SHOWN = 20

#: Trigger types whose value is of the clock: no Job lowers it.
CLOCKS = frozenset({"cron"})

#: A reading this old (microseconds) makes no more Jobs. The store remembers deleted Jobs for ten minutes; an older
#: reading could ask for Jobs a second time.
MAX_READING_AGE = 5 * 60 * 1_000_000


def reading_of(snapshot: Snapshot, scaled: ScaledJob) -> Reading | None:
    """Returns the last reading if it is of this generation's triggers and of no ledger, else None."""
    reading = snapshot.reading
    if reading is None or reading.ledger is not None:
        return None
    return reading if reading.generation == scaled.metadata.generation else None


@dataclass(frozen=True, slots=True)
class JobBounds:
    """minimum: Jobs kept alive with an empty queue. maximum: Jobs on top of those."""

    minimum: int
    maximum: int


def effective_bounds(spec: ScaledJobSpec) -> JobBounds:
    """Returns KEDA's bounds: it takes the minimum out of a maximum that is set, but not out of the default one.

    A minimum above the maximum counts as the maximum. KEDA then allows as many Jobs again on top, and so exceeds
    maxReplicaCount.
    """
    minimum, maximum = spec.min_replica_count or 0, spec.max_replica_count
    if maximum is None:
        return JobBounds(minimum, UNSET_MAXIMUM)
    return JobBounds(min(minimum, maximum), max(0, maximum - minimum))


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of the active triggers of a reading.

    queue: events waiting (KEDA's scaleTo). scale: Jobs for them within the bounds (KEDA's maxScale). whole: Jobs for
    them without a maximum. active: there is work. by: metric names of the triggers whose queues these are.
    """

    queue: int
    scale: int
    whole: int
    active: bool
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Value:
    """The queue of one trigger or of all combined, and the Jobs it asks for with and without the maximum."""

    queue: float
    scale: float
    whole: float
    active: bool
    by: tuple[str, ...] = ()
    weight: float = 1


_NOTHING = _Value(0, 0, 0, False)
_EVEN: Mapping[str, float] = {}


def of(
    samples: Sequence[TriggerSample],
    calculation: Calculation,
    bounds: JobBounds,
    weights: Mapping[str, float] = _EVEN,
    activation: Activation | None = None,
) -> Demand:
    """Returns the combined demand of the triggers that are active and could be measured.

    calculation: KEDA's `multipleScalersCalculation`. weights: by metric name, default 1. activation: the condition
    under which active triggers are work; by default one is enough. A minimum above zero makes any ScaledJob active.
    """
    active = [sample for sample in samples if sample.active and sample.error is None]
    values = [_value(sample, bounds, weights.get(sample.name, 1)) for sample in active]
    enough = _is_enough([value.weight for value in values], len(samples), activation or Activation())
    combined = _COMBINE[calculation](values) if values and enough else _NOTHING
    return Demand(
        queue=rounding.up(combined.queue),
        scale=rounding.up(min(combined.scale, bounds.maximum)),
        whole=rounding.up(combined.whole),
        active=combined.active or bounds.minimum > 0,
        by=combined.by,
    )


def is_by_clock(samples: Sequence[TriggerSample]) -> bool:
    """Returns True if every active trigger asks for Jobs by the clock, however many have ended."""
    return all(sample.type in CLOCKS for sample in samples if sample.active and sample.error is None)


def weights(scaled: ScaledJobSpec, samples: Sequence[TriggerSample]) -> Mapping[str, float]:
    """Returns by metric name the weights that the manifest gives by names of triggers."""
    given = scaled.strategy.weights or {}
    named = zip(samples, scaled.triggers, strict=False)
    return {sample.name: given[trigger.name] for sample, trigger in named if trigger.name and trigger.name in given}


def explanation(
    samples: Sequence[TriggerSample],
    calculation: Calculation,
    weights: Mapping[str, float] = _EVEN,
    activation: Activation | None = None,
) -> str:
    """Returns for people the sum that combines several queues into one; empty for a single queue."""
    active = [sample for sample in samples if sample.active and sample.error is None]
    queues = [f"{sample.value:.15g}" for sample in active]
    known = [weights.get(sample.name, 1) for sample in active]
    if not _is_enough(known, len(samples), activation or Activation()):
        return f"0, for activation asks for more than the {len(active)} of {len(samples)} triggers that are active"
    alone = len(active) == 1 and (calculation != "sum" or known[0] == 1)
    if not active or alone or len(active) > SHOWN:
        return ""
    if calculation in ("max", "min"):
        return f"ceil({calculation}({', '.join(queues)}))"
    parts = (f"{queue} * {weight:g}" if weight != 1 else queue for queue, weight in zip(queues, known, strict=True))
    total = " + ".join(parts)
    return f"ceil({total})" if calculation == "sum" else f"ceil(({total}) / {sum(known):g})"


def _is_enough(weights: Sequence[float], triggers: int, activation: Activation) -> bool:
    """weights: of the active triggers."""
    if activation.require_all and len(weights) < triggers:
        return False
    return activation.min_weight is None or sum(weights) >= activation.min_weight


def _value(sample: TriggerSample, bounds: JobBounds, weight: float) -> _Value:
    jobs = sample.value / sample.target if sample.target else 0.0
    return _Value(sample.value, min(jobs, bounds.maximum), jobs, True, (sample.name,), weight)


def _largest(values: Sequence[_Value]) -> _Value:
    """Returns the longest queue; an empty one is not active, for KEDA compares with 0."""
    longest = max(values, key=lambda value: value.queue)
    return longest if longest.queue > 0 else _NOTHING


def _smallest(values: Sequence[_Value]) -> _Value:
    """Returns the shortest queue; an empty one is replaced by the next trigger's, as in KEDA."""
    chosen = _Value(0, inf, inf, False)
    for value in values:
        if chosen.queue == 0 or value.queue < chosen.queue:
            chosen = value
    return chosen


def _average(values: Sequence[_Value]) -> _Value:
    total, count = _total(values), sum(value.weight for value in values)
    if not count:
        return _NOTHING
    return _Value(total.queue / count, total.scale / count, total.whole / count, True, total.by)


def _total(values: Sequence[_Value]) -> _Value:
    by = tuple(name for value in values for name in value.by)
    return _Value(
        sum(v.queue * v.weight for v in values),
        sum(v.scale * v.weight for v in values),
        sum(v.whole * v.weight for v in values),
        True,
        by,
    )


_COMBINE = {"max": _largest, "min": _smallest, "avg": _average, "sum": _total}
