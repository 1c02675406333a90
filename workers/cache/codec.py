"""The codec of stored objects: header and JSON, as workers/lua/entries.lua reads and writes them.

Scripts do not read the JSON, and here alone large JSON is compressed.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat

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
from workers.decision.snapshot import CachedObject

NONE = "-"
_FIELDS_BEFORE_JSON = 9
_GONE = b"-"
#: JSON of more bytes is compressed. Scripts read the header of an object with each change of a child, and copy all of
#: its value for that: a flow of a thousand entries has 386 KB of JSON, and a fifteenth of that like this.
LARGE = 16 << 10
#: Compressed JSON is `z<bytes of the JSON> <zlib's>z`; JSON stands between braces.
_COMPRESSED = b"z"
#: Of zlib's levels the fastest: the usual one takes twice as long, and saves a fifth of what is left.
_LEVEL = 1
#: Kinds that are never stored: access to the broker would give access to them.
NEVER_STORED = frozenset({SECRET.id})
#: Kinds whose specs may hold secrets.
_SECRETIVE = frozenset({TRIGGER_AUTHENTICATION.id, CLUSTER_TRIGGER_AUTHENTICATION.id})


class Unreadable(ValueError):  # noqa: N818 - the object's state, not the reader's
    """An object that lacks what every object has, or has it in a form that the store cannot keep."""


def require_stored(kind: Kind) -> None:
    """Raises ValueError for a kind that is never stored: its objects would look as if they did not exist."""
    if kind.id in NEVER_STORED:
        raise ValueError(f"{kind.id} are not kept in the store, and cannot be followed")


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """One version of an object: its body as the API server sent it, or None once it is gone.

    ref, uid: of a gone object; an object of the same name and another uid is not affected. last: the last state of a
    gone object, where a watch sent it; its resourceVersion is the deletion's.
    """

    body: Object | None
    ref: Ref | None = None
    uid: str = ""
    last: Object | None = None

    @classmethod
    def gone(cls, ref: Ref, uid: str) -> "ObjectVersion":
        """The object of this uid does not exist any more, according to the API server."""
        return cls(None, ref, uid)

    @classmethod
    def deleted(cls, kind: Kind, last: Object) -> "ObjectVersion":
        """A watch reported the deletion, with the object's last state."""
        return cls(None, ref_of(kind, last), last["metadata"]["uid"], last)

    @classmethod
    def left(cls, kind: Kind, answer: Object) -> "ObjectVersion":
        """The answer to a write that may have removed the object: the API server shows the object all the same."""
        metadata = answer["metadata"]
        # Only objects in deletion have a grace period; a pod with more than 0 stays until its kubelet is done.
        if metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers"):
            return cls.deleted(kind, answer)
        return cls(answer)


def unowned_in(namespace: str) -> str:
    """Returns the index entry that replaces the owner's uid for objects without a controller; no uid equals it."""
    return f"~{namespace}"


def referrers_of(key: str) -> str:
    """Returns the index entry that replaces the owner's uid for objects that name this key; no uid equals it."""
    return f"@{key}"


def field(ref: Ref) -> str:
    """Returns the object's field in the hash of its kind."""
    return f"{ref.namespace}/{ref.name}"


def ref(kind: Kind, name: bytes) -> Ref:
    """Returns the address that a field stands for."""
    namespace, _, rest = name.decode().partition("/")
    return Ref(kind, namespace, rest)


def entry(of: Ref, value: bytes | None) -> CachedObject | None:
    """Decodes a value of the hash; None for no value. Raises ValueError for one that cannot be read."""
    if value is None:
        return None
    parts = value.split(b" ", _FIELDS_BEFORE_JSON)
    if len(parts) <= _FIELDS_BEFORE_JSON:
        raise ValueError("its header is not whole")
    json = parts[_FIELDS_BEFORE_JSON]
    if json.startswith(_COMPRESSED):
        json = _expanded(json)
    body = None if json == _GONE else orjson.loads(json)
    if body is not None and not (isinstance(body, dict) and isinstance(body.get("metadata"), dict)):
        raise ValueError("it has no metadata")
    return CachedObject(of, body, int(parts[1]))


def size(value: bytes) -> int:
    """Returns the bytes of a value as if its JSON were not compressed: the decoded object takes memory accordingly."""
    if not value.endswith(_COMPRESSED):
        return len(value)
    json = value.split(b" ", _FIELDS_BEFORE_JSON)[-1]
    number = json[1:].partition(b" ")[0]
    return len(value) - len(json) + int(number) if number.isdigit() else len(value)


