"""Telling Jobs what asked for them, where the manifest wants that."""

from collections.abc import Mapping
from typing import Any

from workers.api.keda.scaledjob import ScaledJob
from workers.api.kinds import Object
from workers.controllers.keda.scaledjob.demand import Demand
from workers.reconcile.snapshot import Reading

TRIGGER = "penstock.dev/trigger"
QUEUE_LENGTH = "penstock.dev/queue-length"
READING = "penstock.dev/reading"
#: The variable that carries each annotation's value.
VARIABLES = {TRIGGER: "PENSTOCK_TRIGGER", QUEUE_LENGTH: "PENSTOCK_QUEUE_LENGTH", READING: "PENSTOCK_READING"}


def told(scaled: ScaledJob, reading: Reading, demand: Demand) -> ScaledJob:
    """The ScaledJob as its Jobs are to be made: with annotations on Job and pod, and variables in every container.

    The trigger is the one whose queue was counted, by its own name or else its metric's; of a sum or an average, all of
    them, separated by commas. Variables that a container sets itself stay as they are.
    """
    if not scaled.spec.pass_trigger:
        return scaled
    metadata = scaled.metadata
    facts = {
        TRIGGER: ",".join(_names(scaled, reading, demand)),
        QUEUE_LENGTH: str(demand.queue),
        READING: str(reading.id),
    }
    target = {**scaled.spec.job_target_ref, "template": _template(scaled.spec.job_target_ref["template"], facts)}
    return scaled.model_copy(
        update={
            "metadata": metadata.model_copy(update={"annotations": {**metadata.annotations, **facts}}),
            "spec": scaled.spec.model_copy(update={"job_target_ref": target}),
        }
    )


def _names(scaled: ScaledJob, reading: Reading, demand: Demand) -> list[str]:
    named = zip(reading.samples, scaled.spec.triggers, strict=False)
    return [trigger.name or sample.name for sample, trigger in named if sample.name in demand.by]


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
