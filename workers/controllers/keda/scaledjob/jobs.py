"""The Jobs a ScaledJob makes."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from workers.api.keda.scaledjob import ScaledJob, ScaledJobMetadata
from workers.api.kinds import JOB, SCALED_JOB, Object
from workers.controllers.keda.scaledjob.names import ScaledJobNames
from workers.handoff.claims import LEDGER
from workers.reconcile.plan import Create, RecordEvent, Together

#: The release of KEDA whose manifests and behaviour these Jobs follow; its operator writes the same labels.
KEDA_VERSION = "2.20.2"

NAME_LABEL = "scaledjob.keda.sh/name"
GENERATION = "scaledjob.keda.sh/generation"
EXCLUDED_LABELS = "scaledjob.keda.sh/job-excluded-labels"

#: Jobs that one plan creates at most: a plan must end within its deadline. What is left over follows at once.
HELPING = 1000


def build(scaled: ScaledJob, names: Iterable[str]) -> Iterator[Object]:
    """One Job per name. They share everything but their names: nobody changes an object that was read or built."""
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
    """Make these Jobs side by side, and tell how many were made and what kept others from it."""
    return Together(
        tuple(Create(JOB, body) for body in bodies),
        then=RecordEvent("Normal", "KEDAJobsCreated", "Created {done} jobs"),
        otherwise=RecordEvent("Warning", "KEDAJobCreateFailed", "Creating a job failed: {error}"),
    )


def free_names(names: ScaledJobNames, taken: Set[str], number: int) -> Iterator[str]:
    """The first names of a reading that no Job has had yet.

    A plan that was cut short leaves a gap or a shorter row; deciding again names exactly what is missing.
    """
    index = 0
    while number > 0:
        name = names.name(index)
        if name not in taken:
            yield name
            number -= 1
        index += 1


def _annotations(metadata: ScaledJobMetadata) -> Mapping[str, str]:
    """The object's own and its generation; which ledger it has concerns no Job."""
    own = {key: value for key, value in metadata.annotations.items() if key != LEDGER}
    return {GENERATION: str(metadata.generation), **own}


def _labels(metadata: ScaledJobMetadata) -> Mapping[str, str]:
    """KEDA's labels, and the object's own except those it excludes; of two with one key the object's own wins."""
    excluded = metadata.annotations.get(EXCLUDED_LABELS, "").split(",")
    return {
        "app.kubernetes.io/name": metadata.name,
        "app.kubernetes.io/version": KEDA_VERSION,
        "app.kubernetes.io/part-of": metadata.name,
        "app.kubernetes.io/managed-by": "keda-operator",
        NAME_LABEL: metadata.name,
        **{key: value for key, value in metadata.labels.items() if key not in excluded},
    }


def _owner(metadata: ScaledJobMetadata) -> Object:
    return {
        "apiVersion": SCALED_JOB.api_version,
        "kind": SCALED_JOB.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _spec(scaled: ScaledJob) -> Object:
    """The target's spec as it is, with KEDA's additions to the pod template."""
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
                "labels": {**(metadata.get("labels") or {}), NAME_LABEL: scaled.metadata.name},
            },
            "spec": {**pod, "restartPolicy": pod.get("restartPolicy") or "OnFailure"},
        },
    }
