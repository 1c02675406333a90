"""Volcano's CronJob: validation of its schedule and of its Jobs."""

from collections.abc import Iterator

from scheduler import cron
from workers.admission.findings import Finding
from workers.admission.volcano import job
from workers.api import names
from workers.api.kinds import Object
from workers.api.model import Problems
from workers.api.volcano import cronjob

#: Longest name: the names of its Jobs append a time.
LONGEST = 52
#: Minutes since 1970 in the names of Jobs, until the year 2160.
_MINUTE = "-99999999"


def problems(body: Object, old: Object | None = None) -> list[Finding]:
    """Returns all findings on a CronJob. old: the CronJob it replaces, None for a new one."""
    if old is not None and body.get("spec") == old.get("spec"):
        return []
    try:
        spec = cronjob.parse(body).spec
    except Problems as error:
        return job.refused(error)
    return [*_times(spec), *_name(body), *_template(body)]


def _times(spec: cronjob.VolcanoCronJobSpec) -> Iterator[Finding]:
    if "TZ" in spec.schedule:
        yield Finding("spec.schedule", "must not have a time zone in it; timeZone names it")
    else:
        try:
            cron.parse(spec.schedule)
        except cron.CronError as error:
            yield Finding("spec.schedule", f"{spec.schedule!r}: {error}")
    if spec.time_zone is not None and (problem := cron.check_zone(spec.time_zone)):
        yield Finding("spec.timeZone", f"{spec.time_zone!r}: {problem}")


def _name(body: Object) -> Iterator[Finding]:
    name = body["metadata"].get("name") or ""
    if len(name) > LONGEST:
        yield Finding("metadata.name", f"must be no more than {LONGEST} characters")
    for problem in names.qualified_name(name) if name else ():
        yield Finding("metadata.name", problem)


def _template(body: Object) -> Iterator[Finding]:
    """Judges a Job of the template: one that would be refused at every slot is refused at once."""
    template = body["spec"]["jobTemplate"]
    name = body["metadata"].get("name") or ""
    made = {"metadata": {}, "spec": job.filled(template["spec"])}
    for finding in job.faults(made, f"{name}{_MINUTE}" if 0 < len(name) <= LONGEST else ""):
        yield Finding(f"spec.jobTemplate.{finding.field}", finding.message)
