"""Which tasks may start: those whose `dependsOn` is fulfilled."""

from collections.abc import Mapping

from workers.api.kinds import Object
from workers.api.volcano.job import Job, Task
from workers.controllers.volcano.vcjob import names


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
