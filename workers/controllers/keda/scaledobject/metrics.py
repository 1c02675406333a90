"""What the triggers of a ScaledObject say, as metrics: measured, made up by a fallback, or unknown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workers.api.keda.scaledjob import TriggerSpec
from workers.api.keda.scaledobject import MetricType, ScaledObjectFallback
from workers.reconcile.snapshot import TriggerSample


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, as an autoscaler would be given it.

    kind: AverageValue targets are per replica; Value targets are for all together. error: why it has no value; value
    and active mean nothing then. made_up: by a fallback, after more failures than it bears. how: what the
    value was worked out from, for people.
    """

    name: str
    kind: MetricType
    target: float
    value: float = 0.0
    active: bool = False
    error: str | None = None
    made_up: bool = False
    how: str = ""


@dataclass(frozen=True, slots=True)
class Replicas:
    """current: how many the workload is to have. ready: its pods that are, None where nobody counted."""

    current: int
    ready: int | None = None


def of(
    samples: Sequence[TriggerSample],
    triggers: Sequence[TriggerSpec],
    fallback: ScaledObjectFallback | None,
    replicas: Replicas,
) -> tuple[Metric, ...]:
    """One metric per trigger, in their order; beyond the threshold of the fallback a value is made up."""
    found = []
    for sample, trigger in zip(samples, triggers, strict=True):
        kind: MetricType = "Value" if trigger.metric_type == "Value" else "AverageValue"
        metric = Metric(sample.name, kind, sample.target, sample.value, sample.active, sample.error)
        found.append(make_up(metric, fallback, replicas) if fallback and beyond(sample, fallback) else metric)
    return tuple(found)


def beyond(sample: TriggerSample, fallback: ScaledObjectFallback | None) -> bool:
    """Whether a trigger failed more often in a row than the fallback bears."""
    return fallback is not None and sample.error is not None and sample.failures > fallback.failure_threshold


def make_up(metric: Metric, fallback: ScaledObjectFallback, replicas: Replicas) -> Metric:
    """The value that makes an autoscaler want the fallback's replicas; a fallback of none activates nothing."""
    wanted = standing_in(fallback, replicas.current)
    value = metric.target * wanted
    if metric.kind == "Value":
        if not replicas.ready:
            return replace(metric, error=f"{metric.error}; no fallback without ready pods", made_up=True)
        value /= replicas.ready
    return replace(metric, value=value, active=wanted > 0, error=None, made_up=True)


def standing_in(fallback: ScaledObjectFallback, current: int) -> int:
    """The replicas a fallback asks for."""
    match fallback.behavior:
        case "currentReplicas":
            return current
        case "currentReplicasIfHigher":
            return max(current, fallback.replicas)
        case "currentReplicasIfLower":
            return min(current, fallback.replicas)
        case _:
            return fallback.replicas
