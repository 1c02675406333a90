"""The rows of ``penstock top``, calculated from objects, their Jobs and the last readings."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from deploy.object_rows import derivation
from scheduler.queue import Stats
from workers.api import bool_annotations, conditions, times
from workers.api.keda.scaledjob import HISTORY_LIMIT
from workers.api.kinds import (
    CRON_JOB,
    EVENT_JOB,
    JOB,
    SCALED_JOB,
    SCALED_OBJECT,
    SCHEDULED_JOB,
    VC_JOB,
    Kind,
    Object,
    Ref,
    controller_of,
)
from workers.api.penstock_dev.scheduledjob import ScheduledJobSpec
from workers.decision.snapshot import Reading

#: The kinds that are shown, in the order of the key that switches them.
SHOWN: tuple[Kind, ...] = (EVENT_JOB, SCALED_JOB, SCALED_OBJECT, SCHEDULED_JOB, CRON_JOB, VC_JOB, JOB)
#: Kinds that are paused by an annotation; the others by `spec.suspend`.
ANNOTATED = frozenset({SCALED_JOB.id, SCALED_OBJECT.id})
#: Jobs younger than this count in the rate.
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class TopRow:
    """One object. None stands for a number that is unknown, or that objects of the kind do not have.

    waiting: events, items or units of the triggers. active: unfinished Jobs; of a Job its running pods. parked: events
    whose last attempt has failed. rate: Jobs created within the last minute. at_least: more may have been, which are
    deleted already. state: a word for people, as the page has it. since: when the object was created. why: the reason
    of the state, empty where the word says all. paused: by a user.
    """

    ref: Ref
    state: str
    waiting: float | None = None
    active: int | None = None
    parked: int | None = None
    rate: int | None = None
    at_least: bool = False
    since: datetime | None = None
    why: str = ""
    paused: bool = False


@dataclass(frozen=True, slots=True)
class TopView:
    """All that one refresh of the screen shows.

    lanes: by name, None where the broker does not answer. missing: kinds that could not be listed, with the reason.
    """

    rows: tuple[TopRow, ...]
    lanes: Mapping[str, Stats] | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobTally:
    """The Jobs of one owner: those that have not finished, and those that were created within the last minute.

    finished: number of the others, by their outcome. old: outcomes of which one was created before the last minute.
    """

    active: int = 0
    young: int = 0
    finished: Mapping[str, int] = field(default_factory=dict)
    old: frozenset[str] = frozenset()


def tally(jobs: Iterable[Object], now: datetime) -> dict[str, JobTally]:
    """Returns the counts of Jobs by their controller's uid."""
    active: Counter[str] = Counter()
    young: Counter[str] = Counter()
    finished: defaultdict[str, Counter[str]] = defaultdict(Counter)
    old: defaultdict[str, set[str]] = defaultdict(set)
    for job in jobs:
        owner = controller_of(job)
        if owner is None:
            continue
        uid, outcome = str(owner.get("uid", "")), conditions.finished(job)
        active[uid] += outcome is None
        created = times.instant(job["metadata"].get("creationTimestamp"))
        is_young = created is not None and now - created < MINUTE
        young[uid] += is_young
        if outcome is not None:
            finished[uid][outcome] += 1
            old[uid] |= set() if is_young else {outcome}
    return {uid: JobTally(active[uid], young[uid], finished[uid], frozenset(old[uid])) for uid in active}


