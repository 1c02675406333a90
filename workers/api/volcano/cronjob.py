"""`batch.volcano.sh/v1alpha1` CronJob as a typed model: Volcano Jobs at the times a schedule names."""

from typing import Annotated, Any

from pydantic import Field

from workers.api import model
from workers.api.kinds import VC_CRON_JOB, Object
from workers.api.model import Items, Model, Natural, Text
from workers.api.penstock_dev import scheduledjob
from workers.api.penstock_dev.scheduledjob import ActiveJob, ConcurrencyPolicy, Instant, ScheduledJobSpec
from workers.api.volcano import job

_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA = {"labels": _TEXTS, "annotations": _TEXTS}


class VolcanoJobTemplateSpec(Model):
    """The template of every run's Job."""

    metadata: Annotated[dict[str, Any] | None, Field(json_schema_extra={"properties": _METADATA})] = None
    """Labels and annotations of the Jobs."""
    spec: job.JobSpec
    """The spec of the Jobs."""


class VolcanoCronJobSpec(Model):
    """The schedule and the template of the Jobs."""

    schedule: Text
    """Five fields, or a word such as `@hourly` or `@every 90m`."""
    time_zone: str | None = None
    """IANA name; default UTC."""
    starting_deadline_seconds: Natural | None = None
    """A run that could not start for so long is missed."""
    concurrency_policy: ConcurrencyPolicy = "Allow"
    """The handling of a run that is due while another is at work."""
    suspend: bool | None = False
    """No run starts."""
    job_template: VolcanoJobTemplateSpec
    """The Job of each run."""
    successful_jobs_history_limit: Natural | None = 3
    """Completed Jobs to keep."""
    failed_jobs_history_limit: Natural | None = 1
    """Failed Jobs to keep."""


class VolcanoCronJobStatus(Model):
    """The observed runs."""

    active: Items[ActiveJob] | None = None
    """References to the Jobs at work."""
    last_schedule_time: Instant | None = None
    """The newest slot whose run was started."""
    last_successful_time: Instant | None = None
    """When a run completed last."""


class CronJob(Model):
    """One CronJob of Volcano."""

    spec: VolcanoCronJobSpec


def parse(body: Object) -> CronJob:
    """Returns the typed CronJob. Raises UserError that names the object and every wrong field."""
    return model.parse(CronJob, VC_CRON_JOB, body)


def scheduled(body: Object) -> ScheduledJobSpec:
    """The spec as that of a ScheduledJob, by which all kinds are decided on; raises UserError like `parse`.

    The template stays as its author wrote it.
    """
    spec, template = parse(body).spec, body["spec"]["jobTemplate"]
    made = scheduledjob.RunTemplate.model_construct(metadata=template.get("metadata"), spec=template["spec"])
    fields = {name: getattr(spec, name) for name in VolcanoCronJobSpec.model_fields}
    return ScheduledJobSpec.model_construct(**{**fields, "job_template": made})
