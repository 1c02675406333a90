"""Adoption of children that match an owner's selector, and release of those that match no longer."""

from collections.abc import Callable

from workers.api.kinds import Kind, Object, ref_of
from workers.controllers.batch.job.creation import owner_reference
from workers.controllers.batch.job.pods import existing, is_deleting, is_finished
from workers.controllers.label_selectors import selects
from workers.decision.plan import Patch, Step, Together
from workers.decision.snapshot import Snapshot


def claim(snapshot: Snapshot, kind: Kind, *, mine: Callable[[Object], bool] | None = None) -> tuple[Step, ...]:
    """Returns the steps that adopt and release children of this kind.

    mine: a condition beside the selector, for example that the name fits. The fence: an empty patch of the owner at the
    observed version goes before any adoption. If the owner was changed since, perhaps deleted with its children
    orphaned, that patch conflicts and nothing is adopted.
    """
    owner = snapshot.body
    if owner is None or is_deleting(owner):
        return ()
    selected = selects(owner["spec"]["selector"])

    def matches(body: Object) -> bool:
        return selected(body) and (mine is None or mine(body))

    loose = [body for body in existing(snapshot.unowned.get(kind.id, ())) if not is_deleting(body)]
    adopted = [_adoption(snapshot, kind, body) for body in loose if matches(body) and not is_finished(body)]
    children = existing(snapshot.children.get(kind.id, ()))
    unfinished = [body for body in children if not is_deleting(body) and not is_finished(body)]
    released = [_release(owner, kind, body) for body in unfinished if not matches(body)]
    if not adopted and not released:
        return ()
    metadata = owner["metadata"]
    fence = Patch(snapshot.ref, {"metadata": {"uid": metadata["uid"]}}, metadata["resourceVersion"])
    return (*((fence,) if adopted else ()), Together((*adopted, *released)))


def _adoption(snapshot: Snapshot, kind: Kind, body: Object) -> Patch:
    assert snapshot.body is not None
    mine = owner_reference(snapshot.ref.kind, snapshot.body)
    return _patch(kind, body, [*(body["metadata"].get("ownerReferences") or ()), mine])


def _release(owner: Object, kind: Kind, body: Object) -> Patch:
    references = body["metadata"].get("ownerReferences") or ()
    return _patch(kind, body, [each for each in references if each["uid"] != owner["metadata"]["uid"]])


def _patch(kind: Kind, body: Object, owners: list[Object]) -> Patch:
    return Patch(ref_of(kind, body), {"metadata": {"ownerReferences": owners}}, body["metadata"]["resourceVersion"])
