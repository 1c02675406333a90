"""Schedules and their slots, the instants at which they fire."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from itertools import islice

from scheduler.cron import clock_changes, stepping
from scheduler.cron.clock_changes import DAY, EPOCH
from scheduler.cron.fields import CronFields

_SECOND = timedelta(seconds=1)
#: Within this distance of a clock change the next slot may depend on the start of the search.
_NEAR = 2 * DAY
#: This many slots more than wanted are enumerated before the search bisects.
_SPARE = 8
#: Answers that a schedule keeps: a decision about one object asks for the slots around the present several times, and
#: objects that share a schedule ask for the same.
_KEPT = 8


@dataclass(frozen=True, slots=True)
class Schedule(ABC):
    """A parsed schedule. Instants are aware datetimes, slots are in UTC and of whole seconds.

    text: as its author wrote it.
    """

    text: str

    @property
    def interval(self) -> timedelta | None:
        """Of ``@every``: the time between two slots, which are counted from the instant given to `next`."""
        return None

    @abstractmethod
    def next(self, after: datetime) -> datetime | None:
        """Returns the first slot later than this; None if there is none within five years, which means never."""

    @abstractmethod
    def newest(self, after: datetime, until: datetime, count: int) -> tuple[list[datetime], bool]:
        """Returns the last `count` slots (at least 1) in (after, until], oldest first; True if there are older ones.

        The slots before them are not enumerated.
        """

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Returns the last slot in (after, until], or None."""
        found, _ = self.newest(after, until, 1)
        return found[0] if found else None

    def slots(self, after: datetime, until: datetime, limit: int | None = None) -> Iterator[datetime]:
        """Yields the first `limit` slots in (after, until], oldest first."""
        return islice(self._slots(after, until), limit)

    def _slots(self, after: datetime, until: datetime) -> Iterator[datetime]:
        slot = self.next(after)
        while slot is not None and slot <= until:
            yield slot
            slot = self.next(slot)


@dataclass(frozen=True, slots=True)
class Every(Schedule):
    """``@every``: elapsed time, independent of the clocks."""

    length: timedelta

    @property
    def interval(self) -> timedelta:
        return self.length

    def next(self, after: datetime) -> datetime | None:
        try:
            return EPOCH + (after - EPOCH) // _SECOND * _SECOND + self.length
        except OverflowError:
            return None

    def newest(self, after: datetime, until: datetime, count: int) -> tuple[list[datetime], bool]:
        begin = EPOCH + (after - EPOCH) // _SECOND * _SECOND
        there = (until - begin) // self.length
        first = max(there - count, 0)
        return [begin + number * self.length for number in range(first + 1, there + 1)], first > 0


@dataclass(frozen=True, slots=True)
class CronSchedule(Schedule):
    """Fields, matched against the clocks of a zone."""

    fields: CronFields = field(repr=False)
    zone: tzinfo
    #: The slots found last, by the second after which they were sought.
    _found: dict[int, int | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def next(self, after: datetime) -> datetime | None:
        slot = self._next(_seconds(after))
        return None if slot is None else _instant(slot)

    def newest(self, after: datetime, until: datetime, count: int) -> tuple[list[datetime], bool]:
        found = self._newest(_seconds(after), min(_seconds(until), clock_changes.LAST), count + 1)
        return [_instant(slot) for slot in found[-count:]], len(found) > count

    def _next(self, after: int) -> int | None:
        try:
            return self._found[after]
        except KeyError:
            slot = self._search(after)
        if len(self._found) >= _KEPT:
            self._found.clear()
        self._found[after] = slot
        return slot

    def _search(self, after: int) -> int | None:
        begin = max(after + 1, clock_changes.FIRST)
        if begin >= clock_changes.LAST:
            return None
        # Where clocks go back from a minute after midnight, as in St. John's until 2011, the procedure goes on from the
        # first midnight on the evening that is shown twice, and would find the same slot for ever.
        later = begin
        while (slot := self._first(later)) is not None and slot < begin:
            later += clock_changes.MINUTE
        return slot

    def _first(self, begin: int) -> int | None:
        return stepping.first(self.fields, clock_changes.clocks(self.zone, begin), begin)

    def _newest(self, after: int, until: int, count: int) -> list[int]:
        """Enumerates few slots, and bisects the time between many."""
        middle = self._calm(after, until)
        found, slot = [], self._next(after)
        while slot is not None and slot <= until:
            found.append(slot)
            if middle is not None and len(found) == count + _SPARE:
                late = self._newest(middle, until, count)
                return late if len(late) == count else self._newest(after, middle, count - len(late)) + late
            slot = self._next(slot)
        return found[-count:]

    def _calm(self, after: int, until: int) -> int | None:
        """Returns an instant between the two that is far from clock changes, half-way if possible; else None."""
        middle = (after + until) // 2
        rough = clock_changes.clocks(self.zone, middle).rough
        at = bisect_left(rough, middle - _NEAR)
        if at < len(rough) and rough[at] <= middle + _NEAR:
            middle = rough[at] - _NEAR
        return middle if after < middle < until else None


def _seconds(instant: datetime) -> int:
    return (instant - EPOCH) // _SECOND


def _instant(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)
