"""How many Jobs there may be: KEDA's effective minimum and maximum."""

from dataclasses import dataclass

from workers.api.keda.scaledjob import ScaledJobSpec

#: KEDA's cap for a ScaledJob that names none.
UNSET_MAXIMUM = 100


@dataclass(frozen=True, slots=True)
class JobBounds:
    """minimum: Jobs kept alive whatever the queue says. maximum: Jobs on top of those."""

    minimum: int
    maximum: int


def effective(spec: ScaledJobSpec) -> JobBounds:
    """KEDA's rule: the minimum is taken out of a maximum that is set, but not out of the default one (its quirk).

    A minimum above the maximum is the maximum. KEDA then allows as many again on top, and so more than maxReplicaCount.
    """
    minimum, maximum = spec.min_replica_count or 0, spec.max_replica_count
    if maximum is None:
        return JobBounds(minimum, UNSET_MAXIMUM)
    return JobBounds(min(minimum, maximum), max(0, maximum - minimum))
