"""The status of a job, rendered as a whole, and its time to live."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.api.model import Model
from workers.controllers.volcano.job import failures, phases, timers
from workers.controllers.volcano.job.observed import ObservedJob
from workers.controllers.volcano.job.phases import TaskCounts
from workers.controllers.volcano.job.transitions import JobProgress

#: Length of a message.
MESSAGE = 1024
#: Length of the history: a job that is suspended every night would fill its status.
HISTORY = 50

#: Fields whose zero is written.
_ZEROS = frozenset({"minAvailable", "admittedMembers"})
_SECOND = timedelta(seconds=1)


def render(
    view: ObservedJob,
    seen: Object,
    progress: JobProgress,
    tally: TaskCounts,
    resources: Mapping[str, str],
    now: datetime,
) -> Object:
    """Returns the new status. seen: the status before it. resources: the objects of plugins and volumes.

    Counts of zero are left out, as in Volcano. A finished job keeps the counts at the deletion of its last pod.
    """
    state = _state(seen.get("state") or {}, progress, now)
    computed: Object = {
        "state": state,
        "minAvailable": view.job.spec.gang,
        "version": progress.version,
        "retryCount": progress.retries,
        "runningDuration": _duration(view, progress, state),
        "controlledResources": dict(resources),
        "conditions": _history(seen.get("conditions") or [], state),
        "killing": [_dump(one) for one in progress.killing],
        "delayed": [_dump(one) for one in timers.stored(progress.timers)],
        "failures": [_dump(one) for one in failures.remembered(view)],
        "handled": list(progress.handled),
        "restartTime": times.render(progress.ready_at) if progress.ready_at else None,
        "startTime": times.render(progress.started) if progress.started else None,
        "groupPhase": "Unknown" if view.group_phase == "Unknown" else None,
        "admittedMembers": progress.admitted,
        "observedGeneration": view.body["metadata"].get("generation"),
    }
    if not is_settled(view, progress):
        computed |= _numbers(tally)
    merged = {**seen, **computed}
    return {name: value for name, value in merged.items() if value or (name in _ZEROS and value is not None)}


def is_settled(view: ObservedJob, progress: JobProgress) -> bool:
    """Returns True if the job had finished before and no pod was still expected to end."""
    counters = (view.memory.terminating, view.memory.running, view.memory.pending)
    return progress.phase in phases.FINAL and view.phase == progress.phase and not any(counters)


def transition(view: ObservedJob) -> datetime | None:
    """Returns the time at which the job entered its phase."""
    state = view.memory.state
    return times.parse(state.last_transition_time) if state and state.last_transition_time else None


def duration(span: timedelta) -> str:
    """Returns whole seconds in Go's notation: ``1h0m5s``."""
    seconds = max(0, span // _SECOND)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minute}m{second}s"
    return f"{minute}m{second}s" if minute else f"{second}s"


def _state(seen: Object, progress: JobProgress, now: datetime) -> Object:
    same = seen.get("phase") == progress.phase and seen.get("lastTransitionTime")
    state = {
        "phase": progress.phase,
        "reason": progress.reason,
        "message": progress.message[:MESSAGE] if progress.message else None,
        "lastTransitionTime": seen["lastTransitionTime"] if same else times.render(now),
    }
    return {name: value for name, value in state.items() if value}


def _history(seen: list[Object], state: Object) -> list[Object]:
    """Returns the phases so far; an unchanged phase adds no entry."""
    if seen and seen[-1].get("status") == state["phase"]:
        return seen
    return [*seen, {"status": state["phase"], "lastTransitionTime": state["lastTransitionTime"]}][-HISTORY:]


def _duration(view: ObservedJob, progress: JobProgress, state: Object) -> str | None:
    """Returns the time from creation to end; None for a job at work."""
    if progress.phase in phases.AT_WORK:
        return None
    return duration(times.parse(state["lastTransitionTime"]) - view.created)


def _numbers(tally: TaskCounts) -> Object:
    counts = tally.counts
    return {
        "pending": counts.pending,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "terminating": counts.terminating,
        "unknown": counts.unknown,
        "taskStatusCount": {task: {"phase": dict(phases)} for task, phases in tally.tasks.items()},
        "present": dict(tally.present),
    }


def _dump(one: Model) -> Object:
    return one.model_dump(by_alias=True, exclude_none=True)


def expiry(view: ObservedJob, progress: JobProgress, now: datetime) -> datetime | None:
    """Returns the time of the job's deletion, None without a TTL. now: stands in for a transition not yet written."""
    spec = view.job.spec
    if progress.phase in phases.FINAL:
        seconds = spec.ttl_seconds_after_finished
    elif progress.phase == "Aborted":
        seconds = spec.ttl_seconds_after_aborted
    else:
        return None
    if seconds is None:
        return None
    ended = transition(view) if view.phase == progress.phase else None
    return (ended or now) + timedelta(seconds=seconds)


def expired(view: ObservedJob, progress: JobProgress, now: datetime) -> bool:
    """Returns True if the TTL is over and the phase was already stored."""
    end = expiry(view, progress, now)
    return end is not None and view.phase == progress.phase and end <= now
