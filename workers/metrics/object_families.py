"""The metric families of objects, by kind, each sampled from one object alone."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from workers.api import bool_annotations, conditions, kinds
from workers.api.kinds import Kind, Object
from workers.api.references import DEFAULT_QUEUE

#: The fields of a Queue's status that count its PodGroups, one for each phase.
_PHASES = ("inqueue", "pending", "running", "unknown", "completed")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric; samples of several objects with the same labels are added up.

    counts: Volcano calls it a counter; it is shown without a type, because its name does not end in `_total`.
    """

    name: str
    text: str
    labels: tuple[str, ...]
    counts: bool = False


@dataclass(frozen=True, slots=True)
class FamilySample:
    """The contribution of one object to a metric."""

    family: Family
    labels: tuple[str, ...]
    value: float = 1.0


RESOURCES = Family("keda_resource_registered_total", "Objects of KEDA's kinds that are followed", ("type", "namespace"))
TRIGGERS = Family("keda_trigger_registered_total", "Triggers of ScaledJobs and ScaledObjects, by type", ("type",))
PAUSED = Family("keda_scaled_object_paused", "Whether a ScaledObject is paused", ("namespace", "scaledObject"))
COMPLETED = Family(
    "volcano_job_completed_phase_count",
    "1 for a Volcano Job that is Completed, until it is deleted (job_name: namespace/name)",
    ("job_name", "queue_name"),
    counts=True,
)
FAILED = Family(
    "volcano_job_failed_phase_count",
    "1 for a Volcano Job that is Failed, until it is deleted (job_name: namespace/name)",
    ("job_name", "queue_name"),
    counts=True,
)
POD_GROUPS: Mapping[str, Family] = {
    phase: Family(
        f"volcano_queue_pod_group_{phase}_count",
        f"PodGroups of a queue in phase {phase.capitalize()}, as the Queue's status has them",
        ("queue_name",),
    )
    for phase in _PHASES
}

NOT_READY = Family(
    "penstock_not_ready", "1 for an object whose condition Ready is False", ("kind", "namespace", "name")
)
DELIVERIES = Family(
    "penstock_eventjob_events",
    "Events of an EventJob that are not done, by state, as its status has them",
    ("namespace", "eventJob", "state"),
)
_DELIVERY_STATES = ("waiting", "delayed", "running", "retrying", "parked")

#: All families.
FAMILIES = (RESOURCES, TRIGGERS, PAUSED, NOT_READY, DELIVERIES, COMPLETED, FAILED, *POD_GROUPS.values())


def _registered(type_: str) -> Callable[[Object], Iterator[FamilySample]]:
    def sample(body: Object) -> Iterator[FamilySample]:
        # KEDA shows objects without a namespace under this one.
        yield FamilySample(RESOURCES, (type_, body["metadata"].get("namespace") or "default"))

    return sample


def _triggers(body: Object) -> Iterator[FamilySample]:
    for trigger in (body.get("spec") or {}).get("triggers") or ():
        yield FamilySample(TRIGGERS, (str(trigger.get("type") or ""),))


def _readiness(kind: Kind, body: Object) -> Iterator[FamilySample]:
    metadata = body["metadata"]
    if conditions.status_of(body, "Ready") == "False":
        yield FamilySample(NOT_READY, (kind.kind, metadata.get("namespace") or "", metadata["name"]))


def _event_job(body: Object) -> Iterator[FamilySample]:
    yield from _readiness(kinds.EVENT_JOB, body)
    # An EventJob without counts was not measured yet: unknown is not zero.
    if counts := (body.get("status") or {}).get("events"):
        metadata = body["metadata"]
        for state in _DELIVERY_STATES:
            labels = (metadata["namespace"], metadata["name"], state)
            yield FamilySample(DELIVERIES, labels, float(counts.get(state) or 0))


def _scaled_job(body: Object) -> Iterator[FamilySample]:
    yield from _registered("scaled_job")(body)
    yield from _readiness(kinds.SCALED_JOB, body)
    yield from _triggers(body)


def _scaled_object(body: Object) -> Iterator[FamilySample]:
    yield from _registered("scaled_object")(body)
    yield from _readiness(kinds.SCALED_OBJECT, body)
    yield from _triggers(body)
    metadata = body["metadata"]
    yield FamilySample(PAUSED, (metadata["namespace"], metadata["name"]), float(bool_annotations.is_paused(body)))


def _job(body: Object) -> Iterator[FamilySample]:
    """A Job enters these phases once and never leaves them, so the current phase replaces a counter of transitions."""
    phase = ((body.get("status") or {}).get("state") or {}).get("phase")
    if family := {"Completed": COMPLETED, "Failed": FAILED}.get(phase or ""):
        metadata = body["metadata"]
        queue = (body.get("spec") or {}).get("queue") or DEFAULT_QUEUE
        yield FamilySample(family, (f"{metadata['namespace']}/{metadata['name']}", queue))


def _queue(body: Object) -> Iterator[FamilySample]:
    # A Queue without a status was not counted yet: unknown is not zero.
    if status := body.get("status"):
        for phase, family in POD_GROUPS.items():
            yield FamilySample(family, (body["metadata"]["name"],), float(status.get(phase) or 0))


#: By kind id, the samples of one of its objects.
SAMPLERS: Mapping[str, Callable[[Object], Iterator[FamilySample]]] = {
    kinds.SCALED_JOB.id: _scaled_job,
    kinds.SCALED_OBJECT.id: _scaled_object,
    kinds.EVENT_JOB.id: _event_job,
    kinds.TRIGGER_AUTHENTICATION.id: _registered("trigger_authentication"),
    kinds.CLUSTER_TRIGGER_AUTHENTICATION.id: _registered("cluster_trigger_authentication"),
    kinds.VC_JOB.id: _job,
    kinds.QUEUE.id: _queue,
}
