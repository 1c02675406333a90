"""KEDA's four scaling strategies: from a demand and the Jobs that are there to the number of new Jobs."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from workers.api.keda.scaledjob import ScalingStrategy, StrategyName
from workers.controllers.keda.scaledjob.bounds import JobBounds
from workers.controllers.keda.scaledjob.demand import Demand
from workers.reconcile.plan import Figure


@dataclass(frozen=True, slots=True)
class Jobs:
    """running: Jobs that have not finished, pending ones included. pending: those of them without a working pod."""

    running: int
    pending: int


def beyond(jobs: Jobs, bounds: JobBounds) -> Jobs:
    """The Jobs beyond the minimum, which is a reserve."""
    return Jobs(jobs.running - bounds.minimum, jobs.pending)


def worked_out(strategy: ScalingStrategy, demand: Demand, extra: Jobs, bounds: JobBounds) -> tuple[Figure, Figure]:
    """What the strategy says of an active demand, and how many new Jobs are left of that.

    extra.running: the Jobs running beyond the minimum.
    """
    name = effective_name(strategy)
    says, how = _STRATEGIES[name](strategy, demand, extra, bounds)
    ceiling = bounds.maximum if name == "eager" else demand.queue
    what = "the maximum" if name == "eager" else "the queue"
    return (
        Figure(f"strategy {name}", says, how),
        Figure(f"not above {what}", max(0, min(ceiling, says)), f"max(0, min({ceiling}, {says}))"),
    )


def effective_name(strategy: ScalingStrategy) -> StrategyName:
    """The strategy that applies: custom without a readable percentage is the default one, silently, as in KEDA."""
    if strategy.strategy == "custom" and _percentage(strategy) is None:
        return "default"
    if strategy.strategy == "claim":
        raise ValueError("claims are not counted: see claiming")
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


#: A number and the sum it came from.
_Sum = tuple[int, str]


def _default(_: ScalingStrategy, demand: Demand, jobs: Jobs, _bounds: JobBounds) -> _Sum:
    return demand.scale - jobs.running, f"{demand.scale} - {jobs.running}"


def _custom(strategy: ScalingStrategy, demand: Demand, jobs: Jobs, bounds: JobBounds) -> _Sum:
    """Within the maximum, also in total: KEDA's caps the new Jobs alone, and so makes more than maxReplicaCount."""
    deduction = strategy.custom_scaling_queue_length_deduction or 0
    percentage = _percentage(strategy) or 0.0
    share = int(jobs.running * percentage)
    how = f"min({demand.scale} - {deduction} - int({jobs.running} * {percentage}), {bounds.maximum} - {jobs.running})"
    return min(demand.scale - deduction - share, bounds.maximum - jobs.running), how


def _accurate(_: ScalingStrategy, demand: Demand, jobs: Jobs, bounds: JobBounds) -> _Sum:
    """For sources whose events leave the queue when a Job starts: only pending Jobs still have theirs in it."""
    if demand.scale + jobs.running - jobs.pending > bounds.maximum:
        return bounds.maximum - jobs.running, f"{bounds.maximum} - {jobs.running}"
    return demand.scale - jobs.pending, f"{demand.scale} - {jobs.pending}"


def _eager(_: ScalingStrategy, demand: Demand, jobs: Jobs, bounds: JobBounds) -> _Sum:
    """Fills up to the maximum while anything waits; pending Jobs are subtracted twice (KEDA's quirk)."""
    says = min(bounds.maximum - jobs.running - jobs.pending, demand.scale)
    return says, f"min({bounds.maximum} - {jobs.running} - {jobs.pending}, {demand.scale})"


_STRATEGIES: dict[StrategyName, Callable[[ScalingStrategy, Demand, Jobs, JobBounds], _Sum]] = {
    "default": _default,
    "custom": _custom,
    "accurate": _accurate,
    "eager": _eager,
}
