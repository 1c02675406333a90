"""What a decision went by, as figures for people."""

from collections.abc import Iterator, Sequence

from workers.controllers.keda.scaledobject.metrics import Metric
from workers.controllers.keda.scaledobject.speed import ReplicaBounds
from workers.controllers.keda.scaledobject.usage import PodUsage
from workers.reconcile.plan import Figure


def measured(metrics: Sequence[Metric], current: int) -> Iterator[Figure]:
    """What there is, and what the metrics say of it."""
    yield Figure("replicas of the target", current)
    for metric in metrics:
        if metric.error is not None:
            yield Figure(f"{metric.name} is not known: {metric.error}", 0)
            continue
        per = "per replica" if metric.kind == "AverageValue" else "in all"
        origin = ", from the fallback" if metric.made_up else "" if metric.active else ", not active"
        yield Figure(f"{metric.name} (target {metric.target:g} {per}{origin})", metric.value, metric.how)


def consumed(usages: Sequence[PodUsage]) -> Iterator[Figure]:
    """What the target's pods consume."""
    for each in usages:
        if each.error is not None:
            yield Figure(f"{each.name} is not known: {each.error}", 0)
            continue
        per = "% of the requests" if each.kind == "Utilization" else " per pod"
        measured = sum(pod.ready and pod.used is not None for pod in each.pods)
        yield Figure(f"{each.name} (target {each.target:g}{per}, {measured} of {len(each.pods)} pods)", each.value)


def steered(bounds: ReplicaBounds, proposal: int | None, current: int, allowed: int) -> Iterator[Figure]:
    """How the metrics' proposal became replicas."""
    yield Figure("minimum while the metrics decide", bounds.minimum)
    yield Figure("maximum", bounds.maximum)
    if proposal is None:
        yield Figure(
            "replicas to be", allowed, f"{current}, nothing was proposed" if allowed == current else "the bounds"
        )
        return
    wanted = max(bounds.minimum, min(proposal, bounds.maximum))
    yield Figure("proposed by the metrics", proposal)
    yield Figure("of these within the bounds", wanted, f"max({bounds.minimum}, min({proposal}, {bounds.maximum}))")
    yield Figure("replicas to be", allowed, "" if allowed == wanted else "held back by windows, policies or a pause")
