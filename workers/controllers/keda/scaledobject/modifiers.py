"""`scalingModifiers`: one metric that a formula computes from the values of all triggers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import trunc

from workers.api.keda.scaledobject import ScaledObjectFallback
from workers.controllers import rounding
from workers.controllers.keda.scaledobject.trigger_metrics import Metric, Replicas, beyond, make_up
from workers.decision.snapshot import TriggerSample
from workers.formula.parser import FormulaError
from workers.formula.scaling_modifiers import Composite

#: KEDA's name of the metric.
NAME = "composite-metric"
#: Characters of a formula that an explanation shows.
SHOWN = 200


def apply(
    composite: Composite, samples: Sequence[TriggerSample], fallback: ScaledObjectFallback | None, replicas: Replicas
) -> Metric:
    """Returns the metric; its error names the trigger or the part of the formula that has no value.

    If a trigger failed more often than the fallback's threshold, the fallback supplies the metric's value; with
    behavior scalingModifiers that trigger is ``nil`` in the formula instead.
    """
    bare = Metric(NAME, composite.kind, composite.target)
    values: dict[str, float | None] = {}
    for name, sample in zip(composite.names, samples, strict=True):
        if sample.failure is None:
            values[name] = sample.value
        elif fallback is None or not beyond(sample, fallback):
            values[name] = None
            bare = _failing(bare, f"{sample.name}: {sample.failure}")
        elif fallback.behavior == "scalingModifiers":
            values[name] = None
        else:
            return _activated(make_up(_failing(bare, sample.failure), fallback, replicas), composite)
    if bare.error is not None:
        return bare
    try:
        result = composite.formula.value(values)
    except FormulaError as error:
        return _failing(bare, str(error))
    if result is None:
        nothing = _failing(bare, "the formula's result is nil")
        if fallback is None:
            return nothing
        static = fallback.model_copy(update={"behavior": None})
        return _activated(make_up(nothing, static, replicas), composite)
    # KEDA truncates values to thousandths, and its metrics are never negative.
    value = trunc(max(0.0, min(result * 1000, rounding.LARGEST))) / 1000
    return _activated(replace(bare, value=value, how=_explanation(composite, values)), composite)


def _explanation(composite: Composite, values: Mapping[str, float | None]) -> str:
    """Returns the formula and the values of its names, for people."""
    asked = ((name, value) for name, value in values.items() if name in composite.formula.names)
    known = (f"{name} is {'nil' if value is None else f'{value:g}'}" for name, value in asked)
    text = " ".join(composite.formula.text.split())
    return (
        f"{text if len(text) <= SHOWN else f'{text[:SHOWN]} ...'}, where {', '.join(known) or 'nothing is asked for'}"
    )


def _failing(metric: Metric, reason: str) -> Metric:
    text = f"{metric.error}; {reason}" if metric.error else reason
    return Metric(metric.name, metric.kind, metric.target, error=text)


def _activated(metric: Metric, composite: Composite) -> Metric:
    return replace(metric, active=metric.error is None and metric.value > composite.activation)
