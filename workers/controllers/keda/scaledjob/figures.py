"""What a decision went by, as figures for people; the sums themselves come from the rules that made them."""

from collections.abc import Iterator

from workers.controllers.keda.scaledjob.bounds import JobBounds
from workers.controllers.keda.scaledjob.counting import JobCounts
from workers.controllers.keda.scaledjob.demand import Demand
from workers.reconcile.plan import Figure
from workers.reconcile.snapshot import Reading


def asked(reading: Reading, demand: Demand, bounds: JobBounds, combined: str) -> Iterator[Figure]:
    """What the triggers measured and what that asks for. combined: how several queues became one."""
    for sample in reading.samples:
        if sample.error is not None:
            yield Figure(f"{sample.name} is not known: {sample.error}", 0)
        else:
            active = "" if sample.active else ", not active"
            yield Figure(f"{sample.name} waiting ({sample.target:g} per Job{active})", sample.value)
    yield Figure("minimum", bounds.minimum)
    yield Figure("maximum beyond it", bounds.maximum)
    yield Figure("queue", demand.queue, combined)
    yield Figure("Jobs the queue asks for", demand.whole)
    yield Figure("of these within the maximum (maxScale)", demand.scale)


def counted(counts: JobCounts) -> Iterator[Figure]:
    """The Jobs that are there."""
    yield Figure("Jobs not finished", counts.running)
    yield Figure("of these pending", counts.pending)
    yield Figure("ended since the reading began", counts.late)
    yield Figure("made by this reading", counts.made)
