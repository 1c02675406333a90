"""What is written to the metadata of KEDA's kinds: its finalizer above all.

An object that carries it is not gone before it was decided on. It is KEDA's own, so that the two can take over from
each other.
"""

from collections.abc import Mapping
from types import MappingProxyType

from workers.api.kinds import Object
from workers.reconcile.plan import Patch
from workers.reconcile.snapshot import Snapshot

_FINALIZER = "finalizer.keda.sh"


def change(snapshot: Snapshot, body: Object, metadata: Object) -> Patch:
    """Change the metadata as it was observed."""
    return Patch(snapshot.ref, {"metadata": metadata}, body["metadata"]["resourceVersion"])


def hold_on(snapshot: Snapshot, body: Object, labels: Mapping[str, str] = MappingProxyType({})) -> tuple[Patch, ...]:
    """Put the finalizer on, and these labels; nothing when they are on."""
    missing: Object = {}
    if not is_held(body):
        missing["finalizers"] = [*_finalizers(body), _FINALIZER]
    known = body["metadata"].get("labels") or {}
    if lacking := {name: value for name, value in labels.items() if known.get(name) != value}:
        missing["labels"] = lacking
    return (change(snapshot, body, missing),) if missing else ()


def is_held(body: Object) -> bool:
    """Whether the finalizer is on."""
    return _FINALIZER in _finalizers(body)


def let_go(snapshot: Snapshot, body: Object, annotations: Mapping[str, str | None] = MappingProxyType({})) -> Patch:
    """Take the finalizer off, and change these annotations with it (None: it goes)."""
    others = [finalizer for finalizer in _finalizers(body) if finalizer != _FINALIZER]
    changed = {"annotations": dict(annotations)} if annotations else {}
    return change(snapshot, body, {"finalizers": others, **changed})


def _finalizers(body: Object) -> list[str]:
    return body["metadata"].get("finalizers") or []
