"""Writes to the ScaledJob itself: KEDA's finalizer, and the status."""

from collections.abc import Iterator

from workers.api.kinds import Object
from workers.controllers.keda.status import Status
from workers.controllers.scaledjob.status import Conditions, events
from workers.plan import Patch, PatchStatus, Step
from workers.snapshot import Reading, Snapshot

FINALIZER = "finalizer.keda.sh"


def hold_on(snapshot: Snapshot, body: Object) -> tuple[Step, ...]:
    """Put KEDA's finalizer on, so that the two can take over from each other."""
    finalizers = body["metadata"].get("finalizers") or []
    if FINALIZER in finalizers:
        return ()
    return (change(snapshot, body, {"finalizers": [*finalizers, FINALIZER]}),)


def without_finalizer(body: Object) -> list[str]:
    """The other finalizers."""
    return [each for each in body["metadata"].get("finalizers") or [] if each != FINALIZER]


def change(snapshot: Snapshot, body: Object, metadata: Object) -> Patch:
    """Change the metadata as it was observed."""
    return Patch(snapshot.ref, {"metadata": metadata}, body["metadata"]["resourceVersion"])


def write(
    status: Status[Conditions], before: Conditions, *, reading: Reading | None = None, anyway: bool = False
) -> Iterator[Step]:
    """Write a status that differs from the observed one, then tell of it.

    In this order a crash may lose an Event and repeats none. anyway: an earlier step writes another status.
    """
    if status.changed or anyway:
        yield PatchStatus(status.render())
        yield from events(before, status.conditions, reading.samples if reading else ())
