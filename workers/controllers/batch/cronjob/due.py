"""The slots of an object that are due, those whose runs may still start, and the problems that keep all from it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scheduler import cron
from workers.api import times
from workers.api.penstock_dev.scheduledjob import CatchUp, ScheduledJobSpec
from workers.controllers.batch.cronjob import timetable as timetables
from workers.controllers.batch.cronjob.cursor import EDIT_LAG, Cursor
from workers.controllers.batch.cronjob.observed import ObservedSchedule
from workers.controllers.batch.cronjob.timetable import Timetable
from workers.errors import UserError

#: More slots than this since the last run cause a warning, as in Kubernetes, and are not counted: ten thousand objects
#: after an outage of a day would take too long. Unlike there, none of it is an estimate.
MANY = 100
#: catchUp None: a run that starts so soon after it was due is not late.
PROMPT = timedelta(seconds=10)
#: Lateness is measured in whole seconds: a run that is allowed to be 0 s late has the second it is due in.
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class TimingProblem:
    """The reason why no run starts by the clock. reason: of a ScheduledJob's condition. event: None if no error."""

    reason: str
    message: str
    event: str | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """The timetable and its first slot that is not handled."""

    table: Timetable
    first: datetime


@dataclass(frozen=True, slots=True)
class Settled:
    """The slots handled once a decision is carried out.

    through: the newest handled slot, None for no change. scheduled: the newest of them whose run started. missed: the
    number of those that did not start; capped: at least that many.
    """

    through: datetime | None = None
    scheduled: datetime | None = None
    missed: int = 0
    capped: bool = False


@dataclass(frozen=True)
class Due:
    """The slots that are due and not handled yet.

    slots: the newest of them, oldest first; older: there are more. open: those whose runs may start now. in_order: no
    slot may be passed over for a newer one. started: those whose runs have had a Job. many: more than `MANY` of them
    are not older than startingDeadlineSeconds allows.
    """

    in_order: bool = False
    slots: tuple[datetime, ...] = ()
    older: bool = False
    open: tuple[datetime, ...] = ()
    started: frozenset[datetime] = field(default_factory=frozenset)
    many: bool = False

    def settled(self, starting: Collection[datetime]) -> Settled:
        """Returns the slots handled once the runs of these slots have started."""
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
        # A newer slot may still replace the waiting one: it counts as missed only when a newer one starts.
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
    """Returns the due slots later than `since`.

    started: true for a slot whose run has had a Job. resumed: the object was resumed or edited since the last decision,
    at most `EDIT_LAG` ago.
    """
    catch_up, all_of_them = spec.catch_up, in_order(spec)
    slots, older = timetable.newest(since, now, MANY + 1 + (catch_up.limit if all_of_them else 0))
    if slots and timetable.fires(slots[-1]) > now:
        # Jitter delays the newest at most: a run is never due after the next slot.
        slots.pop()
    candidates = slots[-catch_up.limit :] if all_of_them else slots[-1:]
    known = frozenset(slot for slot in slots if started(slot))
    if resumed and catch_up.policy == "None":
        candidates = [slot for slot in candidates if timetable.fires(slot) >= now - EDIT_LAG]
    may_start = tuple(
        slot
        for slot in candidates
        if slot not in known and ((limit := expiry(timetable, spec, slot)) is None or now < limit)
    )
    return Due(all_of_them, tuple(slots), older, may_start, known, _are_many(slots, older, spec, now))


def _are_many(slots: list[datetime], older: bool, spec: ScheduledJobSpec, now: datetime) -> bool:
    """True if more than `MANY` slots are missed; as in Kubernetes the starting deadline bounds those that count."""
    if spec.starting_deadline_seconds is None:
        return older or len(slots) > MANY
    deadline = times.duration(spec.starting_deadline_seconds)
    return sum(now - slot < deadline for slot in slots) > MANY


def in_order(spec: ScheduledJobSpec) -> bool:
    """True if all missed runs are made up for, the oldest first; otherwise the newest stands for all."""
    return spec.catch_up.policy == "All" and spec.concurrency_policy != "Replace"


def expiry(timetable: Timetable, spec: ScheduledJobSpec, slot: datetime) -> datetime | None:
    """Returns when the run of a slot may no longer start, counted from the end of its jitter; None for no limit."""
    deadline = _deadline(spec.catch_up, spec.starting_deadline_seconds)
    return None if deadline is None else timetable.fires(slot) + deadline + _SECOND


def _deadline(catch_up: CatchUp, seconds: int | None) -> timedelta | None:
    given = None if seconds is None else times.duration(seconds)
    if catch_up.policy != "None":
        return given
    return PROMPT if given is None else min(given, PROMPT)


SUSPENDED = TimingProblem("Suspended", "suspended: no run starts but those that are asked for")


def read_timing(view: ObservedSchedule, cursor: Cursor) -> Timing | TimingProblem:
    """Returns the timetable, or the problem with it. Kubernetes' order of checks: zone, suspension, schedule."""
    for name in _zones(view):
        if problem := cron.check_zone(name):
            return TimingProblem("UnknownTimeZone", f'invalid timeZone: "{name}": {problem}', view.dialect.zone)
    if view.spec.suspend:
        return SUSPENDED
    try:
        table = timetables.of(
            view.spec,
            uid=view.body["metadata"]["uid"],
            seconds=not view.is_cron_job,
            created=cursor.created,
            since=cursor.anchor,
        )
    except cron.CronError as error:
        if view.edited and view.is_cron_job:
            # Kubernetes finds it in the update's handler first, and says so in words of its own.
            message = f"unparseable schedule for cronjob: {', '.join(_texts(view))}"
            return TimingProblem("UnparseableSchedule", message, "UnParseableCronJobSchedule")
        quoted = ", ".join(f'"{text}"' for text in _texts(view))
        message = f"unparseable schedule: {quoted} : {error}"
        return TimingProblem("UnparseableSchedule", message, view.dialect.unparseable)
    except UserError as error:
        return TimingProblem("InvalidSpec", str(error), "InvalidSpec")
    if (first := table.next(cursor.at)) is None:
        why = _excluded(view) if table.fires_without_exclusions(cursor.at) else ""
        message = f"invalid schedule: {', '.join(_texts(view))} : it never fires{why}"
        return TimingProblem("NeverFires", message, "InvalidSchedule")
    return Timing(table, first)


def _excluded(view: ObservedSchedule) -> str:
    """Returns the end of a message: the fields that exclude every slot."""
    spec = view.spec
    fields = [*(["spec.exclusions"] if spec.exclusions else []), *(["spec.suspendUntil"] if spec.suspend_until else [])]
    return f": {' and '.join(fields)} {'excludes' if len(fields) == 1 else 'exclude'} every slot that was looked at"


def _zones(view: ObservedSchedule) -> list[str]:
    spec = view.spec
    named = [spec.time_zone]
    named += [each.time_zone for each in spec.schedules or ()]
    named += [each.time_zone for each in spec.exclusions]
    return [zone for zone in named if zone is not None]


def _texts(view: ObservedSchedule) -> list[str]:
    texts = [view.spec.schedule, *(each.schedule for each in view.spec.schedules or ())]
    return [text for text in texts if text]
