"""How many Jobs there may be: KEDA's effective minimum and maximum."""

from dataclasses import dataclass

from workers.api.keda.scaledjob import Spec

#: KEDA's cap for a ScaledJob that names none.
UNSET_MAXIMUM = 100


@dataclass(frozen=True, slots=True)
class Bounds:
    """minimum: Jobs kept alive whatever the queue says. maximum: Jobs on top of those."""

    minimum: int
    maximum: int


def effective(spec: Spec) -> Bounds:
    """KEDA's rule: the minimum is taken out of a maximum that is set, but not out of the default one (its quirk).

    A minimum above the maximum is the maximum. KEDA then allows as many again on top, and so more than maxReplicaCount.
    """
    minimum, maximum = spec.min_replica_count or 0, spec.max_replica_count
    if maximum is None:
        return Bounds(minimum, UNSET_MAXIMUM)
    return Bounds(min(minimum, maximum), max(0, maximum - minimum))
