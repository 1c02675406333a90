"""Amounts of resources: exact, and written the way their authors write them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workers.api import quantities

_KIBI = 1024 * quantities.ONE


@dataclass(frozen=True, slots=True)
class Amount:
    """So much of one resource, in billionths. binary: written with Ki, Mi and so on where that is possible."""

    value: int
    binary: bool = False

    @classmethod
    def parse(cls, text: object) -> "Amount":
        """The amount a quantity stands for. Raises ValueError for a malformed one."""
        return cls(quantities.parse(str(text)), str(text).endswith("i"))

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.value + other.value, self.binary if self.value else other.binary)

    def __mul__(self, times: int) -> "Amount":
        return Amount(self.value * times, self.binary)

    def __str__(self) -> str:
        if self.binary and self.value % _KIBI == 0:
            return quantities.canonical(f"{self.value // _KIBI}Ki")
        return quantities.canonical(f"{self.value}n")


#: By resource, how much of it.
Amounts = Mapping[str, Amount]


def parse(texts: Mapping[str, object] | None) -> dict[str, Amount]:
    """A list of resources of a manifest. Raises ValueError for a malformed quantity."""
    return {name: Amount.parse(text) for name, text in (texts or {}).items()}


def same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two lists of resources mean the same; ``1000m`` is ``1``, and what is malformed means nothing."""
    try:
        first, second = parse(one), parse(other)
    except ValueError:
        return False
    return {name: amount.value for name, amount in first.items()} == {
        name: amount.value for name, amount in second.items()
    }


def render(amounts: Amounts) -> dict[str, str]:
    """The amounts as a list of resources."""
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def total(each: Iterable[Amounts]) -> dict[str, Amount]:
    """The sum, resource by resource."""
    found: dict[str, Amount] = {}
    for amounts in each:
        for name, amount in amounts.items():
            found[name] = found[name] + amount if name in found else amount
    return found


def largest(each: Iterable[Amounts]) -> dict[str, Amount]:
    """The most of each resource."""
    found: dict[str, Amount] = {}
    for amounts in each:
        for name, amount in amounts.items():
            if name not in found or amount.value > found[name].value:
                found[name] = amount
    return found


def multiplied(amounts: Amounts, times: int) -> dict[str, Amount]:
    """So many times as much of everything."""
    return {name: amount * times for name, amount in amounts.items()}
