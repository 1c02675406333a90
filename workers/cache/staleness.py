"""The age of the kinds in the store, and the refusal to decide on those that are too old."""

from collections.abc import Iterable, Mapping

from workers.api.kinds import Kind
from workers.errors import Stale

#: By kind id, the seconds of changes that may be missing; None for a kind that was never listed.
Ages = Mapping[str, float | None]


def age(value: bytes, now: int) -> float | None:
    """Returns the age in seconds. value: as the kind's reflector wrote it. now: microseconds, broker's clock.

    None if it is unknown: nothing was written yet, or before the clock was set back to an earlier moment.
    """
    moment = int(value.split(b" ", 1)[0]) if value else 0
    return (now - moment) / 1e6 if 0 < moment <= now else None


def older(first: float | None, second: float | None) -> float | None:
    """Returns the greater of two ages; None, for unknown, is the greatest."""
    return None if first is None or second is None else max(first, second)


def require_fresh(ages: Ages, kinds: Iterable[Kind], limit: float) -> None:
    """Raises `errors.Stale` naming the first kind whose age is unknown or above `limit` seconds."""
    for kind in kinds:
        known = ages[kind.id]
        if known is None:
            raise Stale(f"the {kind.id} of the cluster are not known yet")
        if known > limit:
            raise Stale(f"the {kind.id} of the cluster were last seen {known:.1f} s ago")
