"""Adoption of children that match an owner's selector, and release of those that match no longer."""

from collections.abc import Callable

from workers.api.kinds import POD, Kind, Object, finalizers_of, owner_reference, ref_of
from workers.api.statuses import is_finished
from workers.controllers.batch.job.pods import TRACKING, existing, is_deleting, is_tracked
from workers.controllers.label_selectors import selects
from workers.decision.plan import Patch, Step, Together
from workers.decision.snapshot import Snapshot


def claim(
    snapshot: Snapshot,
    kind: Kind,
    *,
    mine: Callable[[Object], bool] | None = None,
    counted: bool = False,
    remake: Callable[[Object, list[Object]], tuple[Step, ...]] | None = None,
) -> tuple[Step, ...]:
    """Returns the steps that adopt and release children of this kind.

    mine: a condition beside the selector, for example that the name fits. counted: the children are a Job's pods, whose
    ends are counted: finished ones are adopted and released too, and the tracking finalizer comes and goes with the
    owner. remake: for a kind that cannot be patched, returns the steps that make a child anew with these owners.
    The fence: an empty patch of the owner at the observed version goes before any adoption. If the owner was changed
    since, perhaps deleted with its children orphaned, that patch conflicts and nothing is adopted.
    """
    owner = snapshot.body
    if owner is None or is_deleting(owner) or (selector := owner["spec"].get("selector")) is None:
        return ()
    selected = selects(selector)

    def matches(body: Object) -> bool:
        return selected(body) and (mine is None or mine(body))

    loose = [body for body in existing(snapshot.unowned.get(kind.id, ())) if not is_deleting(body)]
    children = existing(snapshot.children.get(kind.id, ()))
    if not counted:
        # A finished pod stays with the owner that it had: nothing depends on it any more.
        loose = [body for body in loose if not is_finished(body)]
        children = tuple(body for body in children if not is_deleting(body) and not is_finished(body))
    us = owner_reference(snapshot.ref.kind, owner)
    adopted = [(body, _adoption(body, us, counted)) for body in loose if matches(body)]
    released = [(body, _release(body, us, counted)) for body in children if not matches(body)]
    if not adopted and not released:
        return ()
    metadata = owner["metadata"]
    fence = Patch(snapshot.ref, {"metadata": {"uid": metadata["uid"]}}, metadata["resourceVersion"])
    changes = (*adopted, *released)
    steps: tuple[Step, ...]
    if remake:
        steps = tuple(step for body, change in changes for step in remake(body, change["ownerReferences"]))
    else:
        steps = (Together(tuple(_patch(kind, body, change) for body, change in changes)),)
    return (*((fence,) if adopted else ()), *steps)


def track(pod: Object) -> Patch:
    """Puts the tracking finalizer on an active pod without one, so that its end is counted."""
    return _patch(POD, pod, {"finalizers": [*finalizers_of(pod), TRACKING]})


def untrack(pod: Object) -> Patch:
    """Takes the tracking finalizer off an active pod, so that its end is not counted.

    Fenced by the observed version: a pod that finished meanwhile must be counted.
    """
    return _patch(POD, pod, {"finalizers": _others(pod)})


def _adoption(body: Object, us: Object, counted: bool) -> Object:
    """Returns the changed metadata."""
    metadata: Object = {"ownerReferences": [*(body["metadata"].get("ownerReferences") or ()), us]}
    # A finished pod gets no finalizer: it may have been counted before its adoption.
    if counted and not is_tracked(body) and not is_finished(body):
        metadata["finalizers"] = [*finalizers_of(body), TRACKING]
    return metadata


def _release(body: Object, us: Object, counted: bool) -> Object:
    """Returns the changed metadata."""
    owners = [each for each in body["metadata"].get("ownerReferences") or () if each["uid"] != us["uid"]]
    return {"ownerReferences": owners, **({"finalizers": _others(body)} if counted else {})}


def _others(pod: Object) -> list[str]:
    """Returns the finalizers but the tracking one."""
    return [name for name in finalizers_of(pod) if name != TRACKING]


def _patch(kind: Kind, body: Object, metadata: Object) -> Patch:
    return Patch(ref_of(kind, body), {"metadata": metadata}, body["metadata"]["resourceVersion"])
