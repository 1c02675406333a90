"""The names of the queue's keys in the broker; no other module spells them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class LaneKeys:
    """The keys of one lane; docs/queue.md says what each holds.

    tag: the hash tag, braces included. name: the lane's name.
    """

    #: The parts of a lane, in the order in which the Lua helper `lane` reads their keys.
    PARTS: ClassVar = (
        *("ready", "since", "tenants", "later"),
        *("leased", "leases", "dirty", "failures", "meta", "causes"),
    )

    tag: str
    name: str

    def all(self) -> list[str]:
        """Returns the lane's keys, in the order of `PARTS`."""
        return [self.of(part) for part in self.PARTS]

    def call(self, id: str) -> str:
        """Returns the key of one call's answer, kept while that call may be replayed."""
        return self.of(f"call:{id}")

    def of(self, part: str) -> str:
        """Returns the key of one part."""
        return f"{self.tag}:lane:{self.name}:{part}"


@dataclass(frozen=True, slots=True)
class DeliveryKeys:
    """The keys of one EventJob's deliveries; docs/deliveries.md says what each holds.

    tag: the hash tag, braces included. uid: the EventJob's.
    """

    #: The parts, in the order in which the Lua helper `deliveries` reads their keys.
    PARTS: ClassVar = (
        *("meta", "records", "attributes", "data", "ids"),
        *("waiting", "delayed", "running", "retrying", "parked", "done", "dropped"),
        *("due", "ready", "keyed", "seen", "ended", "asked"),
    )

    tag: str
    uid: str

    def all(self) -> list[str]:
        """Returns the keys, in the order of `PARTS`."""
        return [self.of(part) for part in self.PARTS]

    def of(self, part: str) -> str:
        """Returns the key of one part."""
        return f"{self.tag}:deliveries:{self.uid}:{part}"


#: The types of all keys of ours, by the part of the name that follows the hash tag; of a lane by the last part.
TYPES: Mapping[str, bytes] = {
    **dict.fromkeys(("ready", "since", "tenants", "later", "leases", "owners", "gone", "decisions"), b"zset"),
    **dict.fromkeys(
        ("leased", "causes", "failures", "meta", "objects", "freshness", "readings", "orders", "limit"), b"hash"
    ),
    "unreadable": b"hash",
    **dict.fromkeys(("dirty", "listed"), b"set"),
    **dict.fromkeys(("generation", "format", "call", "signature", "present"), b"string"),
    "decision": b"list",
    "childlog": b"stream",
    "runs": b"hash",
    "restoring": b"hash",
    **dict.fromkeys(("records", "attributes", "data", "ids", "asked"), b"hash"),
    **dict.fromkeys(("waiting", "delayed", "running", "retrying", "parked", "done", "dropped"), b"zset"),
    **dict.fromkeys(("due", "keyed", "seen", "ended"), b"zset"),
}


def type_of(key: str) -> bytes | None:
    """Returns the type that this key must have, None if it is none of ours."""
    parts = key.partition("}:")[2].split(":")
    of_group = {"lane": 2, "beat": 1, "deliveries": 2}.get(parts[0], 0)
    return TYPES.get(parts[of_group]) if len(parts) > of_group else None


def loses_work(key: str) -> bool:
    """Returns true if keys would be missing from lanes, or objects from the store, without this key's content."""
    parts = key.partition("}:")[2].split(":")
    return parts[0] in {"objects", "owners", "gone", "freshness"} or (parts[0] == "lane" and "call" not in parts[2:3])


@dataclass(frozen=True, slots=True)
class Keys:
    """All key names under one prefix, with one hash tag: on a cluster-mode server one script may use any of them."""

    prefix: str = "penstock"

    @property
    def tag(self) -> str:
        """The hash tag, ``{<prefix>}``: the first part of every key of ours."""
        return f"{{{self.prefix}}}"

    @property
    def generation(self) -> str:
        """The generation of this keyspace: data of an earlier one may have been lost (scheduler/lua/generation.lua)."""
        return f"{self.tag}:generation"

    @property
    def restoring(self) -> str:
        """The marker of a restore that has not ended: the id of the backup, and the objects that are there."""
        return f"{self.tag}:restoring"

    @property
    def format(self) -> str:
        """The format of the data under this prefix, a number; a word during a restore (penstock/_broker_format.py)."""
        return f"{self.tag}:format"

    def present(self, identity: str) -> str:
        """Returns the key that exists while the process of this identity is alive and reaches the broker."""
        return f"{self.tag}:present:{identity}"

    @staticmethod
    def began(generation: bytes | None) -> int:
        """Returns when the generation of this value began (µs, broker's clock), 0 for the first of a keyspace."""
        last = (generation or b"").rpartition(b" ")[2]
        return int(last) if last.isdigit() else 0

    def lane(self, name: str) -> LaneKeys:
        """Returns the keys of the lane of this name."""
        return LaneKeys(self.tag, name)

    def deliveries(self, uid: str) -> DeliveryKeys:
        """Returns the keys of the deliveries of the EventJob with this UID."""
        return DeliveryKeys(self.tag, uid)

    def channel(self, namespace: str, name: str) -> str:
        """Returns the intake of a channel, the stream that events are pushed to; its other keys stand beside it."""
        return f"{self.tag}:events:{namespace}/{name}"

    def beat(self, part: str) -> str:
        """Returns a key of the beat scheduler."""
        return f"{self.tag}:beat:{part}"
