"""Lifecycle policies of Volcano's Jobs and tasks: which of them may stand in one list."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from workers.admission.findings import Finding
from workers.api.volcano.job import LifecyclePolicy

ANY = "*"
#: Events of policies. Volcano's other events are internal to its controller.
EVENTS = (ANY, "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated")
ACTIONS = (
    *("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition"),
    *("TerminateJob", "CompleteJob", "ResumeJob"),
)
#: Actions that Volcano accepts for an exit code only, besides none at all: they do nothing, and shield the policies
#: that follow.
_OWN = ("", "SyncJob", "EnqueueJob")


def problems(policies: Sequence[LifecyclePolicy], path: str) -> list[Finding]:
    """The first thing that is wrong with the policies of one list, and whether they contradict each other."""
    first = next(_each(policies, path), None)
    return [first] if first else []


def _each(policies: Sequence[LifecyclePolicy], path: str) -> Iterator[Finding]:
    events: dict[str, int] = {}
    codes: dict[int, int] = {}
    for index, policy in enumerate(policies):
        place = f"{path}[{index}]"
        if policy.delay is not None and policy.delay < timedelta():
            yield Finding(f"{place}.timeout", f"must not be below 0, {policy.timeout}")
        if policy.all_events and policy.exit_code is not None:
            yield Finding(place, "must not have both an event and an exitCode")
        if policy.exit_code is not None:
            yield from _exit_code(policy, policy.exit_code, codes, index, place)
        elif policy.all_events:
            yield from _events(policy, events, index, place)
        else:
            yield Finding(place, "must have either an event (or events) or an exitCode")
    if ANY in events and len(events) > 1:
        others = ", ".join(sorted(set(events) - {ANY}))
        yield Finding(path, f"`{ANY}` stands for all events: there must be no policy for others beside it ({others})")


def _exit_code(policy: LifecyclePolicy, code: int, seen: dict[int, int], index: int, place: str) -> Iterator[Finding]:
    if code == 0:
        yield Finding(f"{place}.exitCode", "must not be 0: that is no failure")
    if code in seen:
        yield Finding(f"{place}.exitCode", f"{code} has a policy already, the one at index {seen[code]}")
    seen[code] = index
    if policy.action not in (None, *_OWN):
        yield from _action(policy, place)


def _events(policy: LifecyclePolicy, seen: dict[str, int], index: int, place: str) -> Iterator[Finding]:
    field = f"{place}.event" if policy.event else f"{place}.events"
    for event in sorted(policy.all_events):
        if event not in EVENTS:
            yield Finding(field, f"{event!r} is no event; there are {', '.join(EVENTS)}")
        if event in seen:
            yield Finding(field, f"{event} has a policy already, the one at index {seen[event]}")
        seen[event] = index
    yield from _action(policy, place)


def _action(policy: LifecyclePolicy, place: str) -> Iterator[Finding]:
    if policy.action not in ACTIONS:
        yield Finding(f"{place}.action", f"{policy.action or ''!r} is no action; there are {', '.join(ACTIONS)}")
