"""How one object is written into the store and read from it again; workers/lua/entries.lua is the other side."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from scheduler.scripts import Arg
from workers.api.kinds import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    SECRET,
    TRIGGER_AUTHENTICATION,
    Kind,
    Object,
    Ref,
    by_manifest,
    controller_of,
    ref_of,
)
from workers.reconcile.snapshot import CachedObject

NONE = "-"
_FIELDS_BEFORE_JSON = 9
_GONE = b"-"
#: Kinds whose objects are secrets: everybody who can read the broker can read the store.
NEVER_KEPT = frozenset({SECRET.id})
#: Kinds whose objects may hold secrets.
_SECRETIVE = frozenset({TRIGGER_AUTHENTICATION.id, CLUSTER_TRIGGER_AUTHENTICATION.id})


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """One version of an object: its body as the API server answered it, or None once it is gone.

    ref, uid: of a gone object, which one; the deletion concerns the object of this uid only.
    last: of a gone object, its last state where a watch told it; its resourceVersion is the deletion's.
    """

    body: Object | None
    ref: Ref | None = None
    uid: str = ""
    last: Object | None = None

    @classmethod
    def gone(cls, ref: Ref, uid: str) -> "ObjectVersion":
        """The API server said that the object of this uid does not exist (any more)."""
        return cls(None, ref, uid)

    @classmethod
    def deleted(cls, kind: Kind, last: Object) -> "ObjectVersion":
        """A watch told that this was the object's last state."""
        return cls(None, ref_of(kind, last), last["metadata"]["uid"], last)

    @classmethod
    def left(cls, kind: Kind, answer: Object) -> "ObjectVersion":
        """What is left of an object after a write that may have been its last: the answer shows it all the same."""
        metadata = answer["metadata"]
        # Only what is being deleted has a grace period; a pod whose is not over stays for its kubelet.
        if metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers"):
            return cls.deleted(kind, answer)
        return cls(answer)


def nobody(namespace: str) -> str:
    """What stands in an owner's place for objects of this namespace that nobody controls; no uid looks like it."""
    return f"~{namespace}"


def naming(key: str) -> str:
    """What stands in an owner's place for objects that name the object of this key; no uid looks like it."""
    return f"@{key}"


def field(ref: Ref) -> str:
    """The object's field in the hash of its kind."""
    return f"{ref.namespace}/{ref.name}"


def ref(kind: Kind, name: bytes) -> Ref:
    """The address that a field stands for."""
    namespace, _, rest = name.decode().partition("/")
    return Ref(kind, namespace, rest)


def entry(of: Ref, value: bytes | None) -> CachedObject | None:
    """The entry a value of the hash stands for; None for no value."""
    if not value:
        return None
    parts = value.split(b" ", _FIELDS_BEFORE_JSON)
    json = parts[_FIELDS_BEFORE_JSON]
    return CachedObject(of, None if json == _GONE else orjson.loads(json), int(parts[1]))


def arguments(
    kind: Kind,
    change: ObjectVersion,
    watched: Callable[[Object], bool],
    *,
    adopted: bool,
    refers_to: Callable[[Object], Ref | None] | None,
) -> list[Arg]:
    """A change as workers/lua/apply.lua takes it.

    watched: whether a controller of ours reconciles this object. adopted: whether one adopts objects of this kind, so
    that those nobody controls must be found. tie: whom an object of this kind names; None if no controller asks.
    """
    state = change.body or change.last
    if state is None:
        if change.ref is None or not change.uid:
            raise ValueError("a change without a body must say whose: ref and uid")
        return [field(change.ref), 0, change.uid, NONE, NONE, NONE, NONE, NONE, "00", _GONE]
    metadata = state["metadata"]
    generation = metadata.get("generation", NONE)
    annotations = orjson.dumps(metadata.get("annotations") or {}, option=orjson.OPT_SORT_KEYS)
    flags = f"{watched(state):d}{'deletionTimestamp' in metadata:d}"
    return [
        field(ref_of(kind, state)),
        metadata["resourceVersion"],
        metadata["uid"],
        *_owner(state, adopted=adopted),
        _named(state, refers_to),
        generation,
        f"{generation}.{zlib.crc32(annotations):x}",
        flags,
        _GONE if change.body is None else orjson.dumps(_trimmed(kind, state)),
    ]


def _owner(body: Object, *, adopted: bool) -> tuple[str, str]:
    """The controller's uid, and its key if its kind is one we know."""
    reference = controller_of(body)
    namespace = body["metadata"].get("namespace", "")
    if reference is None:
        return nobody(namespace) if adopted else NONE, NONE
    kind = by_manifest(reference["apiVersion"], reference["kind"])
    if kind is None:
        return reference["uid"], NONE
    namespace = namespace if kind.namespaced else ""
    return reference["uid"], Ref(kind, namespace, reference["name"]).key


def _named(body: Object, refers_to: Callable[[Object], Ref | None] | None) -> str:
    """The key of the object that this one names. A name that users write may be no name at all; nobody has those."""
    ref = refers_to(body) if refers_to else None
    return ref.key if ref and " " not in ref.key and ref.key.isprintable() else NONE


def _trimmed(kind: Kind, body: Object) -> Object:
    """Without managedFields, which are often half of an object and no decision reads them.

    Of what may hold secrets itself nothing is kept but who it is and who uses it: everybody who can read the broker
    can read the store. An annotation may repeat the rest.
    """
    left_out = {"managedFields", "annotations"} if kind.id in _SECRETIVE else {"managedFields"}
    metadata = {name: value for name, value in body["metadata"].items() if name not in left_out}
    kept = {name: value for name, value in body.items() if name != "spec"} if kind.id in _SECRETIVE else body
    return {**kept, "metadata": metadata}
