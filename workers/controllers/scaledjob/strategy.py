"""KEDA's four scaling strategies: from a demand and the Jobs that are there to the number of new Jobs."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from workers.api.scaledjob import ScalingStrategy, StrategyName
from workers.controllers.scaledjob.bounds import Bounds
from workers.controllers.scaledjob.demand import Demand


@dataclass(frozen=True, slots=True)
class Jobs:
    """running: Jobs that have not finished, pending ones included. pending: those of them without a working pod."""

    running: int
    pending: int


def new_jobs(strategy: ScalingStrategy, demand: Demand, jobs: Jobs, bounds: Bounds) -> int:
    """How many Jobs KEDA would create in a poll that sees this.

    Below the minimum the queue is ignored and the minimum filled up. The minimum is a reserve on top: its Jobs are
    not expected to take work off the queue.
    """
    if jobs.running < bounds.minimum:
        return bounds.minimum - jobs.running
    if not demand.active:
        return 0
    return above_minimum(strategy, demand, Jobs(jobs.running - bounds.minimum, jobs.pending), bounds)


def above_minimum(strategy: ScalingStrategy, demand: Demand, extra: Jobs, bounds: Bounds) -> int:
    """The strategy itself, for an active demand. extra.running: the Jobs running beyond the minimum."""
    name = effective_name(strategy)
    effective = _STRATEGIES[name](strategy, demand, extra, bounds)
    return max(0, min(bounds.maximum if name == "eager" else demand.queue, effective))


def effective_name(strategy: ScalingStrategy) -> StrategyName:
    """The strategy that applies: custom without a readable percentage is the default one, silently, as in KEDA."""
    if strategy.strategy == "custom" and _percentage(strategy) is None:
        return "default"
    return strategy.strategy or "default"


def needs_pods(strategy: ScalingStrategy) -> bool:
    """Whether the strategy asks which Jobs are pending, for which the Jobs' pods must be seen."""
    return strategy.strategy in ("accurate", "eager")


def _percentage(strategy: ScalingStrategy) -> float | None:
    try:
        share = float(strategy.custom_scaling_running_job_percentage or "")
    except ValueError:
        return None
    return share if isfinite(share) else None


def _default(_: ScalingStrategy, demand: Demand, jobs: Jobs, _bounds: Bounds) -> int:
    return demand.scale - jobs.running


def _custom(strategy: ScalingStrategy, demand: Demand, jobs: Jobs, bounds: Bounds) -> int:
    """Caps the new Jobs at the maximum, not their total (KEDA's quirk)."""
    deduction = strategy.custom_scaling_queue_length_deduction or 0
    share = int(jobs.running * (_percentage(strategy) or 0.0))
    return min(demand.scale - deduction - share, bounds.maximum)


def _accurate(_: ScalingStrategy, demand: Demand, jobs: Jobs, bounds: Bounds) -> int:
    """For sources whose events leave the queue when a Job starts: only pending Jobs still have theirs in it."""
    if demand.scale + jobs.running - jobs.pending > bounds.maximum:
        return bounds.maximum - jobs.running
    return demand.scale - jobs.pending


def _eager(_: ScalingStrategy, demand: Demand, jobs: Jobs, bounds: Bounds) -> int:
    """Fills up to the maximum while anything waits; pending Jobs are subtracted twice (KEDA's quirk)."""
    return min(bounds.maximum - jobs.running - jobs.pending, demand.scale)


_STRATEGIES: dict[StrategyName, Callable[[ScalingStrategy, Demand, Jobs, Bounds], int]] = {
    "default": _default,
    "custom": _custom,
    "accurate": _accurate,
    "eager": _eager,
}