def row(
    kind: Kind, body: Object, tallies: Mapping[str, JobTally] | None, readings: Mapping[str, Reading] | None
) -> TopRow:
    """Returns the row of one object.

    tallies: None where Jobs could not be listed. readings: by key; None where the broker does not answer.
    """
    metadata = body["metadata"]
    ref = Ref(kind, metadata.get("namespace") or "", metadata["name"])
    counted = None if tallies is None else tallies.get(metadata.get("uid", ""), JobTally())
    waiting, active, parked = _numbers(ref, body, counted, readings)
    owns = kind.id in (EVENT_JOB.id, SCALED_JOB.id, SCHEDULED_JOB.id, CRON_JOB.id)
    rate = counted.young if counted is not None and owns else None
    at_least = rate is not None and counted is not None and _may_lack_some(kind, body.get("spec") or {}, counted)
    since, shown = times.instant(metadata.get("creationTimestamp")), derivation.derived(ref, body)
    paused = bool_annotations.is_paused(body) if kind.id in ANNOTATED else bool((body.get("spec") or {}).get("suspend"))
    return TopRow(ref, shown.phase, waiting, active, parked, rate, at_least, since, shown.message, paused)


#: By kind id, where an object says how long its finished Jobs stay.
_TTLS: Mapping[str, tuple[str, ...]] = {
    EVENT_JOB.id: ("ttlSecondsAfterFinished", "jobTemplate.spec.ttlSecondsAfterFinished"),
    SCALED_JOB.id: ("jobTargetRef.ttlSecondsAfterFinished",),
    SCHEDULED_JOB.id: ("jobTemplate.spec.ttlSecondsAfterFinished",),
    CRON_JOB.id: ("jobTemplate.spec.ttlSecondsAfterFinished",),
}
_LIMITS = {"Complete": "successfulJobsHistoryLimit", "Failed": "failedJobsHistoryLimit"}
_RUNS: Mapping[str, int] = {
    "Complete": ScheduledJobSpec.model_fields["successful_jobs_history_limit"].default,
    "Failed": ScheduledJobSpec.model_fields["failed_jobs_history_limit"].default,
}
#: By kind id, how many finished Jobs of each outcome stay where the object does not say.
_HISTORY: Mapping[str, Mapping[str, int]] = {
    SCALED_JOB.id: dict.fromkeys(_LIMITS, HISTORY_LIMIT),
    SCHEDULED_JOB.id: _RUNS,
    CRON_JOB.id: _RUNS,
}


def _may_lack_some(kind: Kind, spec: Object, counted: JobTally) -> bool:
    """Returns True if a Job may have been created within the last minute and be deleted already."""
    for path in _TTLS.get(kind.id, ()):
        found: Any = spec
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, int) and found < MINUTE.seconds:
            return True
    for outcome, default in _HISTORY.get(kind.id, {}).items():
        limit = _integer(spec.get(_LIMITS[outcome]))
        most = default if limit is None else limit
        # The oldest are deleted first: with an older one left, no young one has been.
        if counted.finished.get(outcome, 0) >= most and outcome not in counted.old:
            return True
    return False


def _numbers(
    ref: Ref, body: Object, counted: JobTally | None, readings: Mapping[str, Reading] | None
) -> tuple[float | None, int | None, int | None]:
    """Returns the numbers of waiting work, of unfinished Jobs, and of parked events."""
    status: Object = body.get("status") or {}
    if ref.kind.id == EVENT_JOB.id:
        events: dict[str, int | None] = status.get("events") or {}
        known = [events.get(name) for name in ("waiting", "delayed", "retrying")]
        waiting = float(sum(each or 0 for each in known)) if events else None
        return waiting, counted.active if counted else status.get("active"), events.get("parked")
    if ref.kind.id in ANNOTATED:
        reading = (readings or {}).get(ref.key)
        active = counted.active if counted is not None and ref.kind.id == SCALED_JOB.id else None
        counts = reading.ledger.counts if reading is not None and reading.ledger else None
        return _measured(reading), active, counts.get("parked") if counts else None
    if ref.kind.id in (SCHEDULED_JOB.id, CRON_JOB.id):
        return None, counted.active if counted else None, None
    if ref.kind.id == VC_JOB.id:
        return _integer(status.get("pending")), _integer(status.get("running")), None
    return None, _integer(status.get("active")) or 0, None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _measured(reading: Reading | None) -> float | None:
    """Returns the sum of the triggers' values; None without a reading, or if one is unknown."""
    if reading is None or reading.problem or any(sample.failure for sample in reading.samples):
        return None
    return sum(sample.value for sample in reading.samples)


