"""The decision about one CronJob or ScheduledJob: Kubernetes' semantics, made exact, and what people wished for.

What is seen comes first: the status, the cleaning up, what was asked for in vain. Then what is new: Jobs that take too
long or give way are deleted, Jobs are made, and the status says so. Status and Jobs are never one write, so every
step may be the last: a Job that was made is known by its name, whatever the status says.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from workers.api import scheduledjob as manifest
from workers.api import times
from workers.api.kinds import CRON_JOB, JOB, SCHEDULED_JOB, VC_CRON_JOB, VC_JOB, Object, Ref
from workers.api.volcano import cronjob as volcano
from workers.controllers import conditions
from workers.controllers.batch.cronjob import (
    concurrency,
    dialect,
    due,
    history,
    starting,
    status,
    timing,
    unexpected,
)
from workers.controllers.batch.cronjob.concurrency import Choice
from workers.controllers.batch.cronjob.cursor import MISSED, Cursor
from workers.controllers.batch.cronjob.due import Due, Settled
from workers.controllers.batch.cronjob.manual import RunRequest
from workers.controllers.batch.cronjob.observed import ObservedSchedule
from workers.controllers.batch.cronjob.runs import GRACE, REPLACED, RETRYING, RUNNING, ObservedRun
from workers.controllers.batch.cronjob.starting import Start
from workers.controllers.batch.cronjob.status import ScheduleReady
from workers.controllers.batch.cronjob.timetable import Timetable
from workers.controllers.batch.cronjob.timing import Timing, Trouble
from workers.errors import UserError
from workers.reconcile.controller import Controller
from workers.reconcile.plan import NOTHING, ComeBack, Patch, PatchStatus, Plan, RecordEvent, Step
from workers.reconcile.snapshot import Snapshot


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """What to do about a CronJob or ScheduledJob and its Jobs."""
    body = snapshot.body
    if body is None:
        return NOTHING
    try:
        spec = volcano.scheduled(body) if snapshot.ref.kind == VC_CRON_JOB else manifest.parse(body).spec
    except UserError as error:
        return _refused(snapshot, body, str(error), now)
    return _CronJobDecision(ObservedSchedule(snapshot, body, spec, now)).plan()


def _refused(snapshot: Snapshot, body: Object, message: str, now: datetime) -> Plan:
    """A manifest that says nothing that could be done."""
    record = RecordEvent("Warning", "InvalidSpec", message)
    if not dialect.of(snapshot.ref.kind).scheduled:
        return Plan((record,), "the manifest is wrong")
    observed = body.get("status") or {}
    new = status.merged(observed, _conditions(body, ScheduleReady("False", "InvalidSpec", message), now))
    return Plan((PatchStatus(new), record) if new != observed else (), "the manifest is wrong")


def _conditions(body: Object, ready: ScheduleReady, now: datetime) -> Object:
    return {
        "conditions": ready.render(body.get("status") or {}, now),
        "observedGeneration": body["metadata"].get("generation"),
    }


@dataclass(frozen=True)
class _CronJobDecision:
    """The decision about one object whose manifest is right."""

    sight: ObservedSchedule

    def plan(self) -> Plan:
        """All steps, in the order in which each may be the last."""
        starts = self._starts
        return Plan(
            (
                *self._seen(),
                *([cleaning] if (cleaning := self._cleaning) else ()),
                *unexpected.tell(self.sight.children.others, self.sight.dialect.unexpected),
                *self._told(),
                *([history.deletion(doomed, vital=True)] if (doomed := self._doomed) else ()),
                *(self._made(starts) if starts else ()),
                *self._come_back(),
            ),
            self._why(),
        )

    # What is seen

    @cached_property
    def _timing(self) -> Timing | Trouble:
        return timing.of(self.sight, self._cursor)

    @property
    def _clockwork(self) -> Timing | None:
        """When runs are due; None when nothing starts by the clock."""
        return self._timing if isinstance(self._timing, Timing) and not self.sight.leaving else None

    @property
    def _table(self) -> Timetable | None:
        return self._clockwork.table if self._clockwork else None

    @cached_property
    def _cursor(self) -> Cursor:
        """How far slots are handled. One that is absurdly far ahead is set back to now: nobody wants to wait for it."""
        seen = self.sight.cursor
        return Cursor(seen.created, scheduled=self.sight.now) if seen.is_absurd(self.sight.now) else seen

    @cached_property
    def _due(self) -> Due | None:
        if self._clockwork is None:
            return None
        if self._clockwork.first > self.sight.now:
            return Due()
        return due.of(
            self._clockwork.table,
            self.sight.spec,
            self._cursor.at,
            self.sight.now,
            started=self.sight.started,
            resumed=self.sight.resumed,
        )

    @property
    def _requests(self) -> list[RunRequest]:
        """What was asked for and was not seen to."""
        return [each for each in self.sight.asked[0] if not self.sight.had(self.sight.names.manual(each.id))]

    @cached_property
    def _choice(self) -> Choice:
        """What starts now."""
        sight = self.sight
        if sight.leaving:
            return Choice()
        at_work = any(not run.over for run in sight.runs)
        slots = self._due.open if self._due else ()
        policy = sight.spec.concurrency_policy
        return concurrency.choose(policy, at_work=at_work, requests=self._requests, slots=slots)

    @cached_property
    def _runs(self) -> tuple[ObservedRun, ...]:
        """The runs before anything starts. Those that give way are over."""
        if not self._choice.replaces:
            return self.sight.runs
        return tuple(
            run if run.over else run.ended(REPLACED, self.sight.now, "Replaced", "A newer run took its place")
            for run in self.sight.runs
        )

    @cached_property
    def _starts(self) -> list[Start]:
        """The Jobs that are made now."""
        again = starting.retries(self.sight, self._runs, self._table) if self._table else ()
        return [*starting.starts(self.sight, self._choice, self._table), *again]

    @cached_property
    def _known(self) -> list[ObservedRun]:
        """The runs once those that start now have started."""
        new = {start.run.name: start.run for start in self._starts}
        return [*(run for run in self._runs if run.name not in new), *new.values()]

    def _seen(self) -> Iterator[Step]:
        """Write down what is seen, and tell of it. In this order a crash may lose an Event and repeats none."""
        settled = self._due.settled(()) if self._due else Settled()
        new = self._status(self._runs, settled)
        if new != self.sight.status:
            yield PatchStatus(new)
        if annotations := self._annotations(settled):
            yield self._patch(annotations)
        yield from status.changes(self.sight.status, self.sight.children.ours, self.sight.dialect.missing)
        if self._due:
            yield from status.missed(settled, self._cursor.at)

    def _annotations(self, settled: Settled) -> Object:
        """Requests that have been seen to are taken off; a CronJob carries what it missed."""
        requests, refused = self.sight.asked
        had = [each.annotation for each in requests if self.sight.had(self.sight.names.manual(each.id))]
        changed: Object = dict.fromkeys([*had, *(each.annotation for each in refused)])
        if self.sight.is_cron_job:
            before, after = self.sight.cursor.missed, self._moved(settled).missed
            if before != after:
                changed[MISSED] = times.render(after) if after else None
        return changed

    def _patch(self, annotations: Object) -> Patch:
        version = self.sight.body["metadata"]["resourceVersion"]
        return Patch(self.sight.snapshot.ref, {"metadata": {"annotations": annotations}}, version)

    @property
    def _cleaning(self) -> Step | None:
        spec = self.sight.spec
        # Attempts of a run that goes on are no history yet.
        at_work = self.sight.attempts_of(run for run in self._runs if not run.over)
        finished = [job for job in self.sight.finished if job["metadata"]["name"] not in at_work]
        return history.clean_up(finished, spec.successful_jobs_history_limit, spec.failed_jobs_history_limit)

    @property
    def _doomed(self) -> list[Object]:
        """Jobs at work whose runs are over: they took too long, or give way."""
        return [job for run in self._runs if run.over and (job := run.live)]

    # The status

    def _moved(self, settled: Settled) -> Cursor:
        """The cursor once this is settled."""
        cursor = self._cursor
        if settled.scheduled:
            cursor = replace(cursor, scheduled=settled.scheduled)
        # A Job may be all there is to tell that its slot is handled: it was made by a plan that went no further, and
        # since then the schedule was edited or suspended. Of slots that are made up for in order it tells of one only.
        if (
            not due.in_order(self.sight.spec)
            and (made := self.sight.newest)
            and made > (cursor.scheduled or cursor.created)
        ):
            cursor = replace(cursor, scheduled=made)
        if settled.through and settled.through != settled.scheduled:
            cursor = replace(cursor, missed=settled.through)
        return cursor

    def _status(self, runs: Iterable[ObservedRun], settled: Settled) -> Object:
        """The whole status. runs: those it tells of."""
        sight, cursor, known = self.sight, self._moved(settled), list(runs)
        active = [job for run in known if not run.over and (job := run.live)]
        computed = status.common(sight.status, active, cursor, sight.jobs)
        if not sight.is_cron_job:
            following = self._following(cursor)
            lost = (sight.status.get("missedRuns") or 0) + settled.missed
            computed |= {
                "lastMissedTime": times.render(cursor.missed) if cursor.missed else None,
                "nextScheduleTime": times.render(following) if following else None,
                "missedRuns": lost or None,
                **status.runs(known, sight.spec.outcomes_limit),
            }
            if not sight.leaving:
                computed |= _conditions(sight.body, self._ready, sight.now)
        return status.merged(sight.status, computed)

    def _following(self, cursor: Cursor) -> datetime | None:
        """The first slot that is not handled when the cursor is there."""
        if self._clockwork is None or cursor.at == self._cursor.at:
            return self._clockwork.first if self._clockwork else None
        return self._clockwork.table.next(cursor.at)

    @property
    def _ready(self) -> ScheduleReady:
        if isinstance(self._timing, Trouble):
            return ScheduleReady("False", self._timing.reason, self._timing.message)
        if error := self.sight.failing:
            return ScheduleReady("False", "ReconcileFailing", f"the last attempt failed: {error}")
        return ScheduleReady("True", "Scheduled", "runs start when they are due")

    # What to tell, and what is new

    def _told(self) -> Iterator[RecordEvent]:
        """What to tell beside what changed."""
        sight, trouble = self.sight, self._timing
        if sight.leaving:
            return
        for refused in sight.asked[1]:
            yield RecordEvent("Warning", "InvalidRunRequest", f"annotation {refused.annotation}: {refused.why}")
        if isinstance(trouble, Trouble) and trouble.event and self._is_news(trouble):
            yield RecordEvent("Warning", trouble.event, trouble.message)
        if sight.cursor.is_ahead(sight.now):
            yield self._ahead()
        if self._choice.waits:
            yield RecordEvent(*sight.dialect.waits, _WAITS)
        if self._choice.replaces and sight.dialect.replaces:
            yield RecordEvent("Warning", sight.dialect.replaces, _REPLACES)
        if self._due and self._choice.slots:
            if self._due.many:
                yield RecordEvent("Warning", "TooManyMissedTimes", _TOO_MANY)
            if "TZ" in (sight.spec.schedule or ""):
                yield RecordEvent("Warning", "UnsupportedSchedule", _ZONE_IN_TEXT)
            if self._shares_its_name(self._choice.slots[-1]):
                yield RecordEvent("Warning", "UnsupportedSchedule", _SEVERAL_A_MINUTE)

    def _shares_its_name(self, slot: datetime) -> bool:
        """Whether the run of the slot after this one will be taken for this one's."""
        after = self._table.next(slot) if self._table else None
        names = self.sight.names
        return after is not None and names.slot(after) == names.slot(slot)

    def _is_news(self, trouble: Trouble) -> bool:
        """A ScheduledJob's condition remembers what was told."""
        before = conditions.find(self.sight.body, "Ready") or {}
        told = (before.get("reason"), before.get("message"))
        return self.sight.is_cron_job or told != (trouble.reason, trouble.message)

    def _ahead(self) -> RecordEvent:
        seen = self.sight.cursor
        what = f"The last handled schedule time {times.render(seen.at)} is in the future"
        if seen.is_absurd(self.sight.now):
            return RecordEvent("Warning", "ScheduleTimeInFuture", f"{what}; it was set back to now")
        return RecordEvent(
            "Warning", "ScheduleTimeInFuture", f"{what}: nothing is run twice, so nothing is due until then"
        )

    def _made(self, starts: list[Start]) -> Iterator[Step]:
        """Make the Jobs and write down that they were made: a name that somebody else has is not tried again."""
        sight, choice = self.sight, self._choice
        yield starting.creation(sight, starts)
        yield from starting.skews(sight.now, choice.slots)
        settled = self._due.settled(choice.slots) if self._due else Settled()
        made = tuple(Ref(sight.dialect.child, sight.snapshot.ref.namespace, start.order.name) for start in starts)
        yield PatchStatus(self._status(self._known, settled), made)
        if choice.requests:
            yield self._patch({request.annotation: None for request in choice.requests})
        if self._due:
            told = self._due.settled(()).missed
            yield from status.missed(replace(settled, missed=settled.missed - told), self._cursor.at)

    # When to look again

    def _come_back(self) -> Iterator[ComeBack]:
        if self.sight.failing or (self._starts and self._leaves_something):
            # What one plan had no room for is next, and what failed is known to work again.
            yield ComeBack(self.sight.now)
        elif moments := list(self._moments()):
            yield ComeBack(min(moments))

    @property
    def _leaves_something(self) -> bool:
        """Whether something could start that does not start with what does."""
        retrying = any(run.outcome == RETRYING and run.again and run.again <= self.sight.now for run in self._known)
        open_ = self._due.open if self._due else ()
        return retrying or len(self._requests) > len(self._choice.requests) or len(open_) > len(self._choice.slots)

    def _moments(self) -> Iterator[datetime]:
        """When something becomes due by itself."""
        sight, clockwork = self.sight, self._clockwork
        if sight.leaving:
            return
        for run in self._known:
            deadline = sight.limits.deadline(run)
            if run.outcome == RUNNING and deadline:
                yield deadline + GRACE
            elif run.outcome == RETRYING:
                yield from (each for each in (deadline, run.again if clockwork else None) if each)
        if clockwork is None or self._due is None:
            return
        table = clockwork.table
        waiting = (slot for slot in self._due.open if slot not in self._choice.slots)
        limits = (due.expiry(table, sight.spec, slot) for slot in waiting)
        yield from (limit for limit in limits if limit)
        following = table.next(self._due.slots[-1]) if self._due.slots else clockwork.first
        if following and (at := table.fires(following)) > sight.now:
            yield at
        elif following := table.next(sight.now):
            # The search for what is due gave up among windows that exclude all of it.
            yield table.fires(following)

    def _why(self) -> str:
        """One line for people: what was decided and from which numbers."""
        at_work = sum(not run.over for run in self._runs)
        open_ = len(self._due.open) if self._due else 0
        reason = f" ({self._timing.reason})" if isinstance(self._timing, Trouble) else ""
        return f"{at_work} at work, {open_} due: {len(self._starts)} to create{reason}"


_WAITS = "Not starting job because prior execution is running and concurrency policy is Forbid"
_REPLACES = "Jobs that are still running give way to the next one: the concurrency policy is Replace"
_TOO_MANY = (
    f"More than {due.MANY} start times were missed. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
)
_ZONE_IN_TEXT = "a time zone belongs into .spec.timeZone; TZ or CRON_TZ in .spec.schedule is not supported"
_SEVERAL_A_MINUTE = "the schedule has several times in one minute, and Jobs are named by the minute: one of them runs"

CRON_JOBS = Controller(kind=CRON_JOB, decide=decide, children=(JOB,))
SCHEDULED_JOBS = Controller(kind=SCHEDULED_JOB, decide=decide, children=(JOB,))
VOLCANO_CRON_JOBS = Controller(kind=VC_CRON_JOB, decide=decide, children=(VC_JOB,))
