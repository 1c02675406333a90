"""The manifest of a run's Job."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from scheduler import cron
from workers.api.kinds import VC_JOB, Kind, Object, owner_reference
from workers.api.penstock_dev.scheduledjob import RunTemplate
from workers.controllers.batch.cronjob import dialect, names

#: Kubernetes' annotation of Jobs that were requested by hand.
INSTANTIATE = "cronjob.kubernetes.io/instantiate"
#: The id of the request for the run.
MANUAL = "penstock.dev/run-id"
#: The schedule that named the run's slot.
SCHEDULE = "penstock.dev/schedule"
#: The number of the Job among those of its run, from 1 on.
ATTEMPT = "penstock.dev/attempt"


@dataclass(frozen=True, slots=True)
class RunOrder:
    """A Job to create.

    run: the run's name. annotations: slot or request. time_limit: seconds the Job may take, None for the limit of its
    template.
    """

    run: str
    annotations: Mapping[str, str]
    attempt: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    time_limit: int | None = None

    @property
    def name(self) -> str:
        """The Job's name."""
        return names.attempt(self.run, self.attempt)


def of_slot(kind: Kind, slot: datetime, schedule: str, zone: str | None) -> dict[str, str]:
    """Returns the annotations of a slot's Job: RFC 3339 in the schedule's time zone, and a ScheduledJob's schedule.

    kind: of the object that controls the Job.
    """
    terms = dialect.of(kind)
    # Kubernetes writes UTC as Z, and other zones that are named with their offset.
    text = slot.astimezone(cron.zone(zone) if zone else UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {terms.slot: text, **({SCHEDULE: schedule} if terms.scheduled else {})}


def of_request(id: str) -> dict[str, str]:
    """Returns the annotations of a requested Job."""
    return {INSTANTIATE: "manual", MANUAL: id}


def build(kind: Kind, owner: Object, template: RunTemplate, order: RunOrder) -> Object:
    """Builds the Job's manifest. kind, owner: the object that controls it."""
    metadata = template.metadata or {}
    annotations = {**(metadata.get("annotations") or {}), **order.annotations}
    if order.attempt > 1:
        annotations[ATTEMPT] = str(order.attempt)
    spec = template.spec
    child = dialect.of(kind).child
    if order.env and child == VC_JOB:
        tasks = [{**task, "template": _with_variables(task.get("template") or {}, order.env)} for task in spec["tasks"]]
        spec = {**spec, "tasks": tasks}
    elif order.env:
        spec = {**spec, "template": _with_variables(spec["template"], order.env)}
    if order.time_limit is not None:
        own = spec.get("activeDeadlineSeconds")
        spec = {
            **spec,
            "activeDeadlineSeconds": min(own, order.time_limit) if isinstance(own, int) else order.time_limit,
        }
    labels = metadata.get("labels")
    return {
        "apiVersion": child.api_version,
        "kind": child.kind,
        "metadata": {
            "name": order.name,
            "namespace": owner["metadata"]["namespace"],
            **({"labels": labels} if labels else {}),
            "annotations": annotations,
            "ownerReferences": [owner_reference(kind, owner)],
        },
        "spec": spec,
    }


def _with_variables(template: Mapping[str, Any], env: Mapping[str, str]) -> Object:
    """Returns the pod template with these variables in every container, instead of its own of the same names."""
    pod = template.get("spec") or {}
    lists = {
        key: [{**each, "env": _merged(each.get("env") or (), env)} for each in pod[key]]
        for key in ("initContainers", "containers")
        if pod.get(key)
    }
    return {**template, "spec": {**pod, **lists}}


def _merged(own: Iterable[Object], env: Mapping[str, str]) -> list[Object]:
    # Replaced in place: a variable may refer to those before it.
    own = list(own)
    present = {each.get("name") for each in own}
    replaced = [{"name": each["name"], "value": env[each["name"]]} if each.get("name") in env else each for each in own]
    return replaced + [{"name": name, "value": value} for name, value in env.items() if name not in present]
