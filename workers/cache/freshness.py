"""How fresh the kinds of the store are, and what is too old to be believed."""

from collections.abc import Iterable, Mapping

from workers.api.kinds import Kind
from workers.errors import Stale

#: By kind id, how many seconds of what happened may be missing; None when nothing is known of the kind.
Ages = Mapping[str, float | None]


def age(value: bytes, now: int) -> float | None:
    """The age of a kind whose informer wrote this. now: microseconds, broker's clock, as the value's first word."""
    moment = int(value.split(b" ", 1)[0]) if value else 0
    return max(0.0, (now - moment) / 1e6) if moment else None


def older(first: float | None, second: float | None) -> float | None:
    """The greater of two ages; what is not known is older than anything."""
    return None if first is None or second is None else max(first, second)


def require_fresh(ages: Ages, kinds: Iterable[Kind], limit: float) -> None:
    """Raises `errors.Stale` naming the first kind whose age is unknown or above `limit` seconds."""
    for kind in kinds:
        known = ages[kind.id]
        if known is None:
            raise Stale(f"the {kind.id} of the cluster are not known yet")
        if known > limit:
            raise Stale(f"the {kind.id} of the cluster were last seen {known:.1f} s ago")
