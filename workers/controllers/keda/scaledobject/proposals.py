"""How many replicas the metrics ask for: a HorizontalPodAutoscaler's arithmetic, without one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from workers.controllers import rounding
from workers.controllers.keda.scaledobject.metrics import Metric, Replicas

#: Share by which a metric may miss its target without a change.
TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Shares above and below the target that change nothing."""

    up: float = TOLERANCE
    down: float = TOLERANCE

    def covers(self, ratio: float) -> bool:
        """Whether a ratio of value to target is close enough to 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def propose(
    metrics: Sequence[Metric],
    replicas: Replicas,
    tolerance: Tolerance = Tolerance(),
    others: Iterable[int | None] = (),
) -> int | None:
    """The largest proposal; None when the metrics propose nothing. others: what metrics of another sort propose.

    With a metric that has no value only more replicas can be proposed: what it would ask for is not known.
    """
    found = [*(_proposal(metric, replicas, tolerance) for metric in metrics), *others]
    known = [proposal for proposal in found if proposal is not None]
    if not known:
        return None
    largest = max(known)
    return None if len(known) < len(found) and largest < replicas.current else largest


def _proposal(metric: Metric, replicas: Replicas, tolerance: Tolerance) -> int | None:
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
    # Pods that are not ready yet must not turn a value above its target into fewer replicas, nor below it into more.
    return max(proposal, replicas.current) if ratio > 1 else min(proposal, replicas.current)
