"""`penstock.dev/v1alpha1` ScheduledJob as a typed model: a CronJob's spec, and what users of CronJob have wished for.

A `batch/v1` CronJob is read with the same model: the fields it does not have keep the defaults, and the defaults are
Kubernetes' behaviour.
"""

from typing import Any, Literal

from workers.api import model
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, Object
from workers.api.model import Items, Model
from workers.api.scaledjob import Natural, Positive, Text

ConcurrencyPolicy = Literal["Allow", "Forbid", "Replace"]
CatchUpPolicy = Literal["Latest", "All", "None"]


class Timetable(Model):
    """One of several schedules of an object."""

    schedule: Text
    """Five fields as in a CronJob, or six with seconds in front."""
    time_zone: str | None = None
    """IANA name; default the object's."""


class CatchUp(Model):
    """Which of the runs that were missed are made up for."""

    policy: CatchUpPolicy = "Latest"
    """Latest: the newest missed run, as Kubernetes does. All: every one, oldest first. None: no run that is late."""
    limit: Positive = 100
    """All: the newest so many; older ones are counted as missed and named in an Event."""


class Exclusion(Model):
    """A time in which no run starts: start to end, whole days, or after every slot of a schedule."""

    start: Text | None = None
    """RFC 3339; included."""
    end: Text | None = None
    """RFC 3339; not included."""
    dates: Items[Text] | None = None
    """Days as YYYY-MM-DD in the time zone."""
    schedule: Text | None = None
    """Every slot of this schedule opens a window."""
    duration_seconds: Positive | None = None
    """How long a window that `schedule` opens lasts."""
    time_zone: str | None = None
    """IANA name; default the object's."""


class Retry(Model):
    """What happens when a run's Job has failed for good."""

    limit: Natural
    """So many further Jobs for the same run."""
    delay_seconds: Natural = 10
    """Wait before the first; doubles with every further one."""
    max_delay_seconds: Natural = 600
    """Longest wait."""


class JobTemplate(Model):
    """What every run's Job is made from."""

    metadata: dict[str, Any] | None = None
    """Labels and annotations of the Jobs."""
    spec: dict[str, Any]
    """The spec of a batch/v1 Job."""


class ScheduledJobSpec(Model):
    """When Jobs are made, and from what. At least one of schedule and schedules is needed."""

    schedule: Text | None = None
    """Five fields as in a CronJob, or six with seconds in front (ScheduledJob only)."""
    schedules: Items[Timetable] | None = None
    """Further schedules of the same object; slots that coincide are one run."""
    time_zone: str | None = None
    """IANA name; default UTC."""
    starting_deadline_seconds: Natural | None = None
    """A run that could not start for so long is missed."""
    concurrency_policy: ConcurrencyPolicy = "Allow"
    """What happens to a run that is due while another is at work."""
    suspend: bool | None = None
    """No run starts."""
    suspend_until: Text | None = None
    """RFC 3339: no run of a slot before this instant starts."""
    jitter_seconds: Natural = 0
    """Every run starts up to so many seconds after its slot, always the same for the same slot."""
    catch_up: CatchUp = CatchUp()
    exclusions: Items[Exclusion] = ()
    retry: Retry | None = None
    run_time_limit_seconds: Positive | None = None
    """A run, retries included, is ended after so many seconds."""
    outcomes_limit: Natural = 10
    """How many runs `status.outcomes` remembers, whatever becomes of their Jobs."""
    successful_jobs_history_limit: Natural | None = 3
    failed_jobs_history_limit: Natural | None = 1
    job_template: JobTemplate


class ScheduledJob(Model):
    """A ScheduledJob or a CronJob as its author wrote it."""

    spec: ScheduledJobSpec


def parse(body: Object) -> ScheduledJob:
    """The typed form of a ScheduledJob or CronJob; raises UserError that names the object and every wrong field."""
    return model.parse(ScheduledJob, CRON_JOB if body.get("kind") == CRON_JOB.kind else SCHEDULED_JOB, body)
