"""Lifecycle policies: the events of a job's pods, the policy that answers an event, and policies without effect.

Volcano's controller receives events and loses them when it is killed. Here the same events are derived from the
observed pods and the status. The write that acts on an event also removes it: the pod is killed or belongs to an old
version from then on, or the status no longer lists a pod that is gone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from workers.api import times
from workers.api.volcano.job import JobSpec, LifecyclePolicy, Task
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.volcano.job import failures, names
from workers.controllers.volcano.job.observed import ObservedJob, ObservedPod
from workers.decision.plan import RecordEvent

Event = Literal["PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "Unknown"]
#: Order of events with equal times.
_ORDER: tuple[Event, ...] = ("PodFailed", "PodEvicted", "TaskFailed", "TaskCompleted", "Unknown", "PodPending")


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event. exit_code: 0 unless a pod failed with another. why: for messages."""

    event: Event
    at: datetime
    why: str
    task: str | None = None
    pod: str | None = None
    uid: str | None = None
    partition: int | None = None
    exit_code: int = 0


def events(view: ObservedJob, now: datetime) -> list[JobEvent]:
    """Returns the unanswered events in order. Pods of older versions, and pods that are going, cause none."""
    found: list[JobEvent] = []
    current = {pod.name: pod for pod in view.pods if pod.version >= view.version and not pod.going}
    for task in view.job.spec.tasks:
        pods = tuple(pod for pod in current.values() if pod.task == task.name)
        found += map(_failed, (pod for pod in pods if pod.phase == "Failed"))
        found += map(_pending, (pod for pod in pods if pod.phase == "Pending"))
        found += _evicted(view, task, current, now)
        found += _completed(view.of(task), task, view.version)
        found += _restarted_too_often(pods, task, now)
    if view.group_phase == "Unknown" and view.memory.group_phase != "Unknown":
        found.append(JobEvent("Unknown", now, "pods of the gang run, and others cannot be placed"))
    return sorted(found, key=lambda one: (one.at, _ORDER.index(one.event), one.pod or ""))


def _failed(pod: ObservedPod) -> JobEvent:
    failure = failures.of(pod)
    return _event(pod, "PodFailed", failures.finished(pod), failures.summary(failure), failures.exit_code(pod))


def _pending(pod: ObservedPod) -> JobEvent:
    return _event(
        pod, "PodPending", times.parse(pod.body["metadata"]["creationTimestamp"]), f"pod {pod.name} is pending"
    )


def _event(pod: ObservedPod, event: Event, at: datetime, why: str, exit_code: int = 0) -> JobEvent:
    return JobEvent(event, at, why, pod.task, pod.name, pod.uid, pod.partition, exit_code)


def _evicted(view: ObservedJob, task: Task, current: dict[str, ObservedPod], now: datetime) -> Iterator[JobEvent]:
    """Yields the pods in the status that another actor deleted. The status forgets pods before the job deletes them."""
    if view.backed_out:
        return
    pods = {pod.name: pod for pod in view.pods}
    for index in Indexes.parse((view.memory.present or {}).get(task.name), task.replicas):
        name = names.pod(view.job, task, index)
        if name not in current:
            leaving = pods.get(name)
            if leaving is not None and leaving.given_up:
                continue
            uid = leaving.uid if leaving else None
            partition = index // task.partition_policy.partition_size if task.partition_policy else None
            yield JobEvent("PodEvicted", now, f"pod {name} was deleted", task.name, name, uid, partition)


def _completed(pods: tuple[ObservedPod, ...], task: Task, version: int) -> Iterator[JobEvent]:
    """Yields TaskCompleted if all replicas succeeded, at least one of them in this version."""
    done = [pod for pod in pods if pod.phase == "Succeeded" and not pod.going]
    news = [pod for pod in done if pod.version >= version]
    if task.replicas and len(done) >= task.replicas and news:
        last = max(news, key=lambda pod: (failures.finished(pod), pod.name))
        yield _event(last, "TaskCompleted", failures.finished(last), f"task {task.name} is completed")


def _restarted_too_often(pods: tuple[ObservedPod, ...], task: Task, now: datetime) -> Iterator[JobEvent]:
    """Yields TaskFailed if the containers of the pods at work have restarted too often."""
    if restarts := failures.restart_counts(pods, task):
        worst = max((pod for pod in pods if pod.name in restarts), key=lambda pod: (restarts[pod.name], pod.name))
        text = f"containers of task {task.name} restarted {sum(restarts.values())} times, maxRetry is {task.retries}"
        yield _event(worst, "TaskFailed", now, f"{text}; {failures.summary(failures.of(worst))}")


#: Level of an action; it ends the timers of the same level.
Level = Literal["job", "task", "pod", "partition"]
_LEVELS: dict[str, Level] = {"RestartTask": "task", "RestartPod": "pod", "RestartPartition": "partition"}
#: Matches every event.
_ANY = "*"


def chosen(spec: JobSpec, event: JobEvent) -> LifecyclePolicy | None:
    """Returns the policy that answers the event: the task's before the job's, the first that matches."""
    task = spec.task(event.task) if event.task else None
    return _first(task.policies or () if task else (), event) or _first(spec.policies or (), event)


def level(action: str) -> Level:
    """Returns the object that an action applies to."""
    return _LEVELS.get(action, "job")


def _first(policies: Iterable[LifecyclePolicy], event: JobEvent) -> LifecyclePolicy | None:
    return next((policy for policy in policies if _matches(policy, event)), None)


def _matches(policy: LifecyclePolicy, event: JobEvent) -> bool:
    if policy.exit_code is not None and policy.exit_code == event.exit_code:
        # Admission refuses 0; a stored policy for 0 would match every event without an exit code.
        return event.exit_code != 0
    if not policy.all_events & {event.event, _ANY}:
        return False
    # Every pod starts as pending: only a policy with a timeout answers that.
    return event.event != "PodPending" or bool(policy.delay)


def warnings(spec: JobSpec) -> Iterator[RecordEvent]:
    """Yields Events about policies that never act and an unreachable minSuccess; Volcano accepts both silently."""
    for text in _never_acting(spec.policies or (), "policies", spec.tasks):
        yield RecordEvent("Warning", "PolicyIgnored", text)
    for task in spec.tasks:
        for text in _never_acting(task.policies or (), f"tasks[{task.name}].policies", (task,)):
            yield RecordEvent("Warning", "PolicyIgnored", text)
    if spec.min_success is not None and spec.min_success > spec.total:
        text = (
            f"minSuccess is {spec.min_success}, and all tasks together have {spec.total} pods: they cannot complete it"
        )
        yield RecordEvent("Warning", "MinSuccessTooHigh", text)


def _never_acting(policies: Sequence[LifecyclePolicy], place: str, tasks: Sequence[Task]) -> Iterator[str]:
    """Yields a message for each policy of one list that never acts. tasks: the tasks it applies to."""
    for index, policy in enumerate(policies):
        where = f"{place}[{index}]"
        if policy.action == "RestartPartition" and not any(task.partition_policy for task in tasks):
            yield f"{where}: RestartPartition does nothing to a task without a partitionPolicy"
        if "PodPending" in policy.all_events and not policy.delay:
            yield f"{where}: PodPending is answered only after a timeout, and there is none"
        if "JobUpdated" in policy.all_events:
            yield f"{where}: JobUpdated never happens"
        if (
            "TaskFailed" in policy.all_events
            and tasks
            and all(task.pod_spec.get("restartPolicy") == "Never" for task in tasks)
        ):
            yield f"{where}: TaskFailed is about containers that are started again, and restartPolicy is Never"
