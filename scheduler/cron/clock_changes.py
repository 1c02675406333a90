"""The clocks of a time zone: their changes, and the conversion of wall times to instants.

An *instant* is a number of seconds since the epoch; a *wall* is local time as if it were an instant of UTC.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

MINUTE, HOUR, DAY = 60, 3600, 86400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Searches stay between these instants: beyond them datetime would overflow.
FIRST = (datetime(2, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
LAST = (datetime(9980, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(seconds=1)

#: Seconds that one table covers. A search looks six years ahead at most, and no more than a month back.
_BLOCK = 1 << 26
_AHEAD, _BEHIND = 7 * 366 * DAY, 40 * DAY
#: No zone has changed its clocks twice within this many seconds.
_PROBE = 2 * DAY


@dataclass(frozen=True, slots=True)
class Clocks:
    """A zone's clocks over some years.

    begins: the instants from which each of the offsets (seconds east of Greenwich) is in force. plain: for each offset,
    the walls (end excluded) that the clocks show once; empty if the offset is not in whole minutes. odd: days
    (wall // DAY), ascending, whose midnight was skipped or repeated. rough: instants, ascending, of changes that are
    not by whole hours on the hour and clear of midnight.
    """

    begins: tuple[int, ...]
    offsets: tuple[int, ...]
    plain: tuple[tuple[int, int], ...]
    odd: tuple[int, ...]
    rough: tuple[int, ...]

    def index(self, instant: int) -> int:
        """Returns the index of the offset in force."""
        return max(bisect_right(self.begins, instant) - 1, 0)

    def instant(self, wall: int) -> int:
        """Returns the instant of a wall; of a skipped or repeated one, the instant that Kubernetes takes.

        Kubernetes reads the wall as UTC and applies the offset in force then; if that leads to an instant of another
        offset, it applies the other.
        """
        return wall - self.offsets[self.index(wall - self.offsets[self.index(wall)])]


@dataclass(frozen=True, slots=True)
class _Change:
    """At an instant `before` becomes `after`: the clocks skip the walls from low to high, or repeat them."""

    at: int
    before: int
    after: int

    @property
    def low(self) -> int:
        return self.at + min(self.before, self.after)

    @property
    def high(self) -> int:
        return self.at + max(self.before, self.after)

    @property
    def midnights(self) -> range:
        """The days whose midnight is skipped or repeated."""
        return range(-(-self.low // DAY), -(-self.high // DAY))

    @property
    def rough(self) -> bool:
        return bool(self.low % HOUR or self.high % HOUR or self.low // DAY != self.high // DAY or not self.low % DAY)


def clocks(zone: tzinfo, instant: int) -> Clocks:
    """Returns the zone's clocks at least from a month before the instant to six years after it."""
    return _table(zone, instant // _BLOCK)


@lru_cache(maxsize=2048)
def _table(zone: tzinfo, block: int) -> Clocks:
    begin, end = max(block * _BLOCK - _BEHIND, FIRST - _BEHIND), (block + 1) * _BLOCK + _AHEAD
    changes = list(_changes(zone, begin, end))
    begins = (begin, *(change.at for change in changes))
    offsets = (_offset(zone, begin), *(change.after for change in changes))
    edges = [begin + offsets[0], *(change.high for change in changes)]
    ends = [*(change.low for change in changes), end + offsets[-1]]
    whole = [offset % MINUTE == 0 for offset in offsets]
    return Clocks(
        begins=begins,
        offsets=offsets,
        plain=tuple((low, high if fit else low) for low, high, fit in zip(edges, ends, whole, strict=True)),
        odd=tuple(day for change in changes for day in change.midnights),
        rough=tuple(change.at for change in changes if change.rough),
    )


def _changes(zone: tzinfo, begin: int, end: int) -> Iterator[_Change]:
    before = _offset(zone, begin)
    for probe in range(begin, end, _PROBE):
        after = _offset(zone, probe + _PROBE)
        if after != before:
            yield _Change(_first(zone, probe, probe + _PROBE, after), before, after)
            before = after


def _first(zone: tzinfo, low: int, high: int, offset: int) -> int:
    """Returns the first instant in (low, high] at which the offset is in force, by bisection."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _offset(zone, middle) == offset else (middle, high)
    return high


def _offset(zone: tzinfo, instant: int) -> int:
    offset = (EPOCH + timedelta(seconds=instant)).astimezone(zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
