"""`flow.volcano.sh/v1alpha1` JobTemplate as a typed model: the spec of a Job that flows make Jobs from."""

from workers.api.model import Items, Model
from workers.api.volcano import job


class JobTemplateSpec(job.JobSpec):
    """The spec of the Jobs created from the template."""


class JobTemplateStatus(Model):
    """The observed Jobs of the template."""

    job_depends_on_list: Items[str] | None = None
    """Names of the Jobs that were made from the template."""
