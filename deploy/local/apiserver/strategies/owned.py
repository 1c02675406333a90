"""The rules of Penstock's own kinds beyond their schemas: a spec that its controller could not carry out is refused.

A real API server stores such objects, and their controller reports the fault in a condition. Here the write fails.
"""

from collections.abc import Callable, Iterable, Iterator

from deploy.local.apiserver.codec import builtin, field_errors
from deploy.local.apiserver.codec.definitions import Type, model_of
from deploy.local.apiserver.codec.field_errors import DecodeError, FieldError
from deploy.local.apiserver.schema import defaults
from deploy.local.apiserver.strategies import cronjobs
from scheduler import cron
from workers.api.kinds import CRON_JOB, EVENT_JOB, SCHEDULED_JOB, Kind, Object
from workers.api.model import Problems
from workers.api.penstock_dev import eventjob, scheduledjob
from workers.api.penstock_dev.scheduledjob import ScheduledJobSpec
from workers.events import substitutions

#: Returns the errors of an object that its schema accepts.
Rules = Callable[[Object], Iterable[FieldError]]


def rules(kind: Kind) -> Rules:
    """The rules of a kind; none for kinds of others."""
    return _RULES.get((kind.id, kind.version), lambda _body: ())


def _scheduled_job(body: Object) -> Iterator[FieldError]:
    try:
        spec = scheduledjob.parse(body).spec
    except Problems as error:
        yield from _refused(error)
        return
    yield from _times(spec)
    yield from _template(body["spec"]["jobTemplate"])


def _event_job(body: Object) -> Iterator[FieldError]:
    try:
        eventjob.parse(body)
    except Problems as error:
        yield from _refused(error)
        return
    yield from _template(_with_any_event(body["spec"]["jobTemplate"]))


def _with_any_event(written: Object) -> Object:
    """The template of an EventJob as its controller fills it in: a label's text may refer to the event."""
    spec = written["spec"]
    template, pod = spec["template"], spec["template"].get("spec")
    if isinstance(pod, dict) and not pod.get("restartPolicy"):
        template = {**template, "spec": {**pod, "restartPolicy": "Never"}}
    if isinstance(metadata := template.get("metadata"), dict):
        template = {**template, "metadata": _plain_labels(metadata)}
    made = {**written, "spec": {**spec, "template": template}}
    if isinstance(metadata := written.get("metadata"), dict):
        made["metadata"] = _plain_labels(metadata)
    return made


def _plain_labels(metadata: Object) -> Object:
    labels = metadata.get("labels")
    if not isinstance(labels, dict):
        return metadata
    return {
        **metadata,
        "labels": {key: "x" if substitutions.references(text) else text for key, text in labels.items()},
    }


def _template(written: Object) -> Iterator[FieldError]:
    """The template of the Jobs, which the schema lets through unread: it must do as a CronJob's."""
    try:
        read = _decode({"spec": {"jobTemplate": written}}, None, [])
    except DecodeError as error:
        yield field_errors.invalid("spec.jobTemplate", field_errors.OMITTED, str(error))
        return
    yield from cronjobs.template(_default(read)["spec"]["jobTemplate"], "spec.jobTemplate")


def _refused(error: Problems) -> Iterator[FieldError]:
    for problem in error.found:
        if problem.missing:
            yield field_errors.required(problem.field)
        else:
            yield field_errors.invalid(problem.field, field_errors.OMITTED, problem.message)


def _times(spec: ScheduledJobSpec) -> Iterator[FieldError]:
    """The schedules and the time zones, wherever they stand."""
    yield from _slots("spec", spec.schedule, spec.time_zone)
    for index, each in enumerate(spec.schedules or ()):
        yield from _slots(f"spec.schedules[{index}]", each.schedule, each.time_zone)
    for index, exclusion in enumerate(spec.exclusions):
        yield from _slots(f"spec.exclusions[{index}]", exclusion.schedule, exclusion.time_zone)


def _slots(path: str, schedule: str | None, zone: str | None) -> Iterator[FieldError]:
    if schedule is not None:
        try:
            cron.parse(schedule, seconds=True)
        except cron.CronError as error:
            yield field_errors.invalid(f"{path}.schedule", schedule, str(error))
    if zone is not None and (problem := cron.check_zone(zone)):
        yield field_errors.invalid(f"{path}.timeZone", zone, problem)


_decode = builtin.decoder(Type(model_of(CRON_JOB)))
_default = defaults.of(CRON_JOB)
_RULES: dict[tuple[str, str], Rules] = {
    (SCHEDULED_JOB.id, SCHEDULED_JOB.version): _scheduled_job,
    (EVENT_JOB.id, EVENT_JOB.version): _event_job,
}
