"""The cause of a pod's failure: container, exit code and the kubelet's reason.

A pod whose containers restart in place never fails; the failures of a task with too many restarts are reported as well.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from workers.api import conditions, times
from workers.api.kinds import Object
from workers.api.volcano.job import Failure, Task
from workers.controllers.volcano.job.observed import ObservedJob, ObservedPod

#: Failures that a status stores.
REMEMBERED = 10


def of(pod: ObservedPod) -> Failure:
    """Returns the failure of a pod that failed, or whose containers did."""
    status = pod.body.get("status") or {}
    name, ended = next(_ended_badly(pod.body), (None, {}))
    return Failure(
        pod=pod.name,
        task=pod.task,
        container=name,
        exit_code=ended.get("exitCode"),
        reason=ended.get("reason") or status.get("reason"),
        message=(ended.get("message") or status.get("message") or "")[:256] or None,
        time=times.render(finished(pod)),
    )


def exit_code(pod: ObservedPod) -> int:
    """Returns the first exit code other than 0, of containers and then of init containers; 0 without one."""
    _, ended = next(_ended_badly(pod.body), (None, {}))
    return int(ended.get("exitCode") or 0)


def finished(pod: ObservedPod) -> datetime:
    """Returns the end of a pod: that of its last container, else the time at which it ceased to be ready."""
    status = pod.body.get("status") or {}
    ends = [
        ended["finishedAt"]
        for _, ended in _ended(status, "containerStatuses", "initContainerStatuses")
        if ended.get("finishedAt")
    ]
    if ends:
        return max(map(times.parse, ends))
    ready = conditions.find(pod.body, "Ready") or {}
    return times.parse(ready.get("lastTransitionTime") or pod.body["metadata"]["creationTimestamp"])


def summary(failure: Failure) -> str:
    """Returns the failure in one line."""
    text = f"pod {failure.pod}"
    if failure.container is not None:
        text += f": container {failure.container} exited with {failure.exit_code}"
    details = ", ".join(part for part in (failure.reason, failure.message) if part)
    return f"{text} ({details})" if details else f"{text} failed" if failure.container is None else text


def restart_counts(pods: Iterable[ObservedPod], task: Task) -> dict[str, int]:
    """Returns container restarts by pod for the task's pods at work; empty below the task's `maxRetry`."""
    if task.retries is None:
        return {}
    found = {pod.name: _restarts(pod.body) for pod in pods if not pod.ended and pod.phase != "Unknown"}
    return found if sum(found.values()) >= task.retries else {}


def remembered(view: ObservedJob) -> tuple[Failure, ...]:
    """Returns the newest failures: those in the status, and those of pods that failed since."""
    known = view.memory.failures or ()
    failures = {(failure.pod, failure.time): failure for failure in known}
    for pod in view.pods:
        if pod.phase == "Failed" and not pod.going:
            failure = of(pod)
            failures.setdefault((failure.pod, failure.time), failure)
    for pod in _restarted_too_often(view):
        # Only the first failure of each pod is stored: every restart would add one.
        born = pod.body["metadata"]["creationTimestamp"]
        if not any(failure.pod == pod.name and (failure.time or "") > born for failure in known):
            failure = of(pod)
            failures[failure.pod, failure.time] = failure
    return tuple(sorted(failures.values(), key=lambda one: (one.time or "", one.pod))[-REMEMBERED:])


def _restarted_too_often(view: ObservedJob) -> Iterator[ObservedPod]:
    """Yields the pods with a failed container, of tasks whose containers restarted too often."""
    current = [pod for pod in view.pods if pod.version >= view.version and not pod.going]
    for task in view.job.spec.tasks:
        pods = [pod for pod in current if pod.task == task.name]
        restarts = restart_counts(pods, task)
        yield from (pod for pod in pods if restarts.get(pod.name) and any(_ended_badly(pod.body)))


def _restarts(pod: Object) -> int:
    status = pod.get("status") or {}
    containers = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return sum(container.get("restartCount") or 0 for container in containers)


def _ended_badly(pod: Object) -> Iterator[tuple[str, Object]]:
    found = _ended(pod.get("status") or {}, "containerStatuses", "initContainerStatuses")
    return ((name, ended) for name, ended in found if ended.get("exitCode"))


def _ended(status: Object, *parts: str) -> Iterator[tuple[str, Object]]:
    for part in parts:
        for container in status.get(part) or ():
            for state in ("state", "lastState"):
                if ended := (container.get(state) or {}).get("terminated"):
                    yield container.get("name") or "", ended
                    break
