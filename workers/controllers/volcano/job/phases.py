"""The state machine of a Job: the effect of an action in each phase, the pod counts, and the phase that follows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from workers.api.volcano.job import JobSpec, Phase
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.volcano.job.observed import ObservedPod

Action = Literal[
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "AbortJob",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
]


class Operation(Enum):
    """The effect of an action on the pods.

    SYNC: create them as the spec says. KILL_SOFT: delete all but finished pods. KILL_NONE: delete all.
    KILL_TARGET: delete those of the task, pod or partition that the action names.
    """

    SYNC = "Sync"
    KILL_SOFT = "KillSoft"
    KILL_NONE = "KillNone"
    KILL_TARGET = "KillTarget"


class PhaseRule(Enum):
    """The rule by which the phase follows from the counts."""

    PENDING = "P"
    RUNNING = "R"
    RESTARTING = "X"
    DRAINING = "D"
    KEEP = "none"


@dataclass(frozen=True, slots=True)
class JobTransition:
    """The effect of an action in a phase. then: the next phase, or the rule for it. counts: as a restart."""

    operation: Operation
    then: Phase | PhaseRule
    counts: bool = False


_RESTART = JobTransition(Operation.KILL_NONE, "Restarting", counts=True)
_RESTART_PART = JobTransition(Operation.KILL_TARGET, "Restarting", counts=True)
_RESUME = JobTransition(Operation.KILL_SOFT, "Restarting", counts=True)
_PARTS: tuple[Action, ...] = ("RestartTask", "RestartPod", "RestartPartition")
_EVERY: tuple[Action, ...] = ("RestartJob", *_PARTS, "AbortJob", "TerminateJob", "CompleteJob", "ResumeJob")

#: By phase, the effect of each action; other actions have the effect in `_OTHERS`.
_CELLS: Mapping[Phase, Mapping[str, JobTransition]] = {
    **{
        phase: {
            "RestartJob": _RESTART,
            **dict.fromkeys(_PARTS, _RESTART_PART),
            "AbortJob": JobTransition(Operation.KILL_SOFT, "Aborting"),
            "TerminateJob": JobTransition(Operation.KILL_SOFT, "Terminating"),
            "CompleteJob": JobTransition(Operation.KILL_SOFT, "Completing"),
        }
        for phase in ("Pending", "Running")
    },
    "Restarting": {
        **dict.fromkeys(_EVERY, JobTransition(Operation.KILL_NONE, PhaseRule.RESTARTING)),
        **dict.fromkeys(_PARTS, JobTransition(Operation.KILL_TARGET, PhaseRule.RESTARTING)),
    },
    "Aborting": {"ResumeJob": _RESUME},
    "Aborted": {"ResumeJob": _RESUME},
}
_DRAINING = JobTransition(Operation.KILL_SOFT, PhaseRule.DRAINING)
_ENDED = JobTransition(Operation.KILL_SOFT, PhaseRule.KEEP)
_OTHERS: Mapping[Phase, JobTransition] = {
    "Pending": JobTransition(Operation.SYNC, PhaseRule.PENDING),
    "Running": JobTransition(Operation.SYNC, PhaseRule.RUNNING),
    "Restarting": JobTransition(Operation.SYNC, PhaseRule.RESTARTING),
    "Aborting": _DRAINING,
    "Terminating": _DRAINING,
    "Completing": _DRAINING,
    "Aborted": _ENDED,
    "Completed": _ENDED,
    "Failed": _ENDED,
    "Terminated": _ENDED,
}

#: Actions that restart a job or a part of it.
RESTARTS: frozenset[str] = frozenset(("RestartJob", *_PARTS))
#: Final phases.
FINAL: frozenset[Phase] = frozenset(("Completed", "Failed", "Terminated"))
#: Phases of a job at work.
AT_WORK: frozenset[Phase] = frozenset(("Pending", "Running", "Restarting"))
#: The phase after the last pod has ended.
_DRAINED: Mapping[Phase, Phase] = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}


def cell(phase: Phase, action: str) -> JobTransition:
    """Returns the effect of an action on a job in this phase. An unknown action has the effect of a sync."""
    return _CELLS.get(phase, {}).get(action, _OTHERS[phase])


@dataclass(frozen=True, slots=True)
class JobPodCounts:
    """Pods by phase. succeeded_of: by task, for tasks with a pod that is not being deleted.

    lost: pods that `dependsOn` prevents for ever; the rules count them as failed.
    """

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    lost: int = 0
    succeeded_of: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PhaseOutcome:
    """The phase that follows. reason, message: set where the change needs an explanation."""

    phase: Phase
    reason: str | None = None
    message: str | None = None


def pending(spec: JobSpec, counts: JobPodCounts) -> PhaseOutcome:
    """Rule P: Running once enough pods run or have ended."""
    started = counts.running + counts.succeeded + counts.failed + counts.lost
    return PhaseOutcome("Running" if spec.gang <= started else "Pending")


def running(spec: JobSpec, counts: JobPodCounts) -> PhaseOutcome:
    """Rule R: a final phase once all pods have ended or enough have succeeded; Pending if too many pods wait."""
    if spec.total == 0:
        return PhaseOutcome("Running")
    if spec.min_success is not None and counts.succeeded >= spec.min_success:
        return PhaseOutcome("Completed")
    if counts.succeeded + counts.failed + counts.lost == spec.total:
        return _ended(spec, counts)
    if counts.pending > spec.total - spec.gang:
        return PhaseOutcome(
            "Pending", "TooFewPods", f"{counts.pending} of {spec.total} pods wait, {spec.gang} must not"
        )
    return PhaseOutcome("Running")


def _ended(spec: JobSpec, counts: JobPodCounts) -> PhaseOutcome:
    """Rule R.3: all pods have ended."""
    if spec.gang >= sum(task.min_available if task.min_available is not None else task.replicas for task in spec.tasks):
        for task in spec.tasks:
            done = counts.succeeded_of.get(task.name)
            if task.min_available is not None and done is not None and done < task.min_available:
                text = f"of task {task.name} {done} pods succeeded, {task.min_available} had to"
                return PhaseOutcome("Failed", "TaskFailed", text)
    if spec.min_success is not None and counts.succeeded < spec.min_success:
        return _too_few(counts, spec.min_success)
    return PhaseOutcome("Completed") if counts.succeeded >= spec.gang else _too_few(counts, spec.gang)


def _too_few(counts: JobPodCounts, needed: int) -> PhaseOutcome:
    return PhaseOutcome("Failed", "TooFewSucceeded", f"{counts.succeeded} pods succeeded, {needed} had to")


def restarting(spec: JobSpec, counts: JobPodCounts, *, retries: int, min_available: int) -> PhaseOutcome:
    """Rule X: Pending once enough pods are gone; Failed after too many restarts. min_available: from the status."""
    if retries >= spec.max_retry:
        text = f"{retries} restarts, maxRetry is {spec.max_retry}"
        return PhaseOutcome("Failed", "MaxRetryReached", text)
    return PhaseOutcome("Pending" if spec.total - counts.terminating >= min_available else "Restarting")


def draining(phase: Phase, counts: JobPodCounts) -> PhaseOutcome:
    """Rule D: the final phase once no pod is pending, running or being deleted; pods in phase Unknown do not count."""
    at_work = counts.terminating + counts.pending + counts.running
    return PhaseOutcome(phase if at_work else _DRAINED[phase])


#: A pod to create: its task and index.
Place = tuple[str, int]

_SUCCEEDED = "Succeeded"


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Pod counts. counts: all pods. tasks: by task and phase. present: by task, the indexes that the status stores.

    Finished pods are counted in every version.
    """

    counts: JobPodCounts
    tasks: Mapping[str, Mapping[str, int]]
    present: Mapping[str, str]


