"""Why a pod failed: which container, with which exit code, and what the kubelet said of it."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from workers.api import times
from workers.api.kinds import Object
from workers.api.volcano.job import Failure
from workers.controllers import conditions
from workers.controllers.volcano.vcjob.sight import Pod

#: Failures that a status remembers.
REMEMBERED = 10


def of(pod: Pod) -> Failure:
    """What is to be said of a pod that failed."""
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


def exit_code(pod: Pod) -> int:
    """The first exit code that is not 0, of containers and then of init containers; 0 when there is none."""
    _, ended = next(_ended_badly(pod.body), (None, {}))
    return int(ended.get("exitCode") or 0)


def finished(pod: Pod) -> datetime:
    """When a pod ended: its last container did, or else it ceased to be ready."""
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


def told(failure: Failure) -> str:
    """One line for people."""
    text = f"pod {failure.pod}"
    if failure.container is not None:
        text += f": container {failure.container} exited with {failure.exit_code}"
    details = ", ".join(part for part in (failure.reason, failure.message) if part)
    return f"{text} ({details})" if details else f"{text} failed" if failure.container is None else text


def remembered(known: Iterable[Failure], pods: Iterable[Pod]) -> tuple[Failure, ...]:
    """The newest failures: those that were known, and those of pods that failed since."""
    failures = {(failure.pod, failure.time): failure for failure in known}
    for pod in pods:
        if pod.phase == "Failed" and not pod.leaving:
            failure = of(pod)
            failures.setdefault((failure.pod, failure.time), failure)
    return tuple(sorted(failures.values(), key=lambda one: (one.time or "", one.pod))[-REMEMBERED:])


def _ended_badly(pod: Object) -> Iterator[tuple[str, Object]]:
    found = _ended(pod.get("status") or {}, "containerStatuses", "initContainerStatuses")
    return ((name, ended) for name, ended in found if ended.get("exitCode"))


def _ended(status: Object, *parts: str) -> Iterator[tuple[str, Object]]:
    for part in parts:
        for container in status.get(part) or ():
            if ended := (container.get("state") or {}).get("terminated"):
                yield container.get("name") or "", ended
