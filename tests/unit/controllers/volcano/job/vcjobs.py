"""Volcano Jobs for decisions: every factory gives a plausible whole, and a test names only what matters to it."""

from typing import Any

from tests.unit.controllers.factories import UID, at
from workers.api.kinds import POD, VC_JOB, Object
from workers.api.volcano.job import Job, parse

MAIN = {"name": "main", "image": "worker"}


def task(name: str = "worker", replicas: int = 1, *, template: Object | None = None, **more: Any) -> Object:
    """A task whose pods have one container. template: the template's metadata and spec, laid over the plain one."""
    given = template or {}
    spec = {"containers": [MAIN], "restartPolicy": "Never", **given.get("spec", {})}
    whole = {**given, "spec": spec}
    return {"name": name, "replicas": replicas, "minAvailable": replicas, "template": whole, **more}


def vcjob(*tasks: Object, metadata: Object | None = None, status: Object | None = None, **spec: Any) -> Object:
    """A Job as it is stored: what the webhook fills in is there."""
    given = list(tasks or (task(),))
    return {
        "apiVersion": VC_JOB.api_version,
        "kind": VC_JOB.kind,
        "metadata": {
            "name": "train",
            "namespace": "default",
            "uid": UID,
            "generation": 1,
            "resourceVersion": "7",
            "creationTimestamp": at(-60),
            **(metadata or {}),
        },
        "spec": {
            "schedulerName": "volcano",
            "queue": "default",
            "maxRetry": 3,
            **({} if "minAvailable" in spec else {"minAvailable": sum(each["minAvailable"] for each in given)}),
            **spec,
            "tasks": given,
        },
        **({"status": status} if status is not None else {}),
    }


def parsed(*tasks: Object, **more: Any) -> Job:
    """The same, typed."""
    return parse(vcjob(*tasks, **more))


def vcpod(name: str, phase: str = "Running", *, ready: tuple[bool, ...] = (True,), **status: Any) -> Object:
    """A pod with so many containers. A pod that has not begun tells of none."""
    states = [{"name": f"c{index}", "ready": each, "restartCount": 0} for index, each in enumerate(ready)]
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "status": {"phase": phase, "containerStatuses": states, **status},
    }
