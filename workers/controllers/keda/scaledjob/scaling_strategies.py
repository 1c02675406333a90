"""Jobs that one reading justifies: KEDA's four scaling strategies, and never more Jobs than the queue asks for."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite

from workers.api import quantities
from workers.api.keda.scaledjob import ScalingStrategy, StrategyName
from workers.api.keda_compat import NONE, Quirks
from workers.controllers.keda.scaledjob.counting import JobCounts
from workers.controllers.keda.scaledjob.demand import Demand, JobBounds
from workers.decision.plan import Figure

#: The largest share of a running Job: with one Job it is more than there can be at all, with any number a finite one.
_LARGEST_SHARE = 2.0**31


@dataclass(frozen=True, slots=True)
class Jobs:
    """running: Jobs that have not finished, pending ones included. pending: those of them without a working pod."""

    running: int
    pending: int


def justified(
    strategy: ScalingStrategy, demand: Demand, counts: JobCounts, bounds: JobBounds, quirks: Quirks = NONE
) -> int:
    """Returns the number of Jobs still to create on this reading; deciding again on it creates none twice.

    This is KEDA's number if no Job ended since the reading began and the reading has made none yet. Later decisions on
    the same reading get the rest, and fill room that completed Jobs left as far as the reading certainly has events.
    Failed Jobs keep their room until the next reading, so that Jobs that fail at once come once per poll; in the
    minimum, for which nothing has to wait, so do those that completed at once.
    """
    return int(figures(strategy, demand, counts, bounds, quirks)[-1].value)


def figures(
    strategy: ScalingStrategy, demand: Demand, counts: JobCounts, bounds: JobBounds, quirks: Quirks = NONE
) -> tuple[Figure, ...]:
    """Returns the arithmetic of `justified` step by step; the last figure is its result."""
    if (taken := counts.in_minimum) < bounds.minimum:
        return (Figure("missing to the minimum", bounds.minimum - taken, f"{bounds.minimum} - {taken}"),)
    if not demand.active:
        return (Figure("nothing is active", 0),)
    if "poll-counting" in quirks:
        return _figures_per_poll(strategy, demand, counts, bounds)
    match _effective_name(strategy):
        case "default":
            # Each Job, running or ended since, may have taken an event that the reading still counts.
            certain = demand.whole - (counts.running + counts.late - bounds.minimum)
            how = f"{demand.whole} - ({counts.running} + {counts.late} - {bounds.minimum})"
        case "accurate":
            # Events leave the queue when Jobs start, so only Jobs not seen to have started may have theirs in it.
            certain = demand.whole - counts.unstarted
            how = f"{demand.whole} - {counts.unstarted}"
        case "custom" | "eager":
            return _figures_per_poll(strategy, demand, counts, bounds)
    beyond = max(0, counts.running + counts.failed - bounds.minimum)
    asked = _strategy_figures(strategy, demand, Jobs(beyond, counts.pending), bounds)
    number = max(0, min(int(asked[-1].value), certain))
    return (
        *asked,
        Figure("events certainly without a Job", certain, how),
        Figure("to create", number, f"max(0, min({asked[-1].value:g}, {certain}))"),
    )


def _figures_per_poll(
    strategy: ScalingStrategy, demand: Demand, counts: JobCounts, bounds: JobBounds
) -> tuple[Figure, ...]:
    """Returns the arithmetic of strategies that relate no Job to an event: KEDA's number once per reading."""
    before = Jobs(
        max(0, counts.running + counts.late - counts.made - bounds.minimum),
        max(0, counts.unstarted - counts.made),
    )
    asked = _strategy_figures(strategy, demand, before, bounds)
    number = max(0, int(asked[-1].value) - counts.made)
    return (
        Figure("running before the reading", before.running),
        Figure("pending before the reading", before.pending),
        *asked,
        Figure("to create", number, f"max(0, {asked[-1].value:g} - {counts.made})"),
    )


