"""The progress of a job: its stored state, changed by one action after another before anything is done.

Volcano carries an action out and then writes the status. Here the status is written first, with the phase, the least
version of valid pods, and in Restarting the pods to kill. A process that takes over after a crash reads the remaining
work there, and no action is applied twice.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

from workers.api import times
from workers.api.volcano.job import JobSpec, Killing, Phase, RestartBackoff
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.volcano.job import phases, timers
from workers.controllers.volcano.job.observed import ObservedJob, ObservedPod
from workers.controllers.volcano.job.phases import JobTransition, Operation
from workers.controllers.volcano.job.timers import Timers
from workers.decision.plan import RecordEvent

#: Reason of a job that `spec.suspend` aborted, and that resumes without it.
SUSPENDED = "Suspended"


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A requested action. reason, message: its cause. waits: a restart obeys restartBackoff."""

    action: str
    reason: str
    message: str
    task: str | None = None
    pod: str | None = None
    partition: int | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The state of a job in one decision.

    admitted: size of the admitted gang, while a larger one waits for its admission. records: Events of this decision.
    ignored: a policy that matched and cannot act.
    """

    phase: Phase
    reason: str | None
    message: str | None
    version: int
    retries: int
    killing: tuple[Killing, ...]
    timers: Timers
    handled: tuple[str, ...]
    ready_at: datetime | None
    started: datetime | None
    admitted: int | None = None
    records: tuple[RecordEvent, ...] = ()
    ignored: str | None = None

    @property
    def is_full_kill(self) -> bool:
        """True if all pods of older versions are killed, together with the objects created for them."""
        return any(one.version is not None for one in self.killing)

    @property
    def backs_off(self) -> bool:
        """True for a restart with a backoff, from its request until the job is Pending."""
        return self.phase == "Restarting" and self.ready_at is not None

    def with_event(self, type_: str, reason: str, message: str) -> "JobProgress":
        """Returns the progress with one more Event."""
        record = RecordEvent("Warning" if type_ == "Warning" else "Normal", reason, message)
        return replace(self, records=(*self.records, record))

    def moved(self, phase: Phase, reason: str | None, message: str | None) -> "JobProgress":
        """Returns the progress in another phase."""
        return replace(self, phase=phase, reason=reason, message=message)


def remembered(view: ObservedJob) -> JobProgress:
    """Returns the progress that the status stores."""
    memory = view.memory
    return JobProgress(
        phase=view.phase,
        reason=memory.state.reason if memory.state else None,
        message=memory.state.message if memory.state else None,
        version=view.version,
        retries=memory.retry_count or 0,
        killing=memory.killing or (),
        timers=memory.delayed or (),
        handled=memory.handled or (),
        ready_at=times.parse(memory.restart_time) if memory.restart_time else None,
        started=times.parse(memory.start_time) if memory.start_time else None,
        admitted=memory.admitted_members,
    )


def applied(progress: JobProgress, request: JobRequest, view: ObservedJob, now: datetime) -> JobProgress:
    """Returns the progress after an action; an action without effect in this phase changes nothing."""
    cell = phases.cell(_effective_phase(progress, request, view.job.spec), request.action)
    if not does_anything(progress, request, view):
        return progress
    announced = progress.with_event("Normal", "ExecuteAction", f"Start to execute action {request.action}")
    left = replace(
        announced, timers=timers.without(progress.timers, request.action, request.task, request.pod, request.partition)
    )
    if cell.operation is Operation.KILL_TARGET:
        # Pods that stay keep their version and could cause further events; they stay only if the job is about to fail.
        last = progress.retries + cell.counts >= view.job.spec.max_retry
        target = Killing(
            retain="soft" if last else "none", task=request.task, pod=request.pod, partition=request.partition
        )
        killing = _joined(left.killing, _narrowed(target, request.action), view)
        killed = replace(left, killing=killing)
    else:
        killed = _killed(left, cell, view.job.spec)
    return _led(killed, cell, request, view.job.spec, now)


def does_anything(progress: JobProgress, request: JobRequest, view: ObservedJob) -> bool:
    """Returns True if the action has more effect than a sync."""
    phase = _effective_phase(progress, request, view.job.spec)
    cell = phases.cell(phase, request.action)
    if cell == phases.cell(phase, "SyncJob"):
        return False
    if cell.operation is not Operation.KILL_TARGET or request.action != "RestartPartition":
        return True
    # Without such a partition there is nothing to restart.
    return any(pod.task == request.task and pod.partition == request.partition is not None for pod in view.pods)


def waits(progress: JobProgress, now: datetime) -> bool:
    """Returns True while a restart waits for its backoff."""
    return progress.ready_at is not None and now < progress.ready_at


def _effective_phase(progress: JobProgress, request: JobRequest, spec: JobSpec) -> Phase:
    """Returns the phase that determines the effect of an action.

    Volcano leaves Restarting at once and loses actions that arrive in it. A restart with a backoff may wait for hours,
    and accepts the actions of Pending. Another restart joins it, and is not counted, if it obeys the backoff, or if no
    retry is left.
    """
    joins = request.action in phases.RESTARTS and (request.waits or progress.retries >= spec.max_retry)
    return "Pending" if progress.backs_off and not joins else progress.phase


def ended(progress: JobProgress) -> JobProgress:
    """Returns the progress of a job in its final phase; pods still at work belong to an older version."""
    return replace(progress, version=progress.version + 1, killing=(), timers=(), ready_at=None, admitted=None)


def is_target(one: Killing, pod: ObservedPod) -> bool:
    """Returns True for a pod to delete."""
    return is_about(one, pod) and not (one.retain == "soft" and pod.ended)


def is_about(one: Killing, pod: ObservedPod) -> bool:
    """Returns True for a pod that the kill names, including finished pods that may stay."""
    if one.version is not None:
        return pod.version <= one.version
    return (
        (one.task is not None and one.task == pod.task)
        and one.pod in (None, pod.name)
        and one.partition in (None, pod.partition)
        and (one.indexes is None or (pod.index is not None and pod.index in _indexes(one.indexes)))
    )


def _joined(known: tuple[Killing, ...], target: Killing, view: ObservedJob) -> tuple[Killing, ...]:
    """Returns the kills with one more. Pods of one task share an entry, because the status has to stay small."""
    prefix = f"{view.job.metadata.name}-{target.task}-"
    number = (target.pod or "").removeprefix(prefix)
    if target.pod is None or not number.isdecimal():
        return tuple(dict.fromkeys((*known, target)))
    found = Indexes.of([int(number)])
    for place, one in enumerate(known):
        if one.indexes is not None and (one.task, one.retain) == (target.task, target.retain):
            wider = one.model_copy(update={"indexes": (_indexes(one.indexes) | found).text})
            return (*known[:place], wider, *known[place + 1 :])
    return (*known, target.model_copy(update={"pod": None, "indexes": found.text}))


@lru_cache(maxsize=64)
def _indexes(text: str) -> Indexes:
    return Indexes.parse(text)


def _narrowed(target: Killing, action: str) -> Killing:
    """Returns the kill reduced to the level of the action: a pod's event may restart its whole task."""
    match action:
        case "RestartTask":
            return target.model_copy(update={"pod": None, "partition": None})
        case "RestartPod":
            return target.model_copy(update={"partition": None})
        case _:
            return target.model_copy(update={"pod": None})


