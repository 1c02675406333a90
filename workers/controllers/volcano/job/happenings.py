"""What has happened to a job's pods and has not been acted on yet.

Volcano's controller is told of changes and forgets them when it is killed. Here the same events follow from pods as
they are and from what the status remembers of them. Whatever acts on an event does away with it in the same write: its
pod is killed or is of an old version from then on, or the status no longer remembers a pod that is gone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from workers.api import times
from workers.api.volcano.job import Task
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.volcano.job import failures, names
from workers.controllers.volcano.job.observed import ObservedJob, ObservedPod

Event = Literal["PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "Unknown"]
#: Of what happened in the same second, what came first.
_ORDER: tuple[Event, ...] = ("PodFailed", "PodEvicted", "TaskFailed", "TaskCompleted", "Unknown", "PodPending")


@dataclass(frozen=True, slots=True)
class Happening:
    """One event. at: when it happened. exit_code: 0 but for a pod that failed with another. why: for people."""

    event: Event
    at: datetime
    why: str
    task: str | None = None
    pod: str | None = None
    uid: str | None = None
    partition: int | None = None
    exit_code: int = 0


def all_of(sight: ObservedJob, now: datetime) -> list[Happening]:
    """What has happened, in order. Pods of older versions and those on their way out have no part in it."""
    found: list[Happening] = []
    current = {pod.name: pod for pod in sight.pods if pod.version >= sight.version and not pod.leaving}
    for task in sight.job.spec.tasks:
        pods = tuple(pod for pod in current.values() if pod.task == task.name)
        found += map(_failed, (pod for pod in pods if pod.phase == "Failed"))
        found += map(_pending, (pod for pod in pods if pod.phase == "Pending"))
        found += _evicted(sight, task, current, now)
        found += _completed(sight.of(task), task, sight.version)
        found += _restarted(pods, task, now)
    if sight.group_phase == "Unknown" and sight.memory.group_phase != "Unknown":
        found.append(Happening("Unknown", now, "pods of the gang run, and others cannot be placed"))
    return sorted(found, key=lambda one: (one.at, _ORDER.index(one.event), one.pod or ""))


def _failed(pod: ObservedPod) -> Happening:
    failure = failures.of(pod)
    return _of(pod, "PodFailed", failures.finished(pod), failures.told(failure), failures.exit_code(pod))


def _pending(pod: ObservedPod) -> Happening:
    return _of(pod, "PodPending", times.parse(pod.body["metadata"]["creationTimestamp"]), f"pod {pod.name} is pending")


def _of(pod: ObservedPod, event: Event, at: datetime, why: str, exit_code: int = 0) -> Happening:
    return Happening(event, at, why, pod.task, pod.name, pod.uid, pod.partition, exit_code)


def _evicted(sight: ObservedJob, task: Task, current: dict[str, ObservedPod], now: datetime) -> Iterator[Happening]:
    """Pods that the status remembers and somebody else has deleted. The status forgets those that we delete."""
    if sight.backed_out:
        return
    pods = {pod.name: pod for pod in sight.pods}
    for index in Indexes.parse((sight.memory.present or {}).get(task.name), task.replicas):
        name = names.pod(sight.job, task, index)
        if name not in current:
            leaving = pods.get(name)
            if leaving is not None and leaving.given_up:
                continue
            uid = leaving.uid if leaving else None
            partition = _partition(task, index)
            yield Happening("PodEvicted", now, f"pod {name} was deleted", task.name, name, uid, partition)


def _partition(task: Task, index: int) -> int | None:
    return index // task.partition_policy.partition_size if task.partition_policy else None


def _completed(pods: tuple[ObservedPod, ...], task: Task, version: int) -> Iterator[Happening]:
    """All replicas have succeeded, and not all of them for an older version, whose success was told then."""
    done = [pod for pod in pods if pod.phase == "Succeeded" and not pod.leaving]
    news = [pod for pod in done if pod.version >= version]
    if task.replicas and len(done) >= task.replicas and news:
        last = max(news, key=lambda pod: (failures.finished(pod), pod.name))
        yield _of(last, "TaskCompleted", failures.finished(last), f"task {task.name} is completed")


def _restarted(pods: tuple[ObservedPod, ...], task: Task, now: datetime) -> Iterator[Happening]:
    """Containers have been started again too often in the pods at work."""
    if restarts := failures.worn(pods, task):
        worst = max((pod for pod in pods if pod.name in restarts), key=lambda pod: (restarts[pod.name], pod.name))
        text = f"containers of task {task.name} restarted {sum(restarts.values())} times, maxRetry is {task.retries}"
        yield _of(worst, "TaskFailed", now, f"{text}; {failures.told(failures.of(worst))}")
