"""Steps that change the replicas of a target."""

from workers.api.kinds import Object
from workers.controllers.keda.scaledobject.status import targeted
from workers.reconcile.plan import PatchStatus, RecordEvent, Scale, Step
from workers.reconcile.snapshot import Scalable


def to(scale: Scalable, replicas: int, why: str) -> tuple[Step, ...]:
    """Set the target's replicas, if they are others."""
    return told(
        scale,
        replicas,
        then=RecordEvent("Normal", "SuccessfulRescale", f"New size: {replicas}; reason: {why}"),
        otherwise=RecordEvent("Warning", "FailedRescale", f"New size: {replicas}; reason: {why}; error: {{error}}"),
    )


def told(scale: Scalable, replicas: int, *, then: RecordEvent, otherwise: RecordEvent) -> tuple[Step, ...]:
    """As `to`, with Events of the caller's own."""
    if scale.ref is None or scale.replicas == replicas:
        return ()
    return (Scale(scale.ref, replicas, scale.resource_version, then, otherwise),)


def noted(observed: Object, scale: Scalable, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Steps that change the target; what it had before the first of them is written down first."""
    if not steps or "originalReplicaCount" in observed:
        return steps
    return (PatchStatus({**observed, **targeted(observed, scale)}), *steps)