def needs_reading(
    strategy: ScalingStrategy, demand: Demand, counts: JobCounts, bounds: JobBounds, quirks: Quirks = NONE
) -> bool:
    """Returns True if only Jobs that completed since the reading began keep more from being created.

    This reading cannot tell whether those Jobs took its events; a fresh one can. Failed Jobs ask for none. Jobs that
    vanished count as completed unless others only failed: a clean-up may have deleted them that ended long before.
    """
    if "poll-counting" in quirks or (counts.failed and not counts.completed):
        return False
    # What is missing to the minimum waits for no work, and so asks for no poll.
    filled = replace(counts, running=max(counts.running, bounds.minimum))
    settled = replace(filled, late=counts.failed, unstarted=counts.unstarted - counts.late + counts.failed)
    return justified(strategy, demand, settled, bounds) > justified(strategy, demand, filled, bounds)


def needs_pods(strategy: ScalingStrategy) -> bool:
    """Returns True if the strategy counts pending Jobs, for which the decision must observe the Jobs' pods."""
    return strategy.strategy in ("accurate", "eager")


def _strategy_figures(strategy: ScalingStrategy, demand: Demand, extra: Jobs, bounds: JobBounds) -> tuple[Figure, ...]:
    """Returns KEDA's number of new Jobs for an active demand. extra: the Jobs beyond the minimum."""
    name = _effective_name(strategy)
    asked, how = _STRATEGIES[name](strategy, demand, extra, bounds)
    ceiling = bounds.maximum if name == "eager" else demand.queue
    limit = "the maximum" if name == "eager" else "the queue"
    return (
        Figure(f"strategy {name}", asked, how),
        Figure(f"not above {limit}", max(0, min(ceiling, asked)), f"max(0, min({ceiling}, {asked}))"),
    )


def _effective_name(strategy: ScalingStrategy) -> StrategyName:
    """Returns the strategy that applies; custom without a readable percentage is the default one, as in KEDA."""
    if strategy.strategy == "custom" and _percentage(strategy) is None:
        return "default"
    if strategy.strategy == "claim":
        raise ValueError("strategy claim counts no Jobs: see claiming")
    return strategy.strategy or "default"


def _percentage(strategy: ScalingStrategy) -> float | None:
    try:
        share = quantities.plain(strategy.custom_scaling_running_job_percentage or "")
    except ValueError:
        return None
    return max(-_LARGEST_SHARE, min(share, _LARGEST_SHARE)) if isfinite(share) else None


#: A number of Jobs and the sum it came from.
_Sum = tuple[int, str]


def _default(_: ScalingStrategy, demand: Demand, jobs: Jobs, _bounds: JobBounds) -> _Sum:
    return demand.scale - jobs.running, f"{demand.scale} - {jobs.running}"


def _custom(strategy: ScalingStrategy, demand: Demand, jobs: Jobs, bounds: JobBounds) -> _Sum:
    """Keeps all Jobs within the maximum: KEDA's caps the new Jobs alone, and so exceeds maxReplicaCount."""
    deduction = strategy.custom_scaling_queue_length_deduction or 0
    percentage = _percentage(strategy) or 0.0
    share = int(jobs.running * percentage)
    how = f"min({demand.scale} - {deduction} - int({jobs.running} * {percentage}), {bounds.maximum} - {jobs.running})"
    return min(demand.scale - deduction - share, bounds.maximum - jobs.running), how


def _accurate(_: ScalingStrategy, demand: Demand, jobs: Jobs, bounds: JobBounds) -> _Sum:
    """Is for sources whose events leave the queue when a Job starts: only pending Jobs still have theirs in it."""
    if demand.scale + jobs.running - jobs.pending > bounds.maximum:
        return bounds.maximum - jobs.running, f"{bounds.maximum} - {jobs.running}"
    return demand.scale - jobs.pending, f"{demand.scale} - {jobs.pending}"


def _eager(_: ScalingStrategy, demand: Demand, jobs: Jobs, bounds: JobBounds) -> _Sum:
    """Fills up to the maximum while anything waits; pending Jobs are subtracted twice (KEDA's quirk)."""
    asked = min(bounds.maximum - jobs.running - jobs.pending, demand.scale)
    return asked, f"min({bounds.maximum} - {jobs.running} - {jobs.pending}, {demand.scale})"


_STRATEGIES: dict[StrategyName, Callable[[ScalingStrategy, Demand, Jobs, JobBounds], _Sum]] = {
    "default": _default,
    "custom": _custom,
    "accurate": _accurate,
    "eager": _eager,
}