def sizes(values: Sequence[bytes]) -> list[int]:
    """Returns the `size` of each; of a thousand small ones without a call for each."""
    large = any(map(bytes.endswith, values, repeat(_COMPRESSED)))
    return list(map(size if large else len, values))


def _compressed(json: bytes) -> bytes:
    return b"%b%d %b%b" % (_COMPRESSED, len(json), zlib.compress(json, _LEVEL), _COMPRESSED)


def _expanded(json: bytes) -> bytes:
    _, _, stream = json.partition(b" ")
    try:
        return zlib.decompress(stream.removesuffix(_COMPRESSED))
    except zlib.error as error:
        raise ValueError(f"its JSON cannot be expanded: {error}") from error


def arguments(
    kind: Kind,
    change: ObjectVersion,
    watched: Callable[[Object], bool],
    *,
    adopted: bool,
    refers_to: Callable[[Object], Ref | None] | None,
) -> list[Arg]:
    """Encodes a change as ten of its arguments of workers/lua/apply.lua.

    watched: True for objects that a controller of ours reconciles. adopted: unowned objects of this kind are indexed.
    refers_to: the object that an object of this kind names; None if no controller asks. Raises `Unreadable`.
    """
    if change.body is None and change.last is None and (change.ref is None or not change.uid):
        raise ValueError("a change without a body must say whose: ref and uid")
    try:
        return _arguments(kind, change, watched, adopted=adopted, refers_to=refers_to)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unreadable(str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}") from error


def _arguments(
    kind: Kind,
    change: ObjectVersion,
    watched: Callable[[Object], bool],
    *,
    adopted: bool,
    refers_to: Callable[[Object], Ref | None] | None,
) -> list[Arg]:
    state = change.body or change.last
    if state is None:
        assert change.ref is not None
        return [field(change.ref), 0, change.uid, NONE, NONE, NONE, NONE, NONE, "00", _GONE]
    metadata = state["metadata"]
    generation = metadata.get("generation", NONE)
    version, uid = metadata["resourceVersion"], metadata["uid"]
    owner, owner_key = _owner(state, adopted=adopted)
    # The header is made of words.
    if not str(version).isdecimal() or " " in f"{uid}{owner}{owner_key}{generation}":
        raise Unreadable(f"resourceVersion {version!r}, uid {uid!r}, generation {generation!r}")
    annotations = orjson.dumps(metadata.get("annotations") or {}, option=orjson.OPT_SORT_KEYS)
    flags = f"{watched(state):d}{'deletionTimestamp' in metadata:d}"
    json = _GONE if change.body is None else orjson.dumps(_trimmed(kind, state))
    return [
        field(ref_of(kind, state)),
        version,
        uid,
        owner,
        owner_key,
        _named(state, refers_to),
        generation,
        f"{generation}.{zlib.crc32(annotations):x}",
        flags,
        json if len(json) <= LARGE else _compressed(json),
    ]


def _owner(body: Object, *, adopted: bool) -> tuple[str, str]:
    """Returns the controller's uid, and its key if we know its kind."""
    reference = controller_of(body)
    namespace = body["metadata"].get("namespace", "")
    if reference is None:
        return unowned_in(namespace) if adopted else NONE, NONE
    kind = by_manifest(reference["apiVersion"], reference["kind"])
    if kind is None:
        return reference["uid"], NONE
    namespace = namespace if kind.namespaced else ""
    return reference["uid"], Ref(kind, namespace, reference["name"]).key


def _named(body: Object, refers_to: Callable[[Object], Ref | None] | None) -> str:
    """Returns the key of the object that this one names."""
    ref = refers_to(body) if refers_to else None
    # Users write these names freely; one that would break the header names no object.
    return ref.key if ref and " " not in ref.key and ref.key.isprintable() else NONE


def _trimmed(kind: Kind, body: Object) -> Object:
    """Returns the object without managedFields, which are often half of it, and which no decision reads.

    Of kinds that may hold secrets only metadata and status are stored, without annotations: kubectl's last-applied
    annotation repeats the spec.
    """
    left_out = {"managedFields", "annotations"} if kind.id in _SECRETIVE else {"managedFields"}
    metadata = {name: value for name, value in body["metadata"].items() if name not in left_out}
    kept = {name: value for name, value in body.items() if name != "spec"} if kind.id in _SECRETIVE else body
    return {**kept, "metadata": metadata}
