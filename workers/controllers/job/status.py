"""A Job's status, computed whole within the rules the API server enforces for every writer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from workers.api import times
from workers.api.kinds import Object
from workers.controllers import conditions
from workers.controllers.job.ending import Ending


@dataclass(frozen=True, slots=True)
class Tally:
    """Pods by what became of them. succeeded and failed never decrease."""

    active: int
    ready: int
    terminating: int
    succeeded: int
    failed: int

    @property
    def quiet(self) -> bool:
        """No pod is left that might still do anything."""
        return self.active == 0 and self.terminating == 0


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry to set; a type that is not there yet is only added when it is not False."""

    type: str
    status: str
    reason: str
    message: str


def ended(ending: Ending, tally: Tally) -> tuple[Condition, ...]:
    """The conditions of a Job whose end is decided: the second follows when no pod is left."""
    target = Condition(ending.target, "True", ending.reason, ending.message)
    if not tally.quiet:
        return (target,)
    return (target, Condition(ending.final, "True", ending.reason, ending.message))


def suspension(job: Object, suspended: bool) -> tuple[Condition, ...]:
    """The Suspended condition; a Job that never was suspended has none."""
    if suspended:
        return (Condition("Suspended", "True", "JobSuspended", "Job suspended"),)
    if conditions.find(job, "Suspended"):
        return (Condition("Suspended", "False", "JobResumed", "Job resumed"),)
    return ()


def render(job: Object, tally: Tally, started: datetime | None, settings: Sequence[Condition], now: datetime) -> Object:
    """The status to be written. started: None for a Job that has not started, or is suspended.

    Counts of zero are left out where the API server leaves them out, so that an unchanged status compares equal.
    """
    observed = job.get("status") or {}
    computed: Object = {
        "startTime": times.render(started) if started else None,
        "active": tally.active or None,
        "succeeded": tally.succeeded or None,
        "failed": tally.failed or None,
        "ready": tally.ready,
        "terminating": tally.terminating,
        "conditions": _set(observed.get("conditions") or (), settings, now) or None,
    }
    if any(each.type == "Complete" for each in settings):
        computed["completionTime"] = times.render(now)
    merged = {**observed, **computed}
    return {key: value for key, value in merged.items() if value is not None}


def _set(observed: Sequence[Object], settings: Sequence[Condition], now: datetime) -> list[Object]:
    result = list(observed)
    for each in settings:
        index = next((i for i, old in enumerate(result) if old.get("type") == each.type), None)
        if index is None:
            if each.status != "False":
                result.append(_render(each, now))
        elif (each.status, each.reason, each.message) != tuple(
            result[index].get(key) or "" for key in ("status", "reason", "message")
        ):
            result[index] = _render(each, now)
    return result


def _render(condition: Condition, now: datetime) -> Object:
    at = times.render(now)
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastProbeTime": at,
        "lastTransitionTime": at,
    }