# --- order, filter and words

Key = Callable[[TopRow], Any]

#: The columns and the order of the rows by each: numbers begin with the largest, unknown ones come last.
COLUMNS: Mapping[str, Key] = {
    "KIND": lambda row: row.ref.kind.kind,
    "NAMESPACE": lambda row: row.ref.namespace,
    "NAME": lambda row: row.ref.name,
    "STATE": lambda row: row.state,
    "WAITING": lambda row: _largest(row.waiting),
    "ACTIVE": lambda row: _largest(row.active),
    "PARKED": lambda row: _largest(row.parked),
    "JOBS/MIN": lambda row: _largest(row.rate),
    "AGE": lambda row: -row.since.timestamp() if row.since else 0.0,
}


def _largest(number: float | None) -> float:
    return 1.0 if number is None else -number


def ordered(rows: Iterable[TopRow], column: str, *, backwards: bool = False) -> list[TopRow]:
    """Returns the rows in the order of a column; rows that are equal there by kind, namespace and name."""
    by_name = sorted(rows, key=lambda row: (row.ref.kind.kind, row.ref.namespace, row.ref.name))
    return sorted(by_name, key=COLUMNS[column], reverse=backwards)


def chosen(rows: Iterable[TopRow], kind: Kind | None, text: str) -> list[TopRow]:
    """Returns the rows of a kind (None: of all) whose kind, namespace, name, state or reason contains the text."""
    wanted = text.casefold()
    return [row for row in rows if kind in (None, row.ref.kind) and wanted in _searched(row)]


def _searched(row: TopRow) -> str:
    return f"{row.ref.kind.kind} {row.ref.namespace}/{row.ref.name} {row.state} {row.why}".casefold()


def cells(row: TopRow, age: str) -> list[str]:
    """Returns the texts of a row, one per column. A hyphen stands for a number that is unknown or that there is not."""
    numbers = (row.waiting, row.active, row.parked, row.rate)
    texts = ["-" if number is None else f"{number:g}" for number in numbers]
    if row.at_least:
        texts[-1] = f"{row.rate}+" if row.rate else "-"
    return [row.ref.kind.kind, row.ref.namespace, row.ref.name, row.state, *texts, age]


def pipeline(lanes: Mapping[str, Stats] | None) -> list[str]:
    """Returns a line for each lane of the work queue."""
    if lanes is None:
        return ["broker      does not answer: the pipeline and what triggers measured are unknown"]
    return [f"{name:11} {_lane(stats)}" for name, stats in sorted(lanes.items(), reverse=True)]


def _lane(stats: Stats) -> str:
    oldest = f", oldest {stats.oldest:.1f} s" if stats.oldest is not None else ""
    failing = f", {stats.failing} failing" if stats.failing else ""
    return f"{stats.ready} ready{oldest}, {stats.leased} at work, {stats.due} due, {stats.later} later{failing}"


def as_objects(view: TopView, rows: Sequence[TopRow]) -> Object:
    """Returns a view in the form of ``-o json``. Unknown numbers are null."""
    return {
        "lanes": None
        if view.lanes is None
        else {
            name: {
                "ready": each.ready,
                "leased": each.leased,
                "due": each.due,
                "later": each.later,
                "failing": each.failing,
                "oldestSeconds": each.oldest,
            }
            for name, each in view.lanes.items()
        },
        "objects": [
            {
                "kind": row.ref.kind.kind,
                "apiVersion": row.ref.kind.api_version,
                "namespace": row.ref.namespace,
                "name": row.ref.name,
                "state": row.state,
                "why": row.why,
                "waiting": row.waiting,
                "active": row.active,
                "parked": row.parked,
                "jobsPerMinute": None if row.at_least else row.rate,
                "jobsOfLastMinute": row.rate,
                "since": times.render(row.since) if row.since else None,
            }
            for row in rows
        ],
        "missing": dict(view.missing),
    }
