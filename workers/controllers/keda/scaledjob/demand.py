"""What a reading asks for: KEDA's way from the triggers' values to numbers of Jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from workers.api.keda.scaledjob import Activation, Calculation, ScaledJobSpec
from workers.controllers import rounding
from workers.controllers.keda.scaledjob.bounds import JobBounds
from workers.reconcile.snapshot import TriggerSample

#: Triggers whose sum is shown in full.
SHOWN = 20


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
    """Combine the triggers that are active and could be measured.

    calculation: KEDA's `multipleScalersCalculation`. weights: by metric name, default 1. activation: when they are work
    to do at all; default: when there is one. A minimum above zero makes any ScaledJob active.
    """
    active = [sample for sample in samples if sample.active and sample.error is None]
    values = [_value(sample, bounds, weights.get(sample.name, 1)) for sample in active]
    enough = _is_enough(values, len(samples), activation or Activation())
    combined = _COMBINE[calculation](values) if values and enough else _NOTHING
    return Demand(
        queue=rounding.up(combined.queue),
        scale=rounding.up(min(combined.scale, bounds.maximum)),
        whole=rounding.up(combined.whole),
        active=combined.active or bounds.minimum > 0,
        by=combined.by,
    )


def weights(scaled: ScaledJobSpec, samples: Sequence[TriggerSample]) -> Mapping[str, float]:
    """By metric name, the weights that the manifest gives by names of triggers."""
    given = scaled.strategy.weights or {}
    named = zip(samples, scaled.triggers, strict=False)
    return {sample.name: given[trigger.name] for sample, trigger in named if trigger.name and trigger.name in given}


def worked_out(
    samples: Sequence[TriggerSample],
    calculation: Calculation,
    weights: Mapping[str, float] = _EVEN,
    activation: Activation | None = None,
) -> str:
    """The sum by which several queues become one, for people; empty where there is nothing to combine."""
    active = [sample for sample in samples if sample.active and sample.error is None]
    values = [_Value(sample.value, 0, 0, True, weight=weights.get(sample.name, 1)) for sample in active]
    if not _is_enough(values, len(samples), activation or Activation()):
        return f"0, for activation asks for more than the {len(values)} of {len(samples)} triggers that are active"
    alone = len(values) == 1 and (calculation != "sum" or values[0].weight == 1)
    if not values or alone or len(values) > SHOWN:
        return ""
    if calculation in ("max", "min"):
        return f"ceil({calculation}({', '.join(f'{value.queue:.15g}' for value in values)}))"
    total = " + ".join(_weighed(value) for value in values)
    return f"ceil({total})" if calculation == "sum" else f"ceil(({total}) / {sum(value.weight for value in values):g})"


def _weighed(value: _Value) -> str:
    return f"{value.queue:.15g}" + (f" * {value.weight:g}" if value.weight != 1 else "")


def _is_enough(values: Sequence[_Value], triggers: int, activation: Activation) -> bool:
    if activation.require_all and len(values) < triggers:
        return False
    return activation.min_weight is None or sum(value.weight for value in values) >= activation.min_weight


def _value(sample: TriggerSample, bounds: JobBounds, weight: float) -> _Value:
    jobs = sample.value / sample.target if sample.target else 0.0
    return _Value(sample.value, min(jobs, bounds.maximum), jobs, True, (sample.name,), weight)


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
