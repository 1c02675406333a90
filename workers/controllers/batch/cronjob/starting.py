"""The Jobs that are made now: of slots, of requests, and further attempts of runs whose Job failed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from workers.controllers.batch.cronjob import jobs
from workers.controllers.batch.cronjob.concurrency import HELPING, Choice
from workers.controllers.batch.cronjob.jobs import RunOrder
from workers.controllers.batch.cronjob.observed import ObservedSchedule
from workers.controllers.batch.cronjob.runs import RETRYING, RUNNING, ObservedRun
from workers.controllers.batch.cronjob.timetable import Timetable
from workers.reconcile.plan import CountMetric, Create, RecordEvent, Step, Together


@dataclass(frozen=True, slots=True)
class Start:
    """A Job to make, and its run as it is then."""

    order: RunOrder
    run: ObservedRun


def starts(sight: ObservedSchedule, choice: Choice, table: Timetable | None) -> Iterator[Start]:
    """What the choice starts. table: None when nothing starts by the clock."""
    limit = sight.limits.time
    seconds = int(limit.total_seconds()) if limit else None
    for request in choice.requests:
        name = sight.names.manual(request.id)
        run = ObservedRun(name, id=request.id, attempts=1, started=sight.now, env=request.env)
        yield Start(RunOrder(name, jobs.of_request(request.id), env=request.env, time_limit=seconds), run)
    if table is None:
        return
    for slot in choice.slots:
        name, line = sight.names.slot(slot), table.line(slot)
        run = ObservedRun(name, slot, line.text, attempts=1, started=sight.now)
        annotations = jobs.of_slot(sight.kind, slot, line.text, line.zone)
        yield Start(RunOrder(name, annotations, time_limit=seconds), run)


def retries(sight: ObservedSchedule, known: Iterable[ObservedRun], table: Timetable) -> Iterator[Start]:
    """Further attempts that are due."""
    due = [run for run in known if run.outcome == RETRYING and run.again and run.again <= sight.now]
    for run in due[:HELPING]:
        deadline = sight.limits.deadline(run)
        left = max(1, (deadline - sight.now) // timedelta(seconds=1)) if deadline else None
        again = replace(run, attempts=run.attempts + 1, outcome=RUNNING, again=None, reason="", message="", job=None)
        yield Start(RunOrder(run.name, _purpose(sight, run, table), again.attempts, run.env, left), again)


def _purpose(sight: ObservedSchedule, run: ObservedRun, table: Timetable) -> dict[str, str]:
    if run.slot is None:
        return jobs.of_request(run.id)
    zone = next((line.zone for line in table.lines if line.text == run.schedule), None)
    return jobs.of_slot(sight.kind, run.slot, run.schedule, zone)


def creation(sight: ObservedSchedule, starts: list[Start]) -> Together:
    """Make the Jobs. A name that somebody else's Job has is told of, and its run does not come to be."""
    said = f"job {starts[0].order.name}" if len(starts) == 1 else "{done} jobs"
    return Together(
        tuple(
            Create(
                sight.dialect.child,
                jobs.build(sight.owner, sight.spec.job_template, start.order),
                taken=_taken(start.order.name),
            )
            for start in starts
        ),
        then=RecordEvent("Normal", "SuccessfulCreate", f"Created {said}"),
        otherwise=RecordEvent("Warning", "FailedCreate", "Error creating job: {error}"),
    )


def _taken(name: str) -> RecordEvent:
    return RecordEvent(
        "Warning", "FailedCreate", f"Job {name} exists and belongs to somebody else: this run is left out"
    )


def skews(now: datetime, slots: Iterable[datetime]) -> list[Step]:
    """How long after their slots Jobs were made."""
    return [CountMetric("job_creation_skew", (now - slot).total_seconds()) for slot in slots]
