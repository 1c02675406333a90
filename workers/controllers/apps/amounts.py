"""Numbers and percentages as apps/v1 spells them, and the limits of a rolling update made from them. Pure."""

import math
from dataclasses import dataclass


def resolve(value: int | str | None, total: int, *, up: bool) -> int:
    """``3`` as it is, ``"25%"`` of the total, rounded up or down; None counts as nothing."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total
    return math.ceil(share / 100) if up else share // 100


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """What a rolling update must keep to: pods above the wanted number, and unavailable ones below it."""

    surge: int
    unavailable: int

    @classmethod
    def of(cls, replicas: int, surge: int | str | None, unavailable: int | str | None) -> "RolloutLimits":
        """Surge is rounded up and unavailable down; if both come to nothing one may be unavailable, or none moves."""
        over = resolve(surge, replicas, up=True)
        under = resolve(unavailable, replicas, up=False)
        if over == 0 and under == 0:
            under = 1
        return cls(over, min(under, replicas))
