"""CronJobs: the rules of their spec.

The template's spec stays as its author wrote it: the defaults of Jobs come with the Jobs.
"""

from collections.abc import Iterator

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies import jobs
from deploy.local.apiserver.strategies.base import Strategy
from scheduler import cron
from workers.api import names
from workers.api.kinds import Object

#: A Job's name is the CronJob's and eleven characters more, and is limited to 63.
NAME_LIMIT = 52


class CronJobStrategy(Strategy):
    """The strategy of batch/v1 CronJobs."""

    generation, status, initial = True, True, {}

    def validate_create(self, body: Object) -> list[FieldError]:
        name, own = body["metadata"].get("name", ""), body["spec"]
        errors = [*super().validate_create(body), *_schedule(own, {}), *_zone(own)]
        if len(name) > NAME_LIMIT:
            errors.append(field_errors.invalid("metadata.name", name, f"must be no more than {NAME_LIMIT} characters"))
        return errors

    def validate(self, body: Object) -> list[FieldError]:
        own = body["spec"]
        return list(field_errors.judge(own, "spec", _SPEC))

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        """An unchanged time zone is not validated again: it may be older than the rule."""
        own, before = new["spec"], old["spec"]
        known = own.get("timeZone") == before.get("timeZone")
        return [*_schedule(own, before), *(() if known else _zone(own))]

    def warnings(self, body: Object, old: Object | None = None) -> list[str]:
        of_jobs = jobs.spec_warnings(body["spec"]["jobTemplate"].get("spec") or {}, "spec.jobTemplate.spec")
        if old is None:
            return [*names.unusual(body["metadata"].get("name", "")), *of_jobs]
        found = of_jobs if jobs.changes_spec(body, old) else []
        if "TZ" in body["spec"].get("schedule", ""):
            # The path is Kubernetes' own, word for word.
            found.append(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )
        return found


def _schedule(own: Object, before: Object) -> Iterator[FieldError]:
    """The text must be a schedule. One with a time zone of its own is taken only where one was stored before."""
    text = own.get("schedule", "")
    if not text:
        yield field_errors.required("spec.schedule")
        return
    try:
        cron.parse(text)
    except cron.CronError as error:
        yield field_errors.invalid("spec.schedule", text, str(error))
    if "TZ" not in text:
        return
    if "TZ" not in before.get("schedule", ""):
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield field_errors.invalid("spec.schedule", text, detail)
    elif own.get("timeZone") is not None:
        yield field_errors.invalid(
            "spec.schedule", text, "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        )


def _zone(own: Object) -> Iterator[FieldError]:
    zone = own.get("timeZone")
    if zone is not None and (problem := cron.check_zone(zone)):
        yield field_errors.invalid("spec.timeZone", zone, problem)


def template(body: Object, path: str) -> Iterator[FieldError]:
    """Yields the errors of a template of Jobs, in a CronJob or a ScheduledJob."""
    own = body.get("spec") or {}
    if own.get("selector") is not None:
        yield field_errors.invalid(f"{path}.spec.selector", own["selector"], "`selector` will be auto-generated")
    if own.get("manualSelector"):
        yield field_errors.not_supported(f"{path}.spec.manualSelector", own["manualSelector"], ("nil", "false"))
    yield from jobs.spec(own, f"{path}.spec")


_SPEC: tuple[tuple[str, field_errors.Rule], ...] = (
    ("startingDeadlineSeconds", field_errors.non_negative),
    ("concurrencyPolicy", field_errors.one_of("Allow", "Forbid", "Replace")),
    ("jobTemplate", lambda path, body: template(body or {}, path)),
    ("successfulJobsHistoryLimit", field_errors.non_negative),
    ("failedJobsHistoryLimit", field_errors.non_negative),
)
