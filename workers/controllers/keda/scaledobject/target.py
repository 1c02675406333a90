"""The workload that a ScaledObject scales: the part of it that the decision observes, and the steps that rescale it."""

from workers.api.keda import scaledobject as manifest
from workers.api.keda.scaledobject import is_resource
from workers.api.kinds import Object
from workers.controllers.keda.scaledobject.status import target_fields
from workers.decision.controller import ScaleTarget
from workers.decision.plan import PatchStatus, RecordEvent, Scale, Step
from workers.decision.snapshot import Scalable
from workers.errors import UserError


def of(body: Object) -> ScaleTarget | None:
    """Returns the workload to observe, with its ready pods only for metrics of type Value, which are for all pods."""
    raw = body.get("spec")
    reference = raw.get("scaleTargetRef") if isinstance(raw, dict) else None
    if not isinstance(reference, dict):
        return None
    try:
        spec = manifest.parse(body).spec
    except UserError:
        ready = consumed = False
    else:
        kinds = [trigger.metric_type for trigger in spec.triggers] + [spec.modifiers.metric_type]
        ready, consumed = "Value" in kinds, any(is_resource(trigger) for trigger in spec.triggers)
    if not isinstance(reference.get("name"), str):
        return None
    return ScaleTarget(
        reference.get("apiVersion") or "apps/v1",
        reference.get("kind") or "Deployment",
        reference["name"],
        ready=ready,
        usage=consumed,
    )


def rescale(
    observed: Object, scale: Scalable, replicas: int, then: RecordEvent, otherwise: RecordEvent
) -> tuple[Step, ...]:
    """Returns the step that sets other replicas, empty if the target has as many. observed: the object's status.

    Before the very first change the status takes down the replicas that the target had.
    """
    if scale.ref is None or scale.replicas == replicas:
        return ()
    step = Scale(scale.ref, replicas, scale.resource_version, then, otherwise)
    if "originalReplicaCount" in observed:
        return (step,)
    return (PatchStatus({**observed, **target_fields(observed, scale)}), step)


def rescale_events(replicas: int, why: str) -> tuple[RecordEvent, RecordEvent]:
    """Returns an autoscaler's Events of a change: for its success and for its failure."""
    text = f"New size: {replicas}; reason: {why}"
    return (
        RecordEvent("Normal", "SuccessfulRescale", text),
        RecordEvent("Warning", "FailedRescale", f"{text}; error: {{error}}"),
    )
