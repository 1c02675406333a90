"""Resources as vectors of integers: name to billionths. A missing name is zero."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from workers.api import quantities
from workers.controllers.volcano.amounts import Amount

Vector = Mapping[str, int]

EMPTY: Vector = {}
#: Prefixes that only quotas use.
_OF_QUOTAS = ("requests.", "limits.", "count/")
#: Of these, the ones whose amounts have a plain name, too: `requests.cpu` is `cpu`, `count/pods` is `pods`.
_PREFIXED = ("requests.", "count/")
_BINARY = ("memory", "ephemeral-storage", "hugepages-")


def read(texts: Mapping[str, object] | None) -> dict[str, int]:
    """Returns a resource list, names of quotas included. Raises ValueError for a malformed quantity."""
    return {name: quantities.parse(str(text)) for name, text in (texts or {}).items()}


def readable(texts: Mapping[str, object] | None) -> dict[str, int]:
    """Returns a resource list of a status; empty if it is malformed, because any client may write it."""
    try:
        return read(texts)
    except ValueError:
        return {}


def plain(vector: Vector) -> dict[str, int]:
    """Returns the vector without the names that only quotas use."""
    return {name: value for name, value in vector.items() if not name.startswith(_OF_QUOTAS)}


def named_fully(vector: Vector) -> dict[str, int]:
    """Returns the vector with each amount under its plain name and the one that quotas use, whichever was given."""
    found = dict(vector)
    for name, value in vector.items():
        for prefix in _PREFIXED:
            if name.startswith(prefix):
                found.setdefault(name.removeprefix(prefix), value)
        if not name.startswith(_OF_QUOTAS):
            found.setdefault(f"{'count/' if name == 'pods' else 'requests.'}{name}", value)
    return found


def total(each: Iterable[Vector]) -> dict[str, int]:
    """Returns the sum by resource."""
    found: dict[str, int] = {}
    for vector in each:
        for name, value in vector.items():
            found[name] = found.get(name, 0) + value
    return found


def minus(first: Vector, second: Vector) -> dict[str, int]:
    """Returns the difference, without amounts below zero."""
    return {name: value - second.get(name, 0) for name, value in first.items() if value > second.get(name, 0)}


def most(first: Vector, second: Vector) -> dict[str, int]:
    """Returns the maximum by resource."""
    return {**second, **{name: max(value, second.get(name, 0)) for name, value in first.items()}}


def times(vector: Vector, factor: Fraction) -> dict[str, int]:
    """Returns the vector times a factor, rounded down."""
    return {name: int(value * factor) for name, value in vector.items()}


def fits(asked: Vector, room: Vector) -> bool:
    """Returns True if there is room for all of `asked`."""
    return all(value <= room.get(name, 0) for name, value in asked.items() if value > 0)


def text(name: str, value: int) -> str:
    """Returns an amount as a quantity: ``1500m``, ``4Gi``."""
    sign, value = ("-", -value) if value < 0 else ("", value)
    return sign + str(Amount(value, name.startswith(_BINARY)))


def render(vector: Vector) -> dict[str, str]:
    """Returns the vector as a resource list, without zeros."""
    return {name: text(name, value) for name, value in sorted(vector.items()) if value}
