"""Names of the Jobs of claims: one attempt at one claim never has two Jobs."""

import re
from functools import lru_cache
from hashlib import blake2b

#: A Job's name becomes a label value and the start of host names: 63 characters, of which an id takes at most 12,
#: an index 5 and two hyphens the rest.
LONGEST = 63
_STEM = LONGEST - 12 - 5 - 2
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


#: Names that a process remembers: every decision asks again for those of all claims that are held.
_REMEMBERED = 20_000


@lru_cache(_REMEMBERED)
def claimed(owner: str, ledger: str, id: str, attempt: int) -> str:
    """Returns the name of one attempt's Job: ``<object>-<ledger>-<claim's id in base 36>``, then ``-<attempt>``.

    The ledger's name keeps apart claims of two queues with the same id.
    """
    parts = [ledger[:4], *(base36(int(part)) for part in id.split("-"))]
    suffix = f"-{attempt}" if attempt else ""
    name = f"{stem(owner)}-{'-'.join(parts)}{suffix}"
    if len(name) <= LONGEST:
        return name
    return f"{stem(owner)}-{blake2b(f'{ledger} {id}'.encode(), digest_size=6).hexdigest()}{suffix}"


def of_event(eventjob: str, uid: str, id: str, attempt: int) -> str:
    """Returns the name of the Job of one attempt at an event. eventjob, uid: name and uid of its EventJob."""
    return claimed(eventjob, _digest(uid), id, attempt)


@lru_cache(_REMEMBERED)
def _digest(uid: str) -> str:
    return blake2b(uid.encode(), digest_size=8).hexdigest()


def stem(owner: str) -> str:
    """Returns the owner's name if it is a short DNS label, else its start and a hash of the whole."""
    if len(owner) <= _STEM and _LABEL.fullmatch(owner):
        return owner
    start = owner.replace(".", "-")[: _STEM - 9].rstrip("-")
    return f"{start}-{blake2b(owner.encode(), digest_size=4).hexdigest()}"


def base36(number: int) -> str:
    """Returns the digits of a natural number in base 36."""
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
