"""Names of Jobs, derived from the reading that asked for them: one reading never makes the same Job twice."""

import re
from dataclasses import dataclass
from hashlib import blake2b

#: A Job's name becomes a label value and the start of host names: 63 characters, of which an id takes at most 12,
#: an index 5 and two hyphens the rest.
_LONGEST = 63
_STEM = _LONGEST - 12 - 5 - 2
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_BASE36 = re.compile(r"[0-9a-z]+")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class ScaledJobNames:
    """The names of one reading's Jobs: ``<object>-<reading's id in base 36>-<index>``."""

    prefix: str

    def name(self, index: int) -> str:
        """Returns the name of the Job with this index, a DNS label."""
        return f"{self.prefix}{index}"

    def index(self, name: str) -> int | None:
        """Returns the index of a Job that this reading made, None for any other name."""
        digits = name.removeprefix(self.prefix)
        return int(digits) if digits != name and digits.isdecimal() else None


def of(owner: str, reading: int) -> ScaledJobNames:
    """Returns the names for one reading (its id) of the object called `owner`."""
    return ScaledJobNames(f"{_stem(owner)}-{_base36(reading)}-")


def claimed(owner: str, ledger: str, id: str, attempt: int) -> str:
    """Returns the name of one attempt's Job: ``<object>-<ledger>-<claim's id in base 36>``, then ``-<attempt>``.

    The ledger's name keeps apart claims of two queues with the same id.
    """
    parts = [ledger[:4], *(_base36(int(part)) for part in id.split("-"))]
    suffix = f"-{attempt}" if attempt else ""
    name = f"{_stem(owner)}-{'-'.join(parts)}{suffix}"
    if len(name) <= _LONGEST:
        return name
    return f"{_stem(owner)}-{blake2b(f'{ledger} {id}'.encode(), digest_size=6).hexdigest()}{suffix}"


def reading(owner: str, name: str) -> int | None:
    """Returns the id of the reading that made the Job of this name for `owner`, None for any other name."""
    id, _, index = name.removeprefix(f"{_stem(owner)}-").rpartition("-")
    if not name.startswith(f"{_stem(owner)}-") or not index.isdecimal() or not _BASE36.fullmatch(id):
        return None
    return int(id, 36)


def _stem(owner: str) -> str:
    """Returns the owner's name if it is a short DNS label, else its start and a hash of the whole."""
    if len(owner) <= _STEM and _LABEL.fullmatch(owner):
        return owner
    start = owner.replace(".", "-")[: _STEM - 9].rstrip("-")
    return f"{start}-{blake2b(owner.encode(), digest_size=4).hexdigest()}"


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
