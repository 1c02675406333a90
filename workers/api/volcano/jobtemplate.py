"""`flow.volcano.sh/v1alpha1` JobTemplate as a typed model: the spec of a Job that flows make Jobs from."""

from workers.api.model import Items, Model
from workers.api.volcano import job


class JobTemplateSpec(job.JobSpec):
    """What every Job that is made from the template runs."""


class JobTemplateStatus(Model):
    """What is written back."""

    job_depends_on_list: Items[str] | None = None
    """Names of the Jobs that were made from the template."""
