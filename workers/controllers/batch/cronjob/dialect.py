"""Differences between CronJob, ScheduledJob and Volcano's CronJob: the kind of their Jobs, annotations and Events."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from workers.api.kinds import CRON_JOB, JOB, SCHEDULED_JOB, VC_CRON_JOB, VC_JOB, Kind

#: The type and the reason of an Event.
EventType = tuple[Literal["Normal", "Warning"], str]


@dataclass(frozen=True, slots=True)
class Dialect:
    """child: the kind of the Jobs. slot: the annotation with the slot of a Job.

    scheduled: the object is a ScheduledJob, which may fire every second and records the outcomes of its runs; all
    others are CronJobs. The rest are Events: unknown zone, malformed schedule, Job of another creator, missing Job, run
    that waits for another, run that replaces another (None: no Event).
    """

    child: Kind = JOB
    slot: str = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    scheduled: bool = False
    zone: str = "UnknownTimeZone"
    unparseable: str = "UnparseableSchedule"
    unexpected: str = "UnexpectedJob"
    missing: EventType = ("Normal", "MissingJob")
    waits: EventType = ("Normal", "JobAlreadyActive")
    replaces: str | None = None


_DIALECTS: Mapping[Kind, Dialect] = {
    CRON_JOB: Dialect(),
    SCHEDULED_JOB: Dialect(scheduled=True),
    VC_CRON_JOB: Dialect(
        child=VC_JOB,
        slot="volcano.sh/cronjob-scheduled-timestamp",
        zone="InvalidTimeZone",
        unparseable="UnParseableCronJobSchedule",
        unexpected="OrphanedJob",
        missing=("Warning", "StaleReference"),
        waits=("Warning", "ForbidConcurrent"),
        replaces="ReplaceConcurrent",
    ),
}

#: The slot annotations of all kinds.
SLOTS = tuple(dict.fromkeys(each.slot for each in _DIALECTS.values()))


def of(kind: Kind) -> Dialect:
    """Returns the dialect of a kind."""
    return _DIALECTS[kind]