def tally(
    pods: Iterable[ObservedPod],
    version: int,
    *,
    victims: Set[str] = frozenset(),
    made: Iterable[Place] = (),
    lost: int = 0,
) -> TaskCounts:
    """Counts the pods as they will be after the plan.

    version: of the job. victims: uids of pods to delete. made: pods to create. lost: pods that are never created.
    """
    tasks: dict[str, Counter[str]] = {}
    present: dict[str, list[int]] = {}
    terminating = 0
    for pod in pods:
        if pod.leaving or pod.uid in victims:
            terminating += 1
            continue
        tasks.setdefault(pod.task, Counter())[pod.phase] += 1
        if pod.version >= version and pod.index is not None:
            present.setdefault(pod.task, []).append(pod.index)
    for task, index in made:
        tasks.setdefault(task, Counter())["Pending"] += 1
        present.setdefault(task, []).append(index)
    total: Counter[str] = sum(tasks.values(), Counter())
    counts = JobPodCounts(
        pending=total["Pending"],
        running=total["Running"],
        succeeded=total[_SUCCEEDED],
        failed=total["Failed"],
        terminating=terminating,
        unknown=total["Unknown"],
        lost=lost,
        succeeded_of={name: phases[_SUCCEEDED] for name, phases in tasks.items()},
    )
    return TaskCounts(
        counts,
        {name: dict(sorted(phases.items())) for name, phases in sorted(tasks.items())},
        {name: Indexes.of(indexes).text for name, indexes in sorted(present.items())},
    )
