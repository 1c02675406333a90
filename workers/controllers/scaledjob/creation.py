"""How many Jobs one reading still justifies: KEDA's number, and never more than the queue asks for."""

from dataclasses import replace

from workers.api.scaledjob import ScalingStrategy
from workers.controllers.scaledjob import strategy as strategies
from workers.controllers.scaledjob.bounds import Bounds
from workers.controllers.scaledjob.counting import Counts
from workers.controllers.scaledjob.demand import Demand
from workers.controllers.scaledjob.strategy import Jobs


def justified(strategy: ScalingStrategy, demand: Demand, counts: Counts, bounds: Bounds) -> int:
    """How many more Jobs to create on this reading, however often it is asked.

    Where nothing ended since the reading began, and nothing was made from it yet, this is KEDA's answer. The same
    reading asked again gives only what is still missing, and room that finished Jobs left is filled as far as the
    reading certainly has events for it.
    """
    if counts.running < bounds.minimum:
        return bounds.minimum - counts.running
    if not demand.active:
        return 0
    now = Jobs(counts.running, counts.pending)
    match strategies.effective_name(strategy):
        case "default":
            # Every Job, running or ended since, may have its event in the reading.
            certain = demand.whole - (counts.running + counts.late - bounds.minimum)
        case "accurate":
            # Events leave the queue when Jobs start: only Jobs not seen to have started may have theirs in it.
            certain = demand.whole - counts.unstarted
        case "custom" | "eager":
            # These promise no relation between Jobs and events: one helping per reading, as KEDA gives per poll.
            before = Jobs(
                max(0, counts.running + counts.late - counts.made - bounds.minimum),
                max(0, counts.unstarted - counts.made),
            )
            return max(0, strategies.above_minimum(strategy, demand, before, bounds) - counts.made)
    return max(0, min(strategies.new_jobs(strategy, demand, now, bounds), certain))


def held_back(strategy: ScalingStrategy, demand: Demand, counts: Counts, bounds: Bounds) -> bool:
    """Whether only the Jobs that ended since the reading began keep more from being created.

    Then the reading cannot tell whether work remains, and a fresh one can.
    """
    settled = replace(counts, late=0, unstarted=counts.unstarted - counts.late)
    return justified(strategy, demand, settled, bounds) > justified(strategy, demand, counts, bounds)
