"""Jobs and pods in the states that decisions about a Job are asked for."""

from tests.unit.controllers.factories import NOW, at, job_snapshot, pod
from workers.controllers.batch.job import decide

#: Deletion was asked for three seconds ago.
LEAVING = {"deletionTimestamp": at(27), "deletionGracePeriodSeconds": 30}
NEVER = {"containers": [{"name": "main"}], "restartPolicy": "Never"}


STARTED = {"startTime": at(-60), "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
COUNTED = {"finalizers": []}
DELETING = {"deletionTimestamp": at(-1)}


def run(body, *pods, now=NOW, **more):
    return decide(job_snapshot(body, *pods, **more), now)


def finished_pod(name, phase, ended=-300, **more):
    terminated = {"state": {"terminated": {"finishedAt": at(ended), "exitCode": 0 if phase == "Succeeded" else 1}}}
    return pod(name, phase, containerStatuses=[terminated], **more)


def succeeded(name, ended=-300, **more):
    return finished_pod(name, "Succeeded", ended, **more)


def failed(name, ended=-300, **more):
    return finished_pod(name, "Failed", ended, **more)


def settled(name, phase="Succeeded", ended=-300):
    """A finished pod that has been counted."""
    return finished_pod(name, phase, ended, metadata=COUNTED)


def leaving(name, phase="Running", **metadata):
    return pod(name, phase, metadata={**LEAVING, **metadata})


def started(**more):
    return {**STARTED, **more}
