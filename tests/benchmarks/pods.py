"""Pods as a kubelet leaves them."""

from datetime import UTC, datetime

from workers.api import times
from workers.api.kinds import Object


def succeeded() -> Object:
    """The status of a pod whose one container is done."""
    moment = times.render(datetime.now(UTC))
    terminated = {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}
    container = {
        **{"name": "work", "image": "python", "imageID": "", "ready": False, "restartCount": 0},
        "state": {"terminated": terminated},
    }
    return {"status": {"phase": "Succeeded", "startTime": moment, "containerStatuses": [container]}}
