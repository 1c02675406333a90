"""Which runs are due, which of them may still start, and which are lost."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from workers.api.scheduledjob import CatchUp, ScheduledJobSpec
from workers.controllers.batch.cronjob.timetable import Timetable

#: More slots than this since the last run are worth a warning, as in Kubernetes, and are not counted: ten thousand
#: objects after an outage of a day would take their time. Unlike there none of it is an estimate.
MANY = 100
#: catchUp None: a run that starts so soon after it was due is not late.
PROMPT = timedelta(seconds=10)
#: Lateness is measured in whole seconds: a run that is allowed to be 0 s late has the second it is due in.
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Settled:
    """What is handled once a decision is carried out.

    through: the newest slot that is handled, None for no change. scheduled: the newest of them whose run was started.
    missed: how many were not; capped: there are at least so many.
    """

    through: datetime | None = None
    scheduled: datetime | None = None
    missed: int = 0
    capped: bool = False


@dataclass(frozen=True)
class Due:
    """The slots that are due and not handled yet.

    slots: the newest of them, oldest first; older: there are more. open: those whose runs may start now. in_order:
    none may be passed over for a newer one.
    """

    in_order: bool = False
    slots: tuple[datetime, ...] = ()
    older: bool = False
    open: tuple[datetime, ...] = ()
    started: frozenset[datetime] = field(default_factory=frozenset)

    @property
    def many(self) -> bool:
        """Whether more slots passed than anybody plans for."""
        return self.older or len(self.slots) > MANY

    def settled(self, starting: Collection[datetime]) -> Settled:
        """What is handled when these runs have been started."""
        waiting = [slot for slot in self.open if slot not in starting]
        started = [slot for slot in self.slots if slot in self.started or slot in starting]
        through = self._through(waiting, started)
        if through is None:
            return Settled()
        kept = [slot for slot in started if slot <= through]
        missed = sum(slot <= through for slot in self.slots) - len(kept)
        return Settled(through, kept[-1] if kept else None, missed, capped=self.older)

    def _through(self, waiting: list[datetime], started: list[datetime]) -> datetime | None:
        if not waiting:
            return self.slots[-1] if self.slots else None
        # While the newest waits it may still be that an even newer one replaces it: that is told when one starts.
        handled = [slot for slot in self.slots if slot < waiting[0]] if self.in_order else started
        return handled[-1] if handled else None


def of(
    timetable: Timetable,
    spec: ScheduledJobSpec,
    since: datetime,
    now: datetime,
    *,
    started: Callable[[datetime], bool],
    resumed: bool = False,
) -> Due:
    """The slots later than `since` that are due.

    started: whether a slot's run has had a Job. resumed: the object was suspended, or another, until this moment.
    """
    catch_up, all_of_them = spec.catch_up, in_order(spec)
    slots, older = timetable.newest(since, now, MANY + 1 + (catch_up.limit if all_of_them else 0))
    if slots and timetable.fires(slots[-1]) > now:
        # Only the newest can be: the others were due before it.
        slots.pop()
    candidates = slots[-catch_up.limit :] if all_of_them else slots[-1:]
    known = frozenset(slot for slot in slots if started(slot))
    if resumed and catch_up.policy == "None":
        candidates = []
    may_start = tuple(
        slot
        for slot in candidates
        if slot not in known and ((limit := expiry(timetable, spec, slot)) is None or now < limit)
    )
    return Due(all_of_them, tuple(slots), older, may_start, known)


def in_order(spec: ScheduledJobSpec) -> bool:
    """Whether runs that were missed are all made up for, the oldest first; otherwise the newest stands for all."""
    return spec.catch_up.policy == "All" and spec.concurrency_policy != "Replace"


def expiry(timetable: Timetable, spec: ScheduledJobSpec, slot: datetime) -> datetime | None:
    """From when on the run of a slot may no longer start; None for never. Jitter makes no run late."""
    deadline = _deadline(spec.catch_up, spec.starting_deadline_seconds)
    return None if deadline is None else timetable.fires(slot) + deadline + _SECOND


def _deadline(catch_up: CatchUp, seconds: int | None) -> timedelta | None:
    given = None if seconds is None else timedelta(seconds=min(seconds, _FOREVER))
    if catch_up.policy != "None":
        return given
    return PROMPT if given is None else min(given, PROMPT)


#: Seconds in a thousand years: a longer deadline is as good as this one, and no instant overflows with it.
_FOREVER = 1000 * 366 * 86400
