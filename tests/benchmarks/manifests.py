"""Objects of the benchmarks: as small as they may be, and as a kubelet leaves them."""

from datetime import UTC, datetime
from typing import Any

from workers.api import times
from workers.api.kinds import SCALED_JOB, Kind, Object

#: The pods' template.
TEMPLATE: Object = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "work", "image": "python", "command": ["true"]}],
    }
}


def body(kind: Kind, name: str, metadata: Object | None = None, **content: Any) -> Object:
    """Returns an object of the default namespace. metadata: further fields of it."""
    named = {"name": name, "namespace": "default", **(metadata or {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": named, **content}


def scaled_job(name: str, address: str, *, most: int, polling: int, strategy: str = "default") -> Object:
    """Returns a ScaledJob with one Job per item of the list of the same name."""
    spec = {
        "pollingInterval": polling,
        "maxReplicaCount": most,
        "scalingStrategy": {"strategy": strategy},
        "jobTargetRef": {"template": TEMPLATE},
        "triggers": [{"type": "redis", "metadata": {"address": address, "listName": name, "listLength": "1"}}],
    }
    return body(SCALED_JOB, name, spec=spec)


def succeeded() -> Object:
    """Returns the status of a pod whose one container is done."""
    moment = times.render(datetime.now(UTC))
    terminated = {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}
    container = {
        **{"name": "work", "image": "python", "imageID": "", "ready": False, "restartCount": 0},
        "state": {"terminated": terminated},
    }
    return {"status": {"phase": "Succeeded", "startTime": moment, "containerStatuses": [container]}}
