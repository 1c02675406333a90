"""What of a job's spec can never have an effect.

Volcano accepts it in silence, and so manifests may have it: it is told when the job begins.
"""

from collections.abc import Iterator, Sequence

from workers.api.volcano.job import JobSpec, LifecyclePolicy, Task
from workers.reconcile.plan import RecordEvent


def of(spec: JobSpec) -> Iterator[RecordEvent]:
    """Events about policies that are never carried out, and about a success that cannot be."""
    for text in _policies(spec.policies or (), "policies", spec.tasks):
        yield RecordEvent("Warning", "PolicyIgnored", text)
    for task in spec.tasks:
        for text in _policies(task.policies or (), f"tasks[{task.name}].policies", (task,)):
            yield RecordEvent("Warning", "PolicyIgnored", text)
    if spec.min_success is not None and spec.min_success > spec.total:
        text = (
            f"minSuccess is {spec.min_success}, and all tasks together have {spec.total} pods: they cannot complete it"
        )
        yield RecordEvent("Warning", "MinSuccessTooHigh", text)


def _policies(policies: Sequence[LifecyclePolicy], place: str, tasks: Sequence[Task]) -> Iterator[str]:
    """What is to be said of the policies of one list. tasks: those that they are about."""
    for index, policy in enumerate(policies):
        where = f"{place}[{index}]"
        if policy.action == "RestartPartition" and not any(task.partition_policy for task in tasks):
            yield f"{where}: RestartPartition does nothing to a task without a partitionPolicy"
        if "PodPending" in policy.all_events and not policy.delay:
            yield f"{where}: PodPending is answered only after a timeout, and there is none"
        if "JobUpdated" in policy.all_events:
            yield f"{where}: JobUpdated never happens"
        if "TaskFailed" in policy.all_events and tasks and all(_never(task) for task in tasks):
            yield f"{where}: TaskFailed is about containers that are started again, and restartPolicy is Never"


def _never(task: Task) -> bool:
    """Whether no container of the task's pods is ever started again."""
    return task.pod_spec.get("restartPolicy") == "Never"
