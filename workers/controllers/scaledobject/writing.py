"""Writes to the ScaledObject itself: KEDA's finalizer and label, and the status."""

from collections.abc import Iterator

from workers.api.kinds import Object
from workers.api.scaledobject import ScaledObject
from workers.controllers.keda.status import Status, described
from workers.controllers.scaledobject import status as statuses
from workers.controllers.scaledobject.status import Conditions
from workers.plan import Patch, PatchStatus, Step
from workers.snapshot import Reading, Scalable, Snapshot

FINALIZER = "finalizer.keda.sh"
#: KEDA's label on the object itself.
LABEL = "scaledobject.keda.sh/name"


def hold_on(snapshot: Snapshot, body: Object) -> tuple[Step, ...]:
    """Put KEDA's finalizer and label on, so that the two can take over from each other."""
    metadata = body["metadata"]
    finalizers = metadata.get("finalizers") or []
    change: Object = {}
    if FINALIZER not in finalizers:
        change["finalizers"] = [*finalizers, FINALIZER]
    if (metadata.get("labels") or {}).get(LABEL) != metadata["name"]:
        change["labels"] = {LABEL: metadata["name"]}
    return (Patch(snapshot.ref, {"metadata": change}, metadata["resourceVersion"]),) if change else ()


def unreadable(before: Conditions, scale: Scalable) -> Conditions:
    if scale.missing:
        return before.failing(f"spec.scaleTargetRef: {scale.error}")
    return before.failing(f"the target cannot be read: {scale.error}", "ErrorGettingCurrentReplicas")


def fields_of(scaled: ScaledObject, body: Object, scale: Scalable) -> Object:
    """What the status says whatever was measured."""
    fields = described(scaled.spec)
    if scale.error is None:
        fields |= statuses.targeted(body.get("status") or {}, scale)
    return fields


def write(status: Status[Conditions], before: Conditions, reading: Reading | None = None) -> Iterator[Step]:
    """Write a status that differs from the observed one, then tell of it: a crash may lose an Event, not repeat one."""
    if status.changed:
        yield PatchStatus(status.render())
        yield from statuses.events(before, status.conditions, reading.samples if reading else ())
