"""Delayed actions: the timeouts of policies, stored in the status.

A pending pod's timer follows from the pod itself, so only the first per task is stored, as a mark that its Event was
recorded. A status has to fit into etcd's size limit.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import chain

from workers.api import times
from workers.api.volcano.job import Delayed, LifecyclePolicy
from workers.controllers.volcano.job import policies
from workers.controllers.volcano.job.observed import ObservedPod
from workers.controllers.volcano.job.phases import RESTARTS
from workers.controllers.volcano.job.policies import JobEvent

Timers = tuple[Delayed, ...]

#: Stored timers of failed or deleted pods, the first due ones; those of failed pods can be derived from the pods.
REMEMBERED = 1000
#: Event, task and action: one Event announces all such timers.
Sort = tuple[str, str | None, str]


def running(known: Iterable[Delayed], pods: Iterable[ObservedPod]) -> Timers:
    """Returns the timers of pods that have not recovered.

    A timer of a pending pod ends when that pod is no longer pending. A timer of a failed or deleted pod ends when a pod
    of that name runs.
    """
    by_name: Mapping[str, ObservedPod] = {pod.name: pod for pod in pods if not pod.leaving}
    return tuple(timer for timer in known if not _recovered(timer, by_name.get(timer.pod or "")))


def started(known: Timers, asked: Iterable[tuple[LifecyclePolicy, JobEvent]], all_: Iterable[JobEvent]) -> Timers:
    """Returns the timers after those of the asked policies are started; a timer of the same action and pod goes on.

    A timer of another action is replaced unless its event is still observed. all_: all observed events.
    """
    still = {(one.event, one.pod) for one in all_}
    of_pod: dict[str | None, list[Delayed]] = {}
    for timer in known:
        of_pod.setdefault(timer.pod, []).append(timer)
    news = False
    for policy, event in asked:
        others = of_pod.get(event.pod, [])
        if any(timer.action == policy.action for timer in others):
            continue
        kept = [timer for timer in others if (timer.event, timer.pod) in still]
        of_pod[event.pod] = [*kept, _timer(policy, event)]
        news = True
    return tuple(chain.from_iterable(of_pod.values())) if news else known


def stored(known: Timers) -> Timers:
    """Returns the part of the timers that does not follow from observed pods."""
    first: dict[Sort, Delayed] = {}
    others: list[Delayed] = []
    for timer in known:
        if timer.event != "PodPending":
            others.append(timer)
        elif sort(timer) not in first or _turn(timer) < _turn(first[sort(timer)]):
            first[sort(timer)] = timer
    return (*sorted(first.values(), key=_turn), *sorted(others, key=_turn)[:REMEMBERED])


def sort(timer: Delayed) -> Sort:
    """Returns the key under which one Event announces several timers."""
    return timer.event, timer.task, timer.action


def without(known: Timers, action: str, task: str | None, pod: str | None, partition: int | None) -> Timers:
    """Returns the timers left after an action; timers of its level and target end."""
    level = policies.level(action)

    def is_met(timer: Delayed) -> bool:
        match level:
            case "job":
                return timer.level == "job"
            case "task":
                return timer.level == "task" and timer.task == task
            case "pod":
                return timer.level == "pod" and timer.pod == pod
            case "partition":
                return timer.level == "partition" and (timer.task, timer.partition) == (task, partition)

    return tuple(timer for timer in known if not is_met(timer))


def due(known: Timers, now: datetime) -> Delayed | None:
    """Returns the first due timer."""
    ready = [timer for timer in known if times.parse(timer.due) <= now]
    return min(ready, key=lambda timer: timer.due, default=None)


def fired(known: Timers, first: Delayed, now: datetime) -> tuple[Timers, Timers]:
    """Returns the timers to apply and the timers left. Due restarts of single pods are applied together."""
    if first.level != "pod":
        return (first,), tuple(timer for timer in known if timer != first)
    together = [timer for timer in known if timer.level == "pod" and times.parse(timer.due) <= now]
    pods = {timer.pod for timer in together}
    return tuple(sorted(together, key=_turn)), tuple(
        timer for timer in known if not (timer.level == "pod" and timer.pod in pods)
    )


def next_due(known: Timers) -> datetime | None:
    """Returns the time of the next timer."""
    return min((times.parse(timer.due) for timer in known), default=None)


def awaits_restart(known: Timers) -> bool:
    """Returns True if failed pods are restarted after a timeout."""
    return any(timer.event == "PodFailed" and timer.action in RESTARTS for timer in known)


def _turn(timer: Delayed) -> tuple[str, str]:
    return timer.due, timer.pod or ""


def _timer(policy: LifecyclePolicy, event: JobEvent) -> Delayed:
    assert policy.delay is not None
    return Delayed(
        action=policy.action or "",
        event=event.event,
        due=times.render(event.at + policy.delay),
        task=event.task,
        pod=event.pod,
        uid=event.uid,
        partition=event.partition,
        level=policies.level(policy.action or ""),
    )


def _recovered(timer: Delayed, pod: ObservedPod | None) -> bool:
    match timer.event:
        case "PodPending":
            return pod is None or pod.uid != timer.uid or pod.phase != "Pending"
        case "PodFailed" | "PodEvicted":
            return pod is not None and pod.phase == "Running"
        case _:
            return False
