"""The amounts of a queue: capability, deserved share and guarantee, and how they bound each other."""

from collections.abc import Iterator, Mapping

from workers.admission.findings import Finding
from workers.api import quantities
from workers.api.kinds import Object

#: The fields of a Queue's spec that hold amounts.
FIELDS = ("capability", "deserved", "guarantee")
_ONE = quantities.parse("1")
#: A capability of 0 is no limit for these resources, as in Volcano.
ZERO_IS_NONE = ("cpu", "memory")
#: Measured resources; all others are whole numbers.
_MEASURED = ("cpu", "memory", "ephemeral-storage")

Amounts = Mapping[str, int]


def amounts(spec: Object, field: str) -> Amounts:
    """Returns the amounts of one field by resource, in billionths; malformed ones are left out."""
    return {name: number for name, value in _written(spec, field).items() if (number := _parsed(value)) is not None}


def bounds(capability: Amounts) -> Amounts:
    """Returns the part of a capability that is a bound."""
    return {name: number for name, number in capability.items() if number > 0 or name not in ZERO_IS_NONE}


def problems(spec: Object) -> list[Finding]:
    """Returns the findings on the amounts of one queue."""
    found = [finding for field in FIELDS for finding in _each(spec, field)]
    return found or [*_bounded(spec)]


def path(field: str) -> str:
    """Returns the path of a field's amounts."""
    return "spec.guarantee.resource" if field == "guarantee" else f"spec.{field}"


def _written(spec: Object, field: str) -> Object:
    value = spec.get(field) or {}
    return (value.get("resource") or {}) if field == "guarantee" else value


def _parsed(value: str | int) -> int | None:
    try:
        return quantities.parse(str(value))
    except ValueError:
        return None


def _each(spec: Object, field: str) -> Iterator[Finding]:
    for name, value in _written(spec, field).items():
        place, number = f"{path(field)}[{name}]", _parsed(value)
        if number is None:
            yield Finding(place, f"{value!r} is no quantity")
        elif number < 0:
            yield Finding(place, f"must not be below 0, {value}")
        elif number % _ONE and name not in _MEASURED:
            yield Finding(place, f"must be a whole number, {value}")


def _bounded(spec: Object) -> Iterator[Finding]:
    deserved, guarantee = amounts(spec, "deserved"), amounts(spec, "guarantee")
    capability = bounds(amounts(spec, "capability"))
    # Queues of Volcano 1.8 have a guarantee and no deserved share: it was computed from the weights.
    for name, number in guarantee.items():
        if deserved and number > deserved.get(name, 0):
            yield Finding(f"{path('guarantee')}[{name}]", "must not be greater than the deserved amount")
        elif number > capability.get(name, number):
            yield Finding(f"{path('guarantee')}[{name}]", "must not be greater than the capability")
    for name, number in deserved.items():
        if name in capability and number > capability[name]:
            yield Finding(f"{path('deserved')}[{name}]", "must not be greater than the capability")
