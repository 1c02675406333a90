"""CronJobs: the rules of their spec.

The template's spec stays as its author wrote it: the defaults of Jobs come with the Jobs.
"""

from collections.abc import Iterator

from deploy.local.apiserver import fields, names
from deploy.local.apiserver.fields import FieldError
from deploy.local.apiserver.strategies import jobs, metadata
from deploy.local.apiserver.strategies.base import Strategy
from workers.api.kinds import Object

#: A Job's name is the CronJob's and eleven characters more, and is limited to 63.
NAME_LIMIT = 52
_POLICIES = ("Allow", "Forbid", "Replace")
_MACROS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


class CronJobStrategy(Strategy):
    """The strategy of batch/v1 CronJobs."""

    def __init__(self) -> None:
        super().__init__(generation=True, status=True, initial={})

    def validate_create(self, body: Object) -> list[FieldError]:
        errors = super().validate_create(body)
        name = body["metadata"].get("name", "")
        if len(name) > NAME_LIMIT:
            errors.append(fields.invalid("metadata.name", name, f"must be no more than {NAME_LIMIT} characters"))
        return errors

    def validate(self, body: Object) -> list[FieldError]:
        own = body["spec"]
        return [
            *_schedule(own),
            *fields.non_negative("spec.startingDeadlineSeconds", own.get("startingDeadlineSeconds")),
            *_policy(own),
            *_template(own.get("jobTemplate") or {}, "spec.jobTemplate"),
            *fields.non_negative("spec.successfulJobsHistoryLimit", own.get("successfulJobsHistoryLimit")),
            *fields.non_negative("spec.failedJobsHistoryLimit", own.get("failedJobsHistoryLimit")),
        ]

    def warnings(self, body: Object) -> list[str]:
        name = body["metadata"].get("name", "")
        found = [
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
            f"a DNS label is recommended: [{problem}]"
            for problem in names.dns_label(name)
        ]
        if "TZ" in body["spec"].get("schedule", ""):
            found.append("spec.schedule: a time zone belongs into spec.timeZone; TZ in schedule is not supported")
        return found


def _schedule(own: Object) -> Iterator[FieldError]:
    """Only what is plainly no schedule: what each field may say is the cron parser's to judge."""
    text = own.get("schedule", "")
    if not text:
        yield fields.required("spec.schedule")
        return
    if "TZ" in text:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield fields.invalid("spec.schedule", text, detail)
        return
    if text.startswith("@"):
        if text not in _MACROS and not text.startswith("@every "):
            yield fields.invalid("spec.schedule", text, f"unrecognized descriptor: {text}")
    elif len(parts := text.split()) != 5:
        listed = " ".join(parts)
        detail = f"expected exactly 5 fields, found {len(parts)}: [{listed}]"
        yield fields.invalid("spec.schedule", text, detail)
    zone = own.get("timeZone")
    if zone == "":
        yield fields.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone is not None and zone.lower() == "local":
        yield fields.invalid("spec.timeZone", zone, "timeZone must be an explicit time zone as defined in IANA")


def _policy(own: Object) -> Iterator[FieldError]:
    policy = own.get("concurrencyPolicy")
    if not policy:
        yield fields.required("spec.concurrencyPolicy")
    elif policy not in _POLICIES:
        yield fields.not_supported("spec.concurrencyPolicy", policy, _POLICIES)


def _template(body: Object, path: str) -> Iterator[FieldError]:
    head, own = body.get("metadata") or {}, body.get("spec") or {}
    yield from metadata.labels(head.get("labels") or {}, f"{path}.metadata.labels")
    yield from metadata.annotations(head.get("annotations") or {}, f"{path}.metadata.annotations")
    if own.get("selector") is not None:
        yield fields.invalid(f"{path}.spec.selector", own["selector"], "`selector` will be auto-generated")
    if own.get("manualSelector"):
        yield fields.not_supported(f"{path}.spec.manualSelector", own["manualSelector"], ("nil", "false"))
    yield from jobs.spec(own, f"{path}.spec")
