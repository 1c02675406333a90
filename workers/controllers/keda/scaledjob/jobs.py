"""Manifests of the Jobs that a ScaledJob makes, and the annotations that tell a Job which trigger asked for it."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from workers.api.keda.scaledjob import ScaledJob, ScaledJobMetadata
from workers.api.kinds import JOB, SCALED_JOB, Object, owner_reference
from workers.api.names import fitting_labels
from workers.controllers.keda.scaledjob.demand import Demand
from workers.controllers.keda.scaledjob.names import ScaledJobNames
from workers.decision.claims import LEDGER
from workers.decision.plan import Create, RecordEvent, Together
from workers.decision.snapshot import Reading

#: The release of KEDA whose manifests and behaviour these Jobs follow; its operator writes the same labels.
KEDA_VERSION = "2.20.2"

NAME_LABEL = "scaledjob.keda.sh/name"
GENERATION = "scaledjob.keda.sh/generation"
EXCLUDED_LABELS = "scaledjob.keda.sh/job-excluded-labels"

#: Most Jobs that one plan creates, because a plan must end within its deadline. The next plan creates the rest at once.
MAX_CREATES = 1000

TRIGGER = "penstock.dev/trigger"
QUEUE_LENGTH = "penstock.dev/queue-length"
READING = "penstock.dev/reading"
#: The variable that carries each annotation's value.
VARIABLES = {TRIGGER: "PENSTOCK_TRIGGER", QUEUE_LENGTH: "PENSTOCK_QUEUE_LENGTH", READING: "PENSTOCK_READING"}


def build(scaled: ScaledJob, names: Iterable[str]) -> Iterator[Object]:
    """Yields one Job per name. They share all parts but the name, because objects are never changed in place."""
    metadata = scaled.metadata
    shared = {
        "namespace": metadata.namespace,
        "labels": _labels(metadata),
        "annotations": _annotations(metadata),
        "ownerReferences": [_owner(metadata)],
    }
    spec = _spec(scaled)
    for name in names:
        yield {"apiVersion": JOB.api_version, "kind": JOB.kind, "metadata": {"name": name, **shared}, "spec": spec}


def create(bodies: Iterable[Object]) -> Together:
    """Returns the step that creates these Jobs concurrently and records their number and every distinct error."""
    return Together(
        tuple(Create(JOB, body) for body in bodies),
        then=created_event("{done}"),
        otherwise=RecordEvent("Warning", "KEDAJobCreateFailed", "Creating a job failed: {error}"),
    )


def created_event(number: str) -> RecordEvent:
    """Returns KEDA's Event of created Jobs."""
    return RecordEvent("Normal", "KEDAJobsCreated", f"Created {number} jobs")


def free_names(names: ScaledJobNames, taken: Set[str], number: int) -> Iterator[str]:
    """Yields the first names of a reading that no Job has had yet.

    A plan that was cut short leaves gaps; the next decision on the same reading names exactly the missing Jobs.
    """
    index = 0
    while number > 0:
        name = names.name(index)
        if name not in taken:
            yield name
            number -= 1
        index += 1


def _annotations(metadata: ScaledJobMetadata) -> Mapping[str, str]:
    """Returns the object's own annotations, without its ledger's, and its generation."""
    own = {key: value for key, value in metadata.annotations.items() if key != LEDGER}
    return {GENERATION: str(metadata.generation), **own}


def _labels(metadata: ScaledJobMetadata) -> Mapping[str, str]:
    """Returns KEDA's labels, overwritten by the object's own except those it excludes."""
    excluded = metadata.annotations.get(EXCLUDED_LABELS, "").split(",")
    own = {
        "app.kubernetes.io/name": metadata.name,
        "app.kubernetes.io/version": KEDA_VERSION,
        "app.kubernetes.io/part-of": metadata.name,
        "app.kubernetes.io/managed-by": "keda-operator",
        NAME_LABEL: metadata.name,
    }
    return {**fitting_labels(own), **{key: value for key, value in metadata.labels.items() if key not in excluded}}


def _owner(metadata: ScaledJobMetadata) -> Object:
    return owner_reference(SCALED_JOB, {"metadata": {"name": metadata.name, "uid": metadata.uid}})


def _spec(scaled: ScaledJob) -> Object:
    """Returns the target's spec with KEDA's additions to the pod template."""
    target = scaled.spec.job_target_ref
    template: Mapping[str, Any] = target["template"]
    metadata = template.get("metadata") or {}
    pod = template.get("spec") or {}
    return {
        **target,
        "template": {
            **template,
            "metadata": {
                **metadata,
                "generateName": f"{scaled.metadata.name}-",
                "labels": {**(metadata.get("labels") or {}), **fitting_labels({NAME_LABEL: scaled.metadata.name})},
            },
            "spec": {**pod, "restartPolicy": pod.get("restartPolicy") or "OnFailure"},
        },
    }


def annotated(scaled: ScaledJob, reading: Reading, demand: Demand) -> ScaledJob:
    """Returns the ScaledJob with `passTrigger` applied: annotations for Job and pod, variables in every container.

    The trigger is the one whose queue was counted, by its own name or else its metric's; for a sum or an average, all
    of them, separated by commas. A variable that a container sets itself keeps its value.
    """
    if not scaled.spec.pass_trigger:
        return scaled
    metadata = scaled.metadata
    named = zip(reading.samples, scaled.spec.triggers, strict=False)
    triggers = [trigger.name or sample.name for sample, trigger in named if sample.name in demand.by]
    facts = {TRIGGER: ",".join(triggers), QUEUE_LENGTH: str(demand.queue), READING: str(reading.id)}
    target = {**scaled.spec.job_target_ref, "template": _template(scaled.spec.job_target_ref["template"], facts)}
    return scaled.model_copy(
        update={
            "metadata": metadata.model_copy(update={"annotations": {**metadata.annotations, **facts}}),
            "spec": scaled.spec.model_copy(update={"job_target_ref": target}),
        }
    )


def _template(template: Object, facts: Mapping[str, str]) -> Object:
    metadata: Object = template.get("metadata") or {}
    spec: Object = template.get("spec") or {}
    containers = {
        field: [_container(each, facts) for each in spec[field]]
        for field in ("initContainers", "containers")
        if spec.get(field)
    }
    annotations = {**(metadata.get("annotations") or {}), **facts}
    return {**template, "metadata": {**metadata, "annotations": annotations}, "spec": {**spec, **containers}}


def _container(container: Object, facts: Mapping[str, str]) -> Object:
    given: list[Any] = container.get("env") or []
    taken = {each.get("name") for each in given}
    added = [{"name": VARIABLES[key], "value": value} for key, value in facts.items() if VARIABLES[key] not in taken]
    return {**container, "env": [*given, *added]}
