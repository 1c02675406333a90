"""What differs between the kinds that make Jobs by the clock: whose Jobs they make, and what they call things."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from workers.api.kinds import CRON_JOB, JOB, SCHEDULED_JOB, VC_CRON_JOB, VC_JOB, Kind

#: The type and the reason of an Event.
Told = tuple[Literal["Normal", "Warning"], str]


@dataclass(frozen=True, slots=True)
class Dialect:
    """child: the kind of the Jobs. slot: their annotation that says which slot they are for.

    scheduled: the object is a ScheduledJob, which may fire every second and remembers what became of its runs; all
    others are CronJobs. The rest are Events: of a zone that does not exist, of a schedule that cannot be read, of a Job
    that somebody else made, of one that went missing, of a run that waits for another, of one that takes another's
    place (None: nothing is told).
    """

    child: Kind = JOB
    slot: str = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    scheduled: bool = False
    zone: str = "UnknownTimeZone"
    unparseable: str = "UnparseableSchedule"
    unexpected: str = "UnexpectedJob"
    missing: Told = ("Normal", "MissingJob")
    waits: Told = ("Normal", "JobAlreadyActive")
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

#: The annotations of all of them that say which slot a Job is for.
SLOTS = tuple(dict.fromkeys(each.slot for each in _DIALECTS.values()))


def of(kind: Kind) -> Dialect:
    """The dialect of a kind."""
    return _DIALECTS[kind]
