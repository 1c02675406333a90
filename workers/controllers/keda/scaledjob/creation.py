"""How many Jobs one reading still justifies: KEDA's number, and never more than the queue asks for."""

from dataclasses import replace

from workers.api.keda.scaledjob import ScalingStrategy
from workers.api.keda_compat import NONE, Quirks
from workers.controllers.keda.scaledjob import strategy as strategies
from workers.controllers.keda.scaledjob.bounds import JobBounds
from workers.controllers.keda.scaledjob.counting import JobCounts
from workers.controllers.keda.scaledjob.demand import Demand
from workers.controllers.keda.scaledjob.strategy import Jobs
from workers.reconcile.plan import Figure


def justified(
    strategy: ScalingStrategy, demand: Demand, counts: JobCounts, bounds: JobBounds, quirks: Quirks = NONE
) -> int:
    """How many more Jobs to create on this reading, however often it is asked.

    Where nothing ended since the reading began, and nothing was made from it yet, this is KEDA's answer. The same
    reading asked again gives only what is still missing, and room that finished Jobs left is filled as far as the
    reading certainly has events for it.
    """
    return int(worked_out(strategy, demand, counts, bounds, quirks)[-1].value)


def worked_out(
    strategy: ScalingStrategy, demand: Demand, counts: JobCounts, bounds: JobBounds, quirks: Quirks = NONE
) -> tuple[Figure, ...]:
    """As `justified`, step by step: the last figure is its answer."""
    if counts.running < bounds.minimum:
        below = bounds.minimum - counts.running
        return (Figure("missing to the minimum", below, f"{bounds.minimum} - {counts.running}"),)
    if not demand.active:
        return (Figure("nothing is active", 0),)
    if "poll-counting" in quirks:
        return _one_helping(strategy, demand, counts, bounds)
    match strategies.effective_name(strategy):
        case "default":
            # Every Job, running or ended since, may have its event in the reading.
            certain = demand.whole - (counts.running + counts.late - bounds.minimum)
            how = f"{demand.whole} - ({counts.running} + {counts.late} - {bounds.minimum})"
        case "accurate":
            # Events leave the queue when Jobs start: only Jobs not seen to have started may have theirs in it.
            certain = demand.whole - counts.unstarted
            how = f"{demand.whole} - {counts.unstarted}"
        case "custom" | "eager":
            return _one_helping(strategy, demand, counts, bounds)
    extra = strategies.beyond(Jobs(counts.running, counts.pending), bounds)
    says = strategies.worked_out(strategy, demand, extra, bounds)
    number = max(0, min(int(says[-1].value), certain))
    return (
        *says,
        Figure("events certainly without a Job", certain, how),
        Figure("to create", number, f"max(0, min({says[-1].value:g}, {certain}))"),
    )


def _one_helping(strategy: ScalingStrategy, demand: Demand, counts: JobCounts, bounds: JobBounds) -> tuple[Figure, ...]:
    """Strategies that promise no relation between Jobs and events: one helping per reading, as KEDA gives per poll."""
    before = Jobs(
        max(0, counts.running + counts.late - counts.made - bounds.minimum),
        max(0, counts.unstarted - counts.made),
    )
    says = strategies.worked_out(strategy, demand, before, bounds)
    number = max(0, int(says[-1].value) - counts.made)
    return (
        Figure("running before the reading", before.running),
        Figure("pending before the reading", before.pending),
        *says,
        Figure("to create", number, f"max(0, {says[-1].value:g} - {counts.made})"),
    )


def held_back(
    strategy: ScalingStrategy, demand: Demand, counts: JobCounts, bounds: JobBounds, quirks: Quirks = NONE
) -> bool:
    """Whether only the Jobs that ended since the reading began keep more from being created.

    Then the reading cannot tell whether work remains, and a fresh one can.
    """
    if "poll-counting" in quirks:
        return False
    settled = replace(counts, late=0, unstarted=counts.unstarted - counts.late)
    return justified(strategy, demand, settled, bounds) > justified(strategy, demand, counts, bounds)
