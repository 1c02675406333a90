"""Small objects for decisions: every factory gives a plausible whole, and a test names only what matters to it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from workers.api import times
from workers.api.kinds import JOB, POD, SCALED_JOB, Kind, Object, Ref
from workers.controllers.batch.job.pods import TRACKING
from workers.decision.snapshot import CachedObject, Reading, Snapshot, TriggerSample

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
UID = "8d3f5f2e-0000-4000-8000-000000000001"


def micros(seconds: float) -> int:
    """This many seconds after NOW, on the broker's clock."""
    return int((NOW + timedelta(seconds=seconds)).timestamp() * 1_000_000)


def at(seconds: float) -> str:
    """This many seconds after NOW, as an object's timestamp."""
    return times.render(NOW + timedelta(seconds=seconds))


def scaled_job(*, metadata: Object | None = None, status: Object | None = None, **spec: Any) -> Object:
    """A ScaledJob of generation 1 with one redis trigger, its finalizer already there."""
    trigger = {"type": "redis", "metadata": {"address": "localhost:6379", "listName": "work", "listLength": "1"}}
    return {
        "apiVersion": SCALED_JOB.api_version,
        "kind": SCALED_JOB.kind,
        "metadata": {
            "name": "work",
            "namespace": "default",
            "uid": UID,
            "generation": 1,
            "resourceVersion": "7",
            "finalizers": ["finalizer.keda.sh"],
            **(metadata or {}),
        },
        "spec": {
            "jobTargetRef": {"template": {"spec": {"containers": [{"name": "main", "image": "worker"}]}}},
            "triggers": [trigger],
            **spec,
        },
        **({"status": status} if status is not None else {}),
    }


def sample(value: float = 0.0, *, target: float = 1.0, active: bool | None = None, **more: Any) -> TriggerSample:
    """A measurement that is active when there is anything to do."""
    given = {"name": "s0-redis-work", "type": "redis", **more}
    return TriggerSample(value=value, target=target, active=value > 0 if active is None else active, **given)


def reading(*samples: TriggerSample, id: int = 36, started: float = -1.0, generation: int = 1, **more: Any) -> Reading:
    """A reading that began a second ago; its id in base 36 is ``10``."""
    return Reading(id=id, started=micros(started), generation=generation, samples=samples, **more)


def owned_by(api_version: str, kind: str, name: str) -> list[Object]:
    """The owner references of a child, field by field as Kubernetes writes them."""
    names = {"apiVersion": api_version, "kind": kind, "name": name, "uid": UID}
    return [{**names, "controller": True, "blockOwnerDeletion": True}]


def entry(kind: Kind, name: str, body: Object | None, *, seen: float = -10.0) -> CachedObject:
    return CachedObject(Ref(kind, "default", name), body, micros(seen))


def condition(type_: str, status: str = "True", *, at_: float = -10.0, **more: str) -> Object:
    return {"type": type_, "status": status, "lastTransitionTime": at(at_), **more}


def child(name: str, *ended: str, seen: float = -10.0, ended_at: float = -10.0, generation: int = 1) -> CachedObject:
    """A Job of the ScaledJob. ended: ``Complete``, ``Failed``, or nothing while it runs."""
    status: Object = {"conditions": [condition(type_, at_=ended_at) for type_ in ended]}
    if "Complete" in ended:
        status["completionTime"] = at(ended_at)
    annotations = {"scaledjob.keda.sh/generation": str(generation)}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations}
    return entry(JOB, name, {"metadata": metadata, "spec": {}, "status": status}, seen=seen)


def gone(name: str, *, seen: float = -10.0) -> CachedObject:
    """A Job that is remembered only as deleted."""
    return entry(JOB, name, None, seen=seen)


def snapshot(body: Object, *children: CachedObject, reading: Reading | None = None, **more: Any) -> Snapshot:
    """Returns the snapshot of a reconcile of this ScaledJob."""
    by_kind: dict[str, tuple[CachedObject, ...]] = {}
    for each in children:
        by_kind[each.ref.kind.id] = (*by_kind.get(each.ref.kind.id, ()), each)
    ref = Ref(SCALED_JOB, body["metadata"]["namespace"], body["metadata"]["name"])
    return Snapshot(ref=ref, body=body, children=by_kind, reading=reading, at=micros(0), **more)


def pod(name: str, phase: str = "Running", *, seen: float = -10.0, job: str = "crunch", **more: Any) -> CachedObject:
    """A pod of a Job, not counted yet. more: parts of its status; ``metadata``, ``spec`` are merged into those."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "5",
        "creationTimestamp": at(-60),
        "labels": {"job-name": job},
        "finalizers": [TRACKING],
        **more.pop("metadata", {}),
    }
    body = {"metadata": metadata, "spec": more.pop("spec", {}), "status": {"phase": phase, **more}}
    return entry(POD, name, body, seen=seen)


def job(*, metadata: Object | None = None, status: Object | None = None, **spec: Any) -> Object:
    """A batch/v1 Job as a user wrote it."""
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": "crunch", "namespace": "default", "uid": UID, "resourceVersion": "7", **(metadata or {})},
        "spec": {
            "template": {"spec": {"containers": [{"name": "main", "image": "worker"}], "restartPolicy": "Never"}},
            **spec,
        },
        **({"status": status} if status is not None else {}),
    }


def job_snapshot(
    body: Object, *pods: CachedObject, unowned: tuple[CachedObject, ...] = (), failures: int = 0
) -> Snapshot:
    """Returns the snapshot of a reconcile of this Job. loose: pods without a controller."""
    ref = Ref(JOB, "default", body["metadata"]["name"])
    return Snapshot(ref=ref, body=body, children={POD.id: pods}, unowned={POD.id: unowned}, failures=failures)
