"""Amounts of resources: exact, rendered in the notation of their source."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workers.api import quantities

_KIBI = 1024 * quantities.ONE


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of one resource in billionths. binary: rendered with Ki, Mi and so on where possible."""

    value: int
    binary: bool = False

    @classmethod
    def parse(cls, text: object) -> "Amount":
        """Returns the amount of a quantity. Raises ValueError for a malformed one."""
        return cls(quantities.parse(str(text)), str(text).endswith("i"))

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.value + other.value, self.binary if self.value else other.binary)

    def __mul__(self, times: int) -> "Amount":
        return Amount(self.value * times, self.binary)

    def __str__(self) -> str:
        if self.binary and self.value % _KIBI == 0:
            return quantities.canonical(f"{self.value // _KIBI}Ki")
        return quantities.canonical(f"{self.value}n")


#: Amounts by resource.
Amounts = Mapping[str, Amount]


def parse(texts: Mapping[str, object] | None) -> dict[str, Amount]:
    """Returns the amounts of a manifest's resource list. Raises ValueError for a malformed quantity."""
    return {name: Amount.parse(text) for name, text in (texts or {}).items()}


def same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Returns True if two resource lists are equal; ``1000m`` is ``1``, and malformed lists are never equal."""
    try:
        first, second = parse(one), parse(other)
    except ValueError:
        return False
    return {name: amount.value for name, amount in first.items()} == {
        name: amount.value for name, amount in second.items()
    }


def render(amounts: Amounts) -> dict[str, str]:
    """Returns the amounts as a resource list."""
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def total(each: Iterable[Amounts]) -> dict[str, Amount]:
    """Returns the sum by resource."""
    found: dict[str, Amount] = {}
    for amounts in each:
        for name, amount in amounts.items():
            found[name] = found[name] + amount if name in found else amount
    return found


def largest(each: Iterable[Amounts]) -> dict[str, Amount]:
    """Returns the maximum by resource."""
    found: dict[str, Amount] = {}
    for amounts in each:
        for name, amount in amounts.items():
            if name not in found or amount.value > found[name].value:
                found[name] = amount
    return found


def multiplied(amounts: Amounts, times: int) -> dict[str, Amount]:
    """Returns the amounts times a factor."""
    return {name: amount * times for name, amount in amounts.items()}
