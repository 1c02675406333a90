"""The values of item claims: items that a poll moved out of a queue, one per Job, and the order to settle them.

The ledger of claimed items lies beside the queue on the measured server, where every move is one script. A decision
stores an order; polls carry it out and return what is claimed then. Both may be repeated any number of times.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

from workers.api.kinds import EVENT_JOB, Kind, Object

#: Annotation of an object that claims: the trigger of its ledger, as JSON. It stays until that ledger is empty, even if
#: the spec changes meanwhile.
LEDGER = "penstock.dev/ledger"

#: The name of an EventJob's ledger, which needs no annotation: it exists from the object's beginning to its end.
DELIVERIES = "events"

#: Bytes of text that a Job can carry as its item: annotations may have 256 KiB in all.
LARGEST = 180_000

How = Literal["done", "returned", "parked", "retried"]


@dataclass(frozen=True, slots=True)
class ClaimedItem:
    """One claimed item.

    id: unique in its ledger: digits, joined by hyphens. attempt: number of retries. size: bytes of the item's text; -1
    when the queue has lost it. item: the text, or None where it was left out. encoding: ``text`` for the item itself,
    ``json`` for an object of the entry's fields, ``base64`` and ``json-base64`` for items that are not UTF-8.
    """

    id: str
    attempt: int = 0
    size: int = 0
    item: str | None = None
    encoding: str = "text"


@dataclass(frozen=True, slots=True)
class ClaimLedger:
    """The ledger as one poll found it after carrying out an order.

    of: the ledger's name. limit: the order's, or None when none was carried out. claims: all claimed items, oldest
    first; None when the ledger could not be read. order: the id of the order, or None. counts: of an EventJob, its
    events, by the names of `EventCounts` (`workers.api.penstock_dev.eventjob`); of a queue in Redis, the items that are
    parked beside it (`parked`). last_arrival: when the newest event arrived (µs, broker's clock), 0 if unknown.
    """

    of: str
    limit: int | None = None
    claims: tuple[ClaimedItem, ...] | None = None
    order: int | None = None
    counts: Mapping[str, int] | None = None
    last_arrival: int = 0


@dataclass(frozen=True, slots=True)
class ClaimSettlement:
    """The end of one claim.

    how: ``done`` deletes the item, ``returned`` puts it back in front of the queue, ``parked`` keeps it apart for
    people, ``retried`` keeps it for another Job. reason: of a parked or retried one, for people. attempt: of a retried
    one. delay: milliseconds until a retried one may have its next Job; queues that cannot wait give it at once. job:
    the name of the Job that ended, for ledgers that keep a history; empty if there was none.
    """

    id: str
    how: How
    reason: str = ""
    attempt: int = 0
    delay: int = 0
    job: str = ""


@dataclass(frozen=True, slots=True)
class ClaimOrder:
    """The order that polls carry out on a ledger until another one replaces it.

    id: rises with every decision (µs, broker's clock); a ledger refuses orders older than the last one. of: the
    ledger's name; an order for a former ledger of the object is ignored. limit: most claims at once; items are taken
    while there are fewer. tail: items are taken from the tail of a list. bound: claims whose Job exists, so that their
    items need not be read.
    """

    id: int
    of: str
    limit: int
    tail: bool = False
    settlements: tuple[ClaimSettlement, ...] = ()
    bound: tuple[str, ...] = ()


#: An order that settles nothing and takes nothing: the ledger is read.
LOOK = ClaimOrder(id=0, of="", limit=0)


def order(value: dict[str, Any]) -> ClaimOrder:
    """Decodes a stored order. Raises TypeError or KeyError for one of another version."""
    settlements = tuple(ClaimSettlement(**each) for each in value["settlements"])
    return ClaimOrder(**{**value, "settlements": settlements, "bound": tuple(value["bound"])})


def ledger(value: dict[str, Any]) -> ClaimLedger:
    """Decodes a stored ledger. Raises TypeError or KeyError for one of another version."""
    claims = value["claims"]
    return ClaimLedger(**{**value, "claims": None if claims is None else tuple(ClaimedItem(**each) for each in claims)})


def name_of(annotation: str) -> str:
    """Returns the name of the ledger with this annotation, a digest that reveals nothing of the trigger."""
    return blake2b(annotation.encode(), digest_size=8).hexdigest()


def ledger_of(body: Any) -> str | None:
    """Returns the annotation of the object's ledger, or None."""
    text = (body["metadata"].get("annotations") or {}).get(LEDGER)
    return text if isinstance(text, str) and text else None


def always_has_ledger(kind: Kind) -> bool:
    """Returns True if every object of the kind has a ledger: its order may be read before the object is."""
    return kind == EVENT_JOB


def ledger_name(kind: Kind, body: Object) -> str | None:
    """Returns the name of the object's ledger, None if it has none."""
    if always_has_ledger(kind):
        return DELIVERIES
    annotation = ledger_of(body)
    return name_of(annotation) if annotation else None
