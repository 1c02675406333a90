"""Brings the deliveries of a backup up to the Jobs that the cluster has since. Pure.

A delivery whose Job was made after the backup becomes a running one with that Job's claim: the next decision finds the
Job by its name and settles the delivery as it ended. So nothing runs again that the cluster shows to have run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha1
from typing import Any

import orjson

from deploy.backup.archive import SavedKey

#: States in which a delivery is not ended, and holds its ordering key.
_UNFINISHED = frozenset(("waiting", "delayed", "running", "retrying"))
_STATES = ("waiting", "delayed", "running", "retrying", "parked", "done", "dropped")


@dataclass(frozen=True, slots=True, order=True)
class MadeClaim:
    """The claim that a Job was made for: of an entry, how often it had left the ledger, and the attempt."""

    entry: str
    left: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Resettled:
    """advanced: deliveries whose Job was made after the backup. unknown: Jobs of events that the backup lacks."""

    advanced: int = 0
    unknown: int = 0


def claim(id: str, attempt: int) -> MadeClaim | None:
    """Returns the parts of a claim's id, ``<entry>`` or ``<entry>-<how often it left the ledger>``."""
    parts = id.split("-")
    if len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts):
        return None
    return MadeClaim("-".join(parts[:2]), int(parts[2]) if len(parts) == 3 else 0, attempt)


def resettled(keys: Mapping[str, SavedKey], made: Iterable[MadeClaim]) -> tuple[dict[str, SavedKey], Resettled]:
    """Returns the ledger of one EventJob, brought up to its Jobs. keys: by the part of their name that says what."""
    latest: dict[str, MadeClaim] = {}
    for each in made:
        if each.entry not in latest or latest[each.entry] < each:
            latest[each.entry] = each
    ledger = _Ledger.of(keys)
    advanced = unknown = 0
    for entry, newest in latest.items():
        record = ledger.records.get(entry)
        if record is None:
            unknown += 1
        elif _is_news(record, newest):
            ledger.run(entry, record, newest)
            advanced += 1
    return ledger.saved(), Resettled(advanced, unknown)


def _is_news(record: Mapping[str, Any], newest: MadeClaim) -> bool:
    """Returns True for a Job that was made after the backup: what left the ledger before is settled in it."""
    if newest.left < (record.get("t") or 0):
        return False
    known = (record["s"] == "running", record.get("t") or 0, record.get("a") or 0)
    return known != (True, newest.left, newest.attempt)


@dataclass
class _Ledger:
    """The keys of one ledger that change, as scalers/lua/deliveries.lua keeps them."""

    keys: dict[str, SavedKey]
    records: dict[str, dict[str, Any]]
    sets: dict[str, dict[str, str]]

    @classmethod
    def of(cls, keys: Mapping[str, SavedKey]) -> "_Ledger":
        records = {entry: orjson.loads(text) for entry, text in _pairs(keys.get("records")).items()}
        sets = {name: _pairs(keys.get(name)) for name in (*_STATES, "due", "ready", "keyed", "ended")}
        return cls(dict(keys), records, sets)

    def run(self, entry: str, record: dict[str, Any], newest: MadeClaim) -> None:
        """Makes a delivery a running one with this claim."""
        for name in (record["s"], "due", "ready", "ended"):
            self.sets[name].pop(entry, None)
        if record.get("k") and record["s"] not in _UNFINISHED:
            place = int(record.get("p") or record["o"])
            self.sets["keyed"][f"{sha1(record['k'].encode()).hexdigest()[:20]}{place:016d}{entry}"] = "0"
        record.update(s="running", t=newest.left, a=newest.attempt)
        if not newest.left:
            del record["t"]
        for field in ("d", "x"):
            record.pop(field, None)
        self.sets["running"][entry] = str(record["o"])

    def saved(self) -> dict[str, SavedKey]:
        """Returns the keys as they are to be written; those that are empty are left out."""
        found = dict(self.keys)
        records = {entry: orjson.dumps(record).decode() for entry, record in self.records.items()}
        for name, pairs, type_ in (
            ("records", records, "hash"),
            *((name, pairs, "zset") for name, pairs in self.sets.items()),
        ):
            found.pop(name, None)
            if pairs:
                before = self.keys.get(name)
                flat = [text.encode() for pair in pairs.items() for text in pair]
                found[name] = SavedKey(type_, before.expires if before else None, flat)
        return found


def _pairs(key: SavedKey | None) -> dict[str, str]:
    if key is None:
        return {}
    texts = [each.decode() for each in key.value]
    return dict(zip(texts[::2], texts[1::2], strict=True))
