"""KEDA's finalizer on its kinds, and other patches of an object's own metadata.

The API server keeps an object that carries the finalizer until a decision has seen its deletion. The name is KEDA's, so
that KEDA and Penstock can take over from each other.
"""

from collections.abc import Mapping
from types import MappingProxyType

from workers.api.kinds import Object, finalizers_of
from workers.decision.plan import Patch
from workers.decision.snapshot import Snapshot

_FINALIZER = "finalizer.keda.sh"


def patch(snapshot: Snapshot, body: Object, metadata: Object) -> Patch:
    """Returns a patch of the object's metadata, fenced by the resourceVersion that was observed."""
    return Patch(snapshot.ref, {"metadata": metadata}, body["metadata"]["resourceVersion"])


def add(snapshot: Snapshot, body: Object, labels: Mapping[str, str] = MappingProxyType({})) -> tuple[Patch, ...]:
    """Returns the patch that puts the finalizer and these labels on; empty if the object carries them."""
    missing: Object = {}
    if not is_on(body):
        missing["finalizers"] = [*finalizers_of(body), _FINALIZER]
    known = body["metadata"].get("labels") or {}
    if lacking := {name: value for name, value in labels.items() if known.get(name) != value}:
        missing["labels"] = lacking
    return (patch(snapshot, body, missing),) if missing else ()


def is_on(body: Object) -> bool:
    """Returns True if the object carries the finalizer."""
    return _FINALIZER in finalizers_of(body)


def remove(snapshot: Snapshot, body: Object, annotations: Mapping[str, str | None] = MappingProxyType({})) -> Patch:
    """Returns the patch that takes the finalizer off and sets these annotations with it (None removes one)."""
    others = [finalizer for finalizer in finalizers_of(body) if finalizer != _FINALIZER]
    changed = {"annotations": dict(annotations)} if annotations else {}
    return patch(snapshot, body, {"finalizers": others, **changed})
