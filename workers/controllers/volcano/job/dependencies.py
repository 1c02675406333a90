"""Which tasks may start: those whose `dependsOn` is fulfilled; and which never will."""

from collections.abc import Mapping, Set

from workers.api.kinds import Object
from workers.api.volcano.job import Job, Task
from workers.controllers.volcano.job import names
from workers.controllers.volcano.job.observed import OUT_OF_SYNC


def ready(job: Job, task: Task, pods: Mapping[str, Object]) -> bool:
    """Whether the task's pods may be made. pods: those the job has, by name."""
    return not waiting_for(job, task, pods)


def waiting_for(job: Job, task: Task, pods: Mapping[str, Object]) -> tuple[str, ...]:
    """The tasks that this one waits for; none when it may start. A task that does not exist is waited for as well."""
    depends = task.depends_on
    if depends is None or not depends.name:
        return ()
    late = tuple(name for name in dict.fromkeys(depends.name) if not _is_up(job, name, pods))
    if depends.iteration == "any" and len(late) < len(set(depends.name)):
        return ()
    return late


def waiting(job: Job, pods: Mapping[str, Object]) -> frozenset[str]:
    """The tasks that may not start yet."""
    return frozenset(task.name for task in job.spec.tasks if waiting_for(job, task, pods))


def lost(job: Job, pods: Mapping[str, Object]) -> Mapping[str, tuple[str, ...]]:
    """The tasks whose missing pods are never made as things stand, each with those it waits for in vain.

    A pod that failed keeps its name: unless a restart or somebody deletes it, its place gets no other.
    """
    found: dict[str, tuple[str, ...]] = {}
    while news := {
        task.name: late
        for task in job.spec.tasks
        if task.name not in found and (late := _in_vain(job, task, pods, found.keys()))
    }:
        found |= news
    return found


def unmade(job: Job, pods: Mapping[str, Object]) -> int:
    """How many pods are missing that are never made."""
    tasks = (job.spec.task(name) for name in lost(job, pods))
    return sum(
        names.pod(job, task, index) not in pods for task in tasks if task is not None for index in range(task.replicas)
    )


def told(job: Job, pods: Mapping[str, Object]) -> str:
    """Which tasks can never start, for people."""
    found = lost(job, pods)
    return "; ".join(f"task {name} can never start: {_fates(late, found)}" for name, late in found.items())


def _fates(late: tuple[str, ...], lost: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{name} cannot either" if name in lost else f"{name} failed" for name in late)


def _in_vain(job: Job, task: Task, pods: Mapping[str, Object], lost: Set[str]) -> tuple[str, ...]:
    """The tasks that this one waits for and that cannot serve any more, if it cannot start without them."""
    late = waiting_for(job, task, pods)
    vain = tuple(name for name in late if not _may_come(job, name, pods, lost))
    hopes = task.depends_on is not None and task.depends_on.iteration == "any" and vain != late
    return () if hopes else vain


def _may_come(job: Job, name: str, pods: Mapping[str, Object], lost: Set[str]) -> bool:
    """Whether enough pods of a task serve, or still may. lost: tasks that get no pods any more."""
    task = job.spec.task(name)
    if task is None:
        return False
    found = (pods.get(names.pod(job, task, index)) for index in range(task.replicas))
    return sum(name not in lost if pod is None else not _is_over(pod) for pod in found) >= task.gang


def _is_over(pod: Object) -> bool:
    """Whether the pod failed, and nobody is about to make another in its place."""
    metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
    given_up = (metadata.get("annotations") or {}).get(OUT_OF_SYNC) == "true"
    return phase == "Failed" and not metadata.get("deletionTimestamp") and not given_up


def _is_up(job: Job, name: str, pods: Mapping[str, Object]) -> bool:
    """Whether enough pods of a task serve, or have succeeded."""
    task = job.spec.task(name)
    if task is None:
        return False
    found = (pods.get(names.pod(job, task, index)) for index in range(task.replicas))
    return sum(pod is not None and _serves(pod) for pod in found) >= task.gang


def _serves(pod: Object) -> bool:
    """Whether the pod succeeded, or runs with all its containers ready; one that tells nothing of them yet counts."""
    status = pod.get("status") or {}
    if status.get("phase") != "Running":
        return bool(status.get("phase") == "Succeeded")
    return all(container.get("ready") for container in status.get("containerStatuses") or ())
