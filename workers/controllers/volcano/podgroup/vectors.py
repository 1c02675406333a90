"""Resources as vectors of whole numbers: by name, how much in billionths. What a vector does not name is zero."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from workers.api import quantities
from workers.controllers.volcano.amounts import Amount

Vector = Mapping[str, int]

EMPTY: Vector = {}
#: Names that only quotas know: what they count stands under its plain name too.
_OF_QUOTAS = ("requests.", "limits.", "count/")
_BINARY = ("memory", "ephemeral-storage", "hugepages-")


def read(texts: Mapping[str, object] | None) -> dict[str, int]:
    """A list of resources of a manifest, names of quotas included. Raises ValueError for a malformed quantity."""
    return {name: quantities.parse(str(text)) for name, text in (texts or {}).items()}


def readable(texts: Mapping[str, object] | None) -> dict[str, int]:
    """The same of a status that anybody may have written to; nothing if it cannot be read."""
    try:
        return read(texts)
    except ValueError:
        return {}


def plain(vector: Vector) -> dict[str, int]:
    """The part of a vector that nodes have, without the names that only quotas know."""
    return {name: value for name, value in vector.items() if not name.startswith(_OF_QUOTAS)}


def total(each: Iterable[Vector]) -> dict[str, int]:
    """The sum, resource by resource."""
    found: dict[str, int] = {}
    for vector in each:
        for name, value in vector.items():
            found[name] = found.get(name, 0) + value
    return found


def minus(first: Vector, second: Vector) -> dict[str, int]:
    """What is left of the first without the second: never less than nothing."""
    return {name: value - second.get(name, 0) for name, value in first.items() if value > second.get(name, 0)}


def most(first: Vector, second: Vector) -> dict[str, int]:
    """The larger of both, resource by resource."""
    return {**second, **{name: max(value, second.get(name, 0)) for name, value in first.items()}}


def times(vector: Vector, factor: Fraction) -> dict[str, int]:
    """So many times as much, rounded down."""
    return {name: int(value * factor) for name, value in vector.items()}


def fits(asked: Vector, room: Vector) -> bool:
    """Whether there is room for all that is asked for."""
    return all(value <= room.get(name, 0) for name, value in asked.items() if value > 0)


def text(name: str, value: int) -> str:
    """An amount as people write it: ``1500m``, ``4Gi``."""
    sign, value = ("-", -value) if value < 0 else ("", value)
    return sign + str(Amount(value, name.startswith(_BINARY)))


def render(vector: Vector) -> dict[str, str]:
    """The vector as a list of resources of a manifest, without what is zero."""
    return {name: text(name, value) for name, value in sorted(vector.items()) if value}
