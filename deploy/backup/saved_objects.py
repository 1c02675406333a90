"""The objects of a backup: keys that are read at one moment, for they must fit each other. Pure.

A channel is one object with the deliveries of all its EventJobs: read at two moments, an event might be in both, and
run twice, or in neither.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.keys import Keys

#: Parts of names that follow the hash tag, of keys that are each an object's own, or one of many of their kind.
_SINGLE = ("beat:runs",)
_MANY = ("decision", "decisions", "signature")
#: Keys of one object that holds many of a kind.
CHUNK = 500

_UID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
#: The ledger of claims beside a queue.
_LEDGER = re.compile(rf"(?P<base>.+):penstock:{_UID}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SavedObject:
    """The keys of one object. name: for messages and for what a restore has done; uids: of EventJobs in it."""

    name: str
    keys: tuple[str, ...]
    uids: frozenset[str] = frozenset()


def wanted(keys: Keys, name: str) -> bool:
    """Returns True for a key that a backup holds. name: of any key in the broker."""
    if not name.startswith(f"{keys.tag}:"):
        return _LEDGER.fullmatch(name) is not None
    rest = name.removeprefix(f"{keys.tag}:")
    return rest in _SINGLE or rest.partition(":")[0] in ("events", "deliveries", *_MANY)


def uid_of(keys: Keys, name: str) -> str | None:
    """Returns the UID of the EventJob whose deliveries this key has, None for any other key."""
    start = f"{keys.tag}:deliveries:"
    return name.removeprefix(start).partition(":")[0] if name.startswith(start) else None


def channel_of(keys: Keys, name: str) -> str | None:
    """Returns ``<namespace>/<name>`` of the channel that a key belongs to, None for any other key."""
    start = f"{keys.tag}:events:"
    return name.removeprefix(start).partition(":")[0] if name.startswith(start) else None


def grouped(keys: Keys, names: Iterable[str], intakes: Mapping[str, str]) -> list[SavedObject]:
    """Returns the objects, each key in one of them: a restore gives every name once.

    names: of all keys in the broker, some of them repeated, as SCAN may; intakes: of the channel of each EventJob, by
    its UID.
    """
    channels: dict[str, set[str]] = defaultdict(set)
    uids: dict[str, set[str]] = defaultdict(set)
    many: dict[str, set[str]] = defaultdict(set)
    queues: dict[str, set[str]] = defaultdict(set)
    for uid, intake in intakes.items():
        channel = channel_of(keys, intake) or f"of {uid}"
        uids[channel].add(uid)
        channels[channel].update(keys.deliveries(uid).all())
    for name in names:
        if not wanted(keys, name) or uid_of(keys, name):
            continue
        if own := channel_of(keys, name):
            channels[own].add(name)
        elif name.startswith(f"{keys.tag}:"):
            many[name.removeprefix(f"{keys.tag}:").partition(":")[0]].add(name)
        elif found := _LEDGER.fullmatch(name):
            queues[found["base"]].add(name)
    for channel in [channel for channel in channels if not channel.startswith("of ")]:
        intake = f"{keys.tag}:events:{channel}"
        # A key that is made after the broker was looked through belongs to it all the same.
        channels[channel].update(f"{intake}{end}" for end in ("", *_BESIDE))
    return [
        *(
            SavedObject(f"channel {channel}", tuple(sorted(found)), frozenset(uids[channel]))
            for channel, found in sorted(channels.items())
        ),
        *(SavedObject(f"queue {base}", (*sorted(found), *_queue(base))) for base, found in sorted(queues.items())),
        *(
            SavedObject(f"{kind} {start // CHUNK}", tuple(sorted(found)[start : start + CHUNK]))
            for kind, found in sorted(many.items())
            for start in range(0, len(found), CHUNK)
        ),
    ]


#: The ends of the names of a channel's other keys.
_BESIDE = (":accepted", ":parked", ":seen", ":counts", ":unfinished", ":accepted:parked")


def _queue(base: str) -> tuple[str, ...]:
    """Returns the names that the queue of a ledger may have, and its parked items."""
    bare = (base[1:-1],) if base.startswith("{") and base.endswith("}") else ()
    return (base, *bare, f"{base}:parked")
