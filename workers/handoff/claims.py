"""Items that were moved out of a queue, one for one Job, and the order that says what is to become of them.

The ledger of what is claimed lies beside the queue, on the measured server, where every move is one script. A decision
gives a standing order; a poll carries it out and answers with what is claimed then. Orders and settlements may be
carried out any number of times.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

#: Annotation of an object that claims: the trigger, as JSON, whose queue its ledger lies beside. It stays until that
#: ledger is empty, whatever becomes of the spec meanwhile.
LEDGER = "penstock.dev/ledger"

#: Bytes of text that a Job can carry as its item: annotations may have 256 KiB in all.
LARGEST = 180_000

How = Literal["done", "returned", "parked", "retried"]


@dataclass(frozen=True, slots=True)
class ClaimedItem:
    """One claimed item.

    id: never given twice by one ledger: digits, joined by hyphens. attempt: how often it was tried again, from 0.
    size: bytes of the item's text; -1 when the queue has lost it. item: the text, or None where it was left out.
    encoding: how the text stands for the item: ``text`` is the item itself, ``json`` an object of the entry's fields,
    ``base64`` and ``json-base64`` the same of items that are not UTF-8.
    """

    id: str
    attempt: int = 0
    size: int = 0
    item: str | None = None
    encoding: str = "text"


@dataclass(frozen=True, slots=True)
class ClaimLedger:
    """What one poll found in the ledger after it had carried out an order.

    of: the ledger's name. limit: the order's, or None when none was carried out. claims: all that is claimed, oldest
    first; None when the ledger could not be read.
    """

    of: str
    limit: int | None = None
    claims: tuple[ClaimedItem, ...] | None = None


@dataclass(frozen=True, slots=True)
class ClaimSettlement:
    """What becomes of one claim.

    how: ``done`` forgets the item, ``returned`` puts it back in front of the queue, ``parked`` keeps it apart for
    people, ``retried`` keeps it for another Job. reason: of a parked one, for people. attempt: of a retried one.
    """

    id: str
    how: How
    reason: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class ClaimOrder:
    """What polls are to do with a ledger until another order comes.

    id: rises with every decision (µs, broker's clock); a ledger obeys none that is older than one it has seen.
    of: the ledger's name; an order is not for the one an object has by now if that is another. limit: most claims at
    once; items are taken while there are fewer. tail: items are taken from the tail of a list. bound: claims whose Job
    exists, so that their items need not be read.
    """

    id: int
    of: str
    limit: int
    tail: bool = False
    settlements: tuple[ClaimSettlement, ...] = ()
    bound: tuple[str, ...] = ()


def order(value: dict[str, Any]) -> ClaimOrder:
    """An order as it was stored. Raises TypeError or KeyError for one of another version."""
    settlements = tuple(ClaimSettlement(**each) for each in value["settlements"])
    return ClaimOrder(**{**value, "settlements": settlements, "bound": tuple(value["bound"])})


def ledger(value: dict[str, Any]) -> ClaimLedger:
    """What a poll found, as it was stored. Raises TypeError or KeyError for one of another version."""
    claims = value["claims"]
    return ClaimLedger(**{**value, "claims": None if claims is None else tuple(ClaimedItem(**each) for each in claims)})


def name_of(annotation: str) -> str:
    """The name of the ledger with this annotation; it shows nothing of the trigger."""
    return blake2b(annotation.encode(), digest_size=8).hexdigest()


def ledger_of(body: Any) -> str | None:
    """The annotation of the object's ledger, if it has one."""
    text = (body["metadata"].get("annotations") or {}).get(LEDGER)
    return text if isinstance(text, str) and text else None
