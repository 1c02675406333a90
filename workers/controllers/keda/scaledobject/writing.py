"""Writes to the ScaledObject itself: KEDA's finalizer and label, and the status."""

from collections.abc import Iterator

from workers.api.keda.scaledobject import ScaledObject
from workers.api.kinds import Object
from workers.controllers.keda import metadata
from workers.controllers.keda.scaledobject import status as statuses
from workers.controllers.keda.scaledobject.status import ScaledObjectConditions
from workers.controllers.keda.status import KedaStatus, described
from workers.reconcile.plan import PatchStatus, Step
from workers.reconcile.snapshot import Reading, Scalable, Snapshot

#: KEDA's label on the object itself.
LABEL = "scaledobject.keda.sh/name"


def hold_on(snapshot: Snapshot, body: Object) -> tuple[Step, ...]:
    """Put KEDA's finalizer and label on."""
    return metadata.hold_on(snapshot, body, {LABEL: body["metadata"]["name"]})


def unreadable(before: ScaledObjectConditions, scale: Scalable) -> ScaledObjectConditions:
    if scale.missing:
        return before.failing(f"spec.scaleTargetRef: {scale.error}")
    return before.failing(f"the target cannot be read: {scale.error}", "ErrorGettingCurrentReplicas")


def fields_of(scaled: ScaledObject, body: Object, scale: Scalable) -> Object:
    """What the status says whatever was measured."""
    fields = described(scaled.spec)
    if scale.error is None:
        fields |= statuses.targeted(body.get("status") or {}, scale)
    return fields


def write(
    status: KedaStatus[ScaledObjectConditions], before: ScaledObjectConditions, reading: Reading | None = None
) -> Iterator[Step]:
    """Write a status that differs from the observed one, then tell of it: a crash may lose an Event, not repeat one."""
    if status.changed:
        yield PatchStatus(status.render())
        yield from statuses.events(before, status.conditions, reading.samples if reading else ())
