"""Whose an object is: taking on what matches, letting go of what does not."""

from collections.abc import Callable

from workers.api.kinds import Kind, Object, ref_of
from workers.controllers.apps.pods import existing, has_ended, is_leaving, owner_reference
from workers.controllers.selectors import selects
from workers.reconcile.plan import Patch, Step, Together
from workers.reconcile.snapshot import Snapshot


def claims(snapshot: Snapshot, kind: Kind, *, mine: Callable[[Object], bool] | None = None) -> tuple[Step, ...]:
    """The steps that adopt and release children of this kind; none when every object is where it belongs.

    mine: what must hold beside the selector, for example that the name fits. Before anything is adopted the owner is
    touched at the version that was observed: if it was changed since, perhaps deleted so that its children stay, that
    fails, and nothing is tied to it again.
    """
    owner = snapshot.body
    if owner is None or is_leaving(owner):
        return ()
    selected = selects(owner["spec"]["selector"])

    def matches(body: Object) -> bool:
        return selected(body) and (mine is None or mine(body))

    unowned = [body for body in existing(snapshot.unowned.get(kind.id, ())) if not is_leaving(body)]
    adopted = [_adoption(snapshot, kind, body) for body in unowned if matches(body) and not has_ended(body)]
    children = existing(snapshot.children.get(kind.id, ()))
    held = [body for body in children if not is_leaving(body) and not has_ended(body)]
    released = [_release(owner, kind, body) for body in held if not matches(body)]
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
