"""`penstock.dev/v1alpha1` ScheduledJob as a typed model: a CronJob's spec and more.

The model reads a `batch/v1` CronJob too: fields that it lacks keep their defaults, which are Kubernetes' behavior.
"""

from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, field_validator, model_validator

from workers.api import model, times
from workers.api.keda.scaledjob import JOB_SCHEMA
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, Object
from workers.api.model import Items, Model, Natural, Text

#: The fields of a CronJob's spec; all others are ignored.
CRON_JOB_FIELDS = frozenset(
    {"schedule", "timeZone", "startingDeadlineSeconds", "concurrencyPolicy", "suspend", "jobTemplate"}
    | {"successfulJobsHistoryLimit", "failedJobsHistoryLimit"}
)

ConcurrencyPolicy = Literal["Allow", "Forbid", "Replace"]
CatchUpPolicy = Literal["Latest", "All", "None"]
Trigger = Literal["schedule", "manual"]

#: Longest duration (seconds) of a ScheduledJob's own fields: 68 years, which cannot overflow an instant.
LONGEST = 2**31 - 1
Seconds = Annotated[int, Field(ge=0, le=LONGEST)]
Duration = Annotated[int, Field(ge=1, le=LONGEST)]


def _instant(text: str) -> str:
    times.parse(text)
    return text


def _day(text: str) -> str:
    date.fromisoformat(text)
    return text


#: RFC 3339 with a zone, kept as written.
Instant = Annotated[Text, Field(json_schema_extra={"format": "date-time"}), AfterValidator(_instant)]
Day = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_day)]


def _one_of(*alternatives: tuple[str, ...]) -> ConfigDict:
    """Returns the schema's rule that at least one of these groups of fields is required."""
    return ConfigDict(json_schema_extra={"anyOf": [{"required": list(each)} for each in alternatives]})


class ScheduleFields(Model):
    """One of several schedules of an object."""

    schedule: Text
    """Five fields as in a CronJob, or six with seconds in front."""
    time_zone: Text | None = None
    """IANA name; default the object's."""


class CatchUp(Model):
    """The missed runs to make up for."""

    policy: CatchUpPolicy = "Latest"
    """Latest: the newest missed run, as Kubernetes does. All: every one, oldest first. None: no run that is late."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """All: at most so many, the newest; older ones are counted as missed and named in an Event."""


class Exclusion(Model):
    """A time whose slots do not run: start to end, whole days, or after every slot of a schedule."""

    model_config = _one_of(("start",), ("end",), ("dates",), ("schedule", "durationSeconds"))

    start: Instant | None = None
    """RFC 3339; included."""
    end: Instant | None = None
    """RFC 3339; not included."""
    dates: Items[Day] | None = None
    """Days as YYYY-MM-DD in the time zone."""
    schedule: Text | None = None
    """Every slot of this schedule opens a window."""
    duration_seconds: Duration | None = None
    """Length of a window that `schedule` opens."""
    time_zone: Text | None = None
    """IANA name; default the object's."""

    @model_validator(mode="after")
    def _says_when(self) -> Self:
        if self.schedule and not self.duration_seconds:
            raise ValueError("a schedule needs durationSeconds")
        if not (self.start or self.end or self.dates or self.schedule):
            raise ValueError("one of start, end, dates and schedule is needed")
        if self.start and self.end and times.parse(self.end) <= times.parse(self.start):
            raise ValueError(f"end must be after start: {self.end} is not after {self.start}")
        return self


class RunRetry(Model):
    """Further attempts of a run whose Job has failed."""

    limit: Annotated[int, Field(ge=0, le=1000)]
    """Most further Jobs of the same run."""
    delay_seconds: Seconds = 10
    """Wait before the first; doubles with every further one."""
    max_delay_seconds: Seconds = 600
    """Longest wait."""


_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA = {"labels": _TEXTS, "annotations": _TEXTS}


