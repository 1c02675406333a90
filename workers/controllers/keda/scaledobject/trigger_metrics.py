"""Metrics of a ScaledObject's triggers, and the replicas they propose as a HorizontalPodAutoscaler computes them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from workers.api.keda.scaledjob import TriggerSpec
from workers.api.keda.scaledobject import MetricType, ScaledObjectFallback
from workers.controllers import rounding
from workers.decision.plan import Figure
from workers.decision.snapshot import TriggerSample

#: Reason of a metric that proposes nothing for want of a target; only an external scaler's may be 0.
UNTARGETED = "the target is 0: the external scaler must answer a targetSize or targetSizeFloat above 0"

#: Default share by which a metric may miss its target without a change.
TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as an autoscaler would read it.

    kind: an AverageValue target is per replica, a Value target for all together. error: the reason that there is no
    value; value and active mean nothing then. incomplete: the reason why the value may be larger. made_up: the fallback
    supplies the value. how: the sum behind the value, for people.
    """

    name: str
    kind: MetricType
    target: float
    value: float = 0.0
    active: bool = False
    error: str | None = None
    made_up: bool = False
    how: str = ""
    incomplete: str | None = None

    @property
    def failure(self) -> str | None:
        """Returns the reason why the value, or a part of it, is missing."""
        return self.incomplete if self.error is None else self.error

    @property
    def untargeted(self) -> str | None:
        """Returns the reason why a metric with something to do proposes no replicas."""
        has_work = self.error is None and (self.active or self.value > 0)
        return UNTARGETED if has_work and self.target <= 0 else None


@dataclass(frozen=True, slots=True)
class Replicas:
    """current: replicas that the workload is set to. ready: its ready pods, None if they were not counted."""

    current: int
    ready: int | None = None


def of(
    samples: Sequence[TriggerSample],
    triggers: Sequence[TriggerSpec],
    fallback: ScaledObjectFallback | None,
    replicas: Replicas,
) -> tuple[Metric, ...]:
    """Returns one metric per trigger, in order; beyond its threshold the fallback supplies the value."""
    found = []
    for sample, trigger in zip(samples, triggers, strict=True):
        kind: MetricType = "Value" if trigger.metric_type == "Value" else "AverageValue"
        known = (sample.value, sample.active, sample.error)
        metric = Metric(sample.name, kind, sample.target, *known, incomplete=sample.incomplete)
        found.append(make_up(metric, fallback, replicas) if fallback and beyond(sample, fallback) else metric)
    return tuple(found)


def beyond(sample: TriggerSample, fallback: ScaledObjectFallback | None) -> bool:
    """Returns True if a trigger failed more often in a row than the fallback's threshold."""
    return fallback is not None and sample.failure is not None and sample.failures > fallback.failure_threshold


def make_up(metric: Metric, fallback: ScaledObjectFallback, replicas: Replicas) -> Metric:
    """Returns the metric with the value that proposes the fallback's replicas; a fallback of 0 activates nothing.

    Of an incomplete metric the fallback supplies what is missing: the larger value counts.
    """
    wanted = fallback_replicas(fallback, replicas.current)
    value = metric.target * wanted
    if metric.kind == "Value":
        if not replicas.ready and metric.incomplete is not None:
            return metric
        if not replicas.ready:
            return replace(metric, error=f"{metric.error}; no fallback without ready pods", made_up=True)
        value /= replicas.ready
    active = wanted > 0
    if metric.incomplete is not None:
        value, active = max(value, metric.value), active or metric.active
    return replace(metric, value=value, active=active, error=None, incomplete=None, made_up=True)


def fallback_replicas(fallback: ScaledObjectFallback, current: int) -> int:
    """Returns the replicas that a fallback asks for."""
    match fallback.behavior:
        case "currentReplicas":
            return current
        case "currentReplicasIfHigher":
            return max(current, fallback.replicas)
        case "currentReplicasIfLower":
            return min(current, fallback.replicas)
        case _:
            return fallback.replicas


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Shares above and below the target within which a metric changes nothing."""

    up: float = TOLERANCE
    down: float = TOLERANCE

    def covers(self, ratio: float) -> bool:
        """Returns True if a ratio of value to target is close enough to 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def propose(
    metrics: Sequence[Metric],
    replicas: Replicas,
    tolerance: Tolerance = Tolerance(),
    others: Iterable[int | None] = (),
    *,
    damped: bool = True,
) -> int | None:
    """Returns the largest proposal, None if the metrics propose nothing.

    others: proposals of pod usage. damped: pods that are not ready do not reverse the direction of a metric.

    If a metric has no value, or not all of it, its proposal could be higher, so only more replicas are proposed.
    """
    found = [*(_proposal(metric, replicas, tolerance, damped) for metric in metrics), *others]
    known = [proposal for proposal in found if proposal is not None]
    if not known:
        return None
    largest = max(known)
    partial = len(known) < len(found) or any(metric.incomplete is not None for metric in metrics)
    return None if partial and largest < replicas.current else largest


def _proposal(metric: Metric, replicas: Replicas, tolerance: Tolerance, damped: bool) -> int | None:
    if metric.error is not None or metric.target <= 0:
        return None
    if metric.kind == "AverageValue":
        whole = metric.value / metric.target
        ratio = whole / replicas.current if replicas.current else inf
        return replicas.current if tolerance.covers(ratio) else rounding.up(whole)
    ratio = metric.value / metric.target
    if not replicas.current:
        return rounding.up(ratio)
    if tolerance.covers(ratio):
        return replicas.current
    if replicas.ready is None:
        return None
    proposal = rounding.up(ratio * replicas.ready)
    if not damped:
        return proposal
    # Pods that are not ready must not turn a value above its target into fewer replicas, nor below it into more.
    return max(proposal, replicas.current) if ratio > 1 else min(proposal, replicas.current)


def figures(metrics: Sequence[Metric], current: int) -> Iterator[Figure]:
    """Yields the target's replicas and the value of every metric."""
    yield Figure("replicas of the target", current)
    for metric in metrics:
        if metric.error is not None:
            yield Figure(f"{metric.name} is not known: {metric.error}", 0)
            continue
        per = "per replica" if metric.kind == "AverageValue" else "in all"
        origin = ", from the fallback" if metric.made_up else "" if metric.active else ", not active"
        missing = f", at least: {metric.incomplete}" if metric.incomplete is not None else ""
        yield Figure(f"{metric.name} (target {metric.target:g} {per}{origin}{missing})", metric.value, metric.how)