def _killed(progress: JobProgress, cell: JobTransition, spec: JobSpec) -> JobProgress:
    """Kills all pods of the current version. After the last retry finished pods stay, with their logs."""
    keeps = cell.operation is Operation.KILL_SOFT or progress.retries >= spec.max_retry - 1
    one = Killing(retain="soft" if keeps else "none", version=progress.version)
    return replace(progress, version=progress.version + 1, killing=(one,), timers=(), admitted=None)


def _led(progress: JobProgress, cell: JobTransition, request: JobRequest, spec: JobSpec, now: datetime) -> JobProgress:
    if isinstance(cell.then, phases.PhaseRule):
        return replace(progress, reason=request.reason, message=request.message)
    retries = progress.retries + cell.counts
    waits = request.waits and cell.then == "Restarting"
    return replace(
        progress.moved(cell.then, request.reason, request.message),
        retries=retries,
        # Every other phase implies the pods to delete.
        killing=progress.killing if cell.then == "Restarting" else (),
        ready_at=restart_at(spec.restart_backoff, retries, now) if waits else None,
    )


def restart_at(backoff: RestartBackoff | None, restarts: int, now: datetime) -> datetime | None:
    """Returns the time of the restart with this number (from 1); None without a wait."""
    if backoff is None:
        return None
    seconds = float(backoff.seconds)
    for _ in range(restarts - 1):
        if seconds >= backoff.max_seconds:
            break
        seconds *= backoff.factor
    return now + timedelta(seconds=min(seconds, backoff.max_seconds)) if seconds else None