class RunTemplate(Model):
    """The template of every run's Job."""

    metadata: Annotated[dict[str, Any] | None, Field(json_schema_extra={"properties": _METADATA})] = None
    """Labels and annotations of the Jobs."""
    spec: Annotated[dict[str, Any], Field(json_schema_extra={**JOB_SCHEMA})]
    """The spec of a batch/v1 Job."""

    @field_validator("spec")
    @classmethod
    def _has_a_template(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(value.get("template"), dict):
            raise ValueError("template is required and must be a pod template")
        return value


class ScheduledJobSpec(Model):
    """Schedules and the template of Jobs. At least one of schedule and schedules is needed."""

    model_config = _one_of(("schedule",), ("schedules",))

    schedule: Text | None = None
    """Five fields as in a CronJob, or six with seconds in front (ScheduledJob only)."""
    schedules: Annotated[Items[ScheduleFields] | None, Field(min_length=1)] = None
    """Further schedules of the same object; slots that coincide are one run."""
    time_zone: Text | None = None
    """IANA name; default UTC."""
    starting_deadline_seconds: Natural | None = None
    """A run that could not start for so long is missed."""
    concurrency_policy: ConcurrencyPolicy = "Allow"
    """The effect on a run that is due while another is active."""
    suspend: bool | None = False
    """No run starts."""
    suspend_until: Instant | None = None
    """RFC 3339: no run of a slot before this instant starts."""
    jitter_seconds: Seconds = 0
    """Every run starts up to so many seconds after its slot, always the same for the same slot."""
    catch_up: CatchUp = CatchUp()
    """What happens to runs that were missed."""
    exclusions: Items[Exclusion] = ()
    """Times whose slots do not run, and are not missed."""
    retry: RunRetry | None = None
    """Further Jobs for a run that failed."""
    run_time_limit_seconds: Duration | None = None
    """A run, retries included, is ended after so many seconds."""
    outcomes_limit: Annotated[int, Field(ge=0, le=1000)] = 10
    """Most ended runs in `status.outcomes`, which outlive their Jobs."""
    successful_jobs_history_limit: Natural | None = 3
    """Finished Jobs to keep."""
    failed_jobs_history_limit: Natural | None = 1
    """Failed Jobs to keep."""
    job_template: RunTemplate
    """The Job of each run."""

    @model_validator(mode="after")
    def _has_a_schedule(self) -> Self:
        if not (self.schedule or self.schedules):
            raise ValueError("one of schedule and schedules is needed")
        return self


class ActiveJob(Model):
    """A Job of an active run: an object reference as in CronJob's status."""

    api_version: str | None = None
    """API version of the Job."""
    kind: str | None = None
    """Kind of the Job."""
    namespace: str | None = None
    """Namespace of the Job."""
    name: str | None = None
    """Name of the Job."""
    uid: str | None = None
    """UID of the Job."""
    resource_version: str | None = None
    """Version at which it was seen."""


class RunStatus(Model):
    """One run, active or ended."""

    job: str
    """Name of the run's last Job."""
    trigger: Trigger
    """schedule, or manual for a requested run."""
    schedule: str | None = None
    """The schedule that asked for the run."""
    id: str | None = None
    """The id of the request of a manual run."""
    scheduled_time: Instant | None = None
    """The run's slot; a manual run has none."""
    start_time: Instant | None = None
    """When its first Job started."""
    completion_time: Instant | None = None
    """When it ended."""
    retry_time: Instant | None = None
    """The instant of the next attempt."""
    outcome: str
    """Running or Retrying while it is active; Succeeded, Failed, TimedOut, Replaced or Deleted afterwards."""
    attempts: int | None = None
    """Jobs that were made for this run."""
    reason: str | None = None
    """Why it ended so."""
    message: str | None = None
    """The same in a sentence."""
    env: dict[str, str] | None = None
    """Variables of a manual run, for further attempts."""


class StatusCondition(Model):
    """One aspect of the object's state."""

    type: str
    """Name of the condition."""
    status: Literal["True", "False", "Unknown"]
    """Unknown is neither: it could not be found out."""
    reason: str | None = None
    """One word for programs."""
    message: str | None = None
    """A sentence for people."""
    last_transition_time: Instant | None = None
    """When its status changed last."""
    observed_generation: int | None = None
    """The generation of the spec that it is about."""


class ScheduledJobStatus(Model):
    """The observed state. Its first three fields are CronJob's whole status."""

    active: Items[ActiveJob] | None = None
    """Jobs that run now."""
    last_schedule_time: Instant | None = None
    """The newest slot whose run was started."""
    last_successful_time: Instant | None = None
    """When a run completed last."""
    next_schedule_time: Instant | None = None
    """The instant of the next run, without jitter."""
    missed_runs: int | None = None
    """Runs that never started: past their deadline, or too old to be made up for."""
    last_missed_time: Instant | None = None
    """The newest slot whose run never started."""
    runs: Items[RunStatus] | None = None
    """The active runs, the newest last."""
    outcomes: Items[RunStatus] | None = None
    """The last ended runs, the newest last. They outlive their Jobs."""
    conditions: Items[StatusCondition] | None = None
    """Conditions of the schedule."""
    observed_generation: int | None = None
    """The generation of the spec of the last decision."""
    observed_schedule: str | None = None
    """The schedules of the last decision, with their zones."""
    schedule_edit_time: Instant | None = None
    """When the schedules were last edited: slots before it were never due."""


class ScheduledJob(Model):
    """A ScheduledJob or a CronJob."""

    spec: ScheduledJobSpec


def parse(body: Object) -> ScheduledJob:
    """Returns the typed form of a ScheduledJob or CronJob. Raises UserError that names every malformed field."""
    if body.get("kind") != CRON_JOB.kind:
        return model.parse(ScheduledJob, SCHEDULED_JOB, body)
    spec = body.get("spec")
    if isinstance(spec, dict):
        body = {**body, "spec": {key: each for key, each in spec.items() if key in CRON_JOB_FIELDS}}
    return model.parse(ScheduledJob, CRON_JOB, body)
