"""Small ScaledObjects for decisions."""

from typing import Any

from tests.unit.controllers.factories import UID, at, micros
from workers.api.keda.scaledobject import ScaledObjectSpec
from workers.api.kinds import SCALED_OBJECT, Kind, Object, Ref
from workers.decision.plan import Plan, Scale
from workers.decision.snapshot import Reading, Scalable, Snapshot

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
TARGET = Ref(DEPLOYMENT, "default", "pool")
TRIGGER = {"type": "redis", "metadata": {"address": "localhost:6379", "listName": "work"}}


def spec(**more: Any) -> ScaledObjectSpec:
    """A typed spec, its fields as a manifest spells them."""
    return ScaledObjectSpec.model_validate({"scaleTargetRef": {"name": "pool"}, "triggers": [TRIGGER], **more})


def scaled_object(*, metadata: Object | None = None, status: Object | None = None, **more: Any) -> Object:
    """A ScaledObject of generation 1 with one redis trigger, created an hour ago, its finalizer and label there."""
    return {
        "apiVersion": SCALED_OBJECT.api_version,
        "kind": SCALED_OBJECT.kind,
        "metadata": {
            "name": "work",
            "namespace": "default",
            "uid": UID,
            "generation": 1,
            "resourceVersion": "7",
            "creationTimestamp": at(-3600),
            "finalizers": ["finalizer.keda.sh"],
            "labels": {"scaledobject.keda.sh/name": "work"},
            **(metadata or {}),
        },
        "spec": {"scaleTargetRef": {"name": "pool"}, "triggers": [TRIGGER], **more},
        **({"status": status} if status is not None else {}),
    }


def scale(replicas: int, *, ready: int | None = None, **more: Any) -> Scalable:
    """The target as it was read."""
    return Scalable(TARGET, replicas=replicas, ready=ready, resource_version="70", **more)


def snapshot(body: Object | None, scale: Scalable | None = None, reading: Reading | None = None) -> Snapshot:
    """Returns the snapshot of a reconcile of this ScaledObject."""
    return Snapshot(Ref(SCALED_OBJECT, "default", "work"), body, scale=scale, reading=reading, at=micros(0))


def scaling(plan: Plan) -> Scale | None:
    """The one change of replicas a plan makes, or None."""
    found = [step for step in plan.steps if isinstance(step, Scale)]
    assert len(found) <= 1
    return found[0] if found else None
