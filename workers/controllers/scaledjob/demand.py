"""What a reading asks for: KEDA's way from the triggers' values to numbers of Jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

from workers.api.scaledjob import Calculation
from workers.controllers.scaledjob.bounds import Bounds
from workers.snapshot import Sample


@dataclass(frozen=True, slots=True)
class Demand:
    """queue: events waiting (KEDA's scaleTo). scale: Jobs they ask for within the bounds (KEDA's maxScale).

    whole: Jobs they ask for without any cap. active: whether there is anything to do at all. by: metric names of the
    triggers whose queues these are.
    """

    queue: int
    scale: int
    whole: int
    active: bool
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Value:
    """One trigger's, or the combined, queue length and the Jobs it asks for, capped and not."""

    queue: float
    scale: float
    whole: float
    active: bool
    by: tuple[str, ...] = ()


_NOTHING = _Value(0, 0, 0, False)


def of(samples: Sequence[Sample], calculation: Calculation, bounds: Bounds) -> Demand:
    """Combine the triggers that are active and could be measured.

    calculation: KEDA's `multipleScalersCalculation`. A minimum above zero makes any ScaledJob active.
    """
    values = [_value(sample, bounds) for sample in samples if sample.active and sample.error is None]
    combined = _COMBINE[calculation](values) if values else _NOTHING
    return Demand(
        queue=ceil(combined.queue),
        scale=ceil(min(combined.scale, bounds.maximum)),
        whole=ceil(combined.whole),
        active=combined.active or bounds.minimum > 0,
        by=combined.by,
    )


def _value(sample: Sample, bounds: Bounds) -> _Value:
    jobs = sample.value / sample.target if sample.target else 0.0
    return _Value(sample.value, min(jobs, bounds.maximum), jobs, True, (sample.name,))


def _largest(values: Sequence[_Value]) -> _Value:
    """The trigger with the longest queue; an empty one does not activate (0 is not above 0)."""
    longest = max(values, key=lambda value: value.queue)
    return longest if longest.queue > 0 else _NOTHING


def _smallest(values: Sequence[_Value]) -> _Value:
    """The trigger with the shortest queue; KEDA lets any next trigger replace one that was empty."""
    chosen = _Value(0, inf, inf, False)
    for value in values:
        if chosen.queue == 0 or value.queue < chosen.queue:
            chosen = value
    return chosen


def _average(values: Sequence[_Value]) -> _Value:
    total, count = _total(values), len(values)
    return _Value(total.queue / count, total.scale / count, total.whole / count, True, total.by)


def _total(values: Sequence[_Value]) -> _Value:
    by = tuple(name for value in values for name in value.by)
    return _Value(sum(v.queue for v in values), sum(v.scale for v in values), sum(v.whole for v in values), True, by)


_COMBINE = {"max": _largest, "min": _smallest, "avg": _average, "sum": _total}
