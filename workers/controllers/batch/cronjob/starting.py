"""The runs that start now: the concurrency policy chooses them, and each becomes a Job to create."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from scheduler import cron
from workers.api.penstock_dev.scheduledjob import ConcurrencyPolicy
from workers.controllers.batch.cronjob import jobs, timetable
from workers.controllers.batch.cronjob.jobs import RunOrder
from workers.controllers.batch.cronjob.observed import ObservedSchedule
from workers.controllers.batch.cronjob.run_requests import RunRequest
from workers.controllers.batch.cronjob.runs import RUNNING, ObservedRun
from workers.controllers.batch.cronjob.timetable import Timetable
from workers.decision.plan import Create, RecordEvent, Together

#: Runs that one plan starts at most; the rest follows at once.
MAX_STARTS = 100


@dataclass(frozen=True, slots=True)
class Choice:
    """The requests and slots whose runs start now.

    replaces: unfinished runs are ended first. waits: a run waits for an unfinished one.
    """

    requests: tuple[RunRequest, ...] = ()
    slots: tuple[datetime, ...] = ()
    replaces: bool = False
    waits: bool = False


def choose(
    policy: ConcurrencyPolicy, *, busy: bool, requests: Sequence[RunRequest], slots: Sequence[datetime]
) -> Choice:
    """Chooses among requested runs and open slots (oldest first). busy: a run is unfinished."""
    if not requests and not slots:
        return Choice()
    match policy:
        case "Allow":
            requested = tuple(requests[:MAX_STARTS])
            return Choice(requested, tuple(slots[: MAX_STARTS - len(requested)]))
        case "Forbid":
            if busy:
                return Choice(waits=True)
            # Requests go first: behind a schedule of every second they would never start.
            return Choice(tuple(requests[:1])) if requests else Choice(slots=tuple(slots[:1]))
        case "Replace":
            # Requests go last: the run of the slot would end theirs at once.
            return Choice(slots=tuple(slots[-1:]), replaces=busy) if slots else Choice(tuple(requests[:1]), (), busy)


@dataclass(frozen=True, slots=True)
class Start:
    """A Job to create, and its run once it exists."""

    order: RunOrder
    run: ObservedRun


def starts(view: ObservedSchedule, choice: Choice, table: Timetable | None) -> Iterator[Start]:
    """Yields the Jobs of the choice. table: None when nothing starts by the clock."""
    limit = view.limits.time
    seconds = int(limit.total_seconds()) if limit else None
    # In whole seconds, as the status keeps it: the order of runs depends on it.
    started = view.now.replace(microsecond=0)
    for request in choice.requests:
        name = view.names.manual(request.id)
        run = ObservedRun(name, id=request.id, attempts=1, started=started, env=request.env)
        yield Start(RunOrder(name, jobs.of_request(request.id), env=request.env, time_limit=seconds), run)
    if table is None:
        return
    for slot in choice.slots:
        name, line = view.names.slot(slot), table.line(slot)
        run = ObservedRun(name, slot, line.text, attempts=1, started=started)
        annotations = jobs.of_slot(view.kind, slot, line.text, line.zone)
        yield Start(RunOrder(name, annotations, time_limit=seconds), run)


def retries(view: ObservedSchedule, runs: Iterable[ObservedRun]) -> Iterator[Start]:
    """Yields the further attempts that are due."""
    due = [run for run in runs if (at := view.next_attempt(run)) and at <= view.now]
    for run in due[:MAX_STARTS]:
        deadline = view.limits.deadline(run)
        left = max(1, (deadline - view.now) // timedelta(seconds=1)) if deadline else None
        if run.slot is None:
            annotations = jobs.of_request(run.id)
        else:
            annotations = jobs.of_slot(view.kind, run.slot, run.schedule, _zone(view, run.schedule))
        again = replace(run, attempts=run.attempts + 1, outcome=RUNNING, again=None, reason="", message="", job=None)
        yield Start(RunOrder(run.name, annotations, again.attempts, run.env, left), again)


def _zone(view: ObservedSchedule, schedule: str) -> str | None:
    """Returns the time zone of a schedule; None if it has none, if it is unknown, or if the spec lacks the schedule."""
    zone = next((zone for text, zone in timetable.schedules(view.spec) if text == schedule), None)
    return None if zone is None or cron.check_zone(zone) else zone


def creation(view: ObservedSchedule, starts: Sequence[Start]) -> Together:
    """Creates the Jobs. If an unrelated Job has the name, an Event says so and that run is left out."""
    subject = f"job {starts[0].order.name}" if len(starts) == 1 else "{done} jobs"
    return Together(
        tuple(
            Create(
                view.dialect.child,
                jobs.build(view.kind, view.body, view.spec.job_template, start.order),
                taken=_taken(start.order.name),
            )
            for start in starts
        ),
        then=RecordEvent("Normal", "SuccessfulCreate", f"Created {subject}"),
        otherwise=RecordEvent("Warning", "FailedCreate", "Error creating job: {error}"),
    )


def _taken(name: str) -> RecordEvent:
    return RecordEvent("Warning", "FailedCreate", f"Job {name} exists and is not this object's: this run is left out")
