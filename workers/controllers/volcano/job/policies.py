"""Lifecycle policies: which action answers what has happened, the task's before the job's, the first that matches."""

from collections.abc import Iterable
from typing import Literal

from workers.api.volcano.job import JobSpec, LifecyclePolicy
from workers.controllers.volcano.job.happenings import Happening

#: What an action is about: timers of a level end when an action of the same level is taken.
Level = Literal["job", "task", "pod", "partition"]
_LEVELS: dict[str, Level] = {"RestartTask": "task", "RestartPod": "pod", "RestartPartition": "partition"}
#: Stands for every event.
_ANY = "*"


def chosen(spec: JobSpec, happening: Happening) -> LifecyclePolicy | None:
    """The policy that answers what has happened; None: nothing is done about it."""
    task = spec.task(happening.task) if happening.task else None
    return _first(task.policies or () if task else (), happening) or _first(spec.policies or (), happening)


def level(action: str) -> Level:
    """What an action is about."""
    return _LEVELS.get(action, "job")


def _first(policies: Iterable[LifecyclePolicy], happening: Happening) -> LifecyclePolicy | None:
    return next((policy for policy in policies if _matches(policy, happening)), None)


def _matches(policy: LifecyclePolicy, happening: Happening) -> bool:
    if policy.exit_code is not None and policy.exit_code == happening.exit_code:
        # Admission refuses 0, which would match everything but a failure.
        return happening.exit_code != 0
    if not policy.all_events & {happening.event, _ANY}:
        return False
    # Every pod is pending at first: only one that stays so is worth an action.
    return happening.event != "PodPending" or bool(policy.delay)
