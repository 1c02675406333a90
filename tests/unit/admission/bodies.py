"""Objects of Volcano's kinds, as small as they may be."""

from typing import Any

from workers.admission.findings import Finding
from workers.admission.lookup import Known
from workers.api.kinds import NAMESPACE, POD_GROUP, QUEUE, Object, Ref

CONTAINER = {"name": "main", "image": "busybox"}


def task(name: str = "work", replicas: int = 1, **more: Any) -> Object:
    """A task of a Job."""
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [CONTAINER]}}, **more}


def job(*tasks: Object, name: str = "crunch", **spec: Any) -> Object:
    """A Job; without tasks it has one of one pod."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"tasks": list(tasks) or [task()], **spec},
    }


def queue(name: str = "work", state: str = "Open", annotations: Object | None = None, **spec: Any) -> Object:
    """A Queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, **({"annotations": annotations} if annotations else {})},
        "spec": spec,
        "status": {"state": state} if state else {},
    }


def group(name: str = "gang", queue: str | None = None, phase: str = "Pending", **spec: Any) -> Object:
    """A PodGroup."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**({} if queue is None else {"queue": queue}), **spec},
        "status": {"phase": phase},
    }


def known(*queues: Object, groups: tuple[Object, ...] = (), annotations: Object | None = None) -> Known:
    """A cluster with these queues, PodGroups and annotations of its namespace."""
    namespace = {"metadata": {"name": "default", "annotations": annotations or {}}}
    whole = {QUEUE.id: [queue("default"), queue("root"), *queues], POD_GROUP.id: list(groups)}
    return Known({Ref(NAMESPACE, "", "default"): namespace}, whole)


def fields(found: list[Finding]) -> list[str]:
    """Returns the wrong fields."""
    return [finding.field for finding in found]
