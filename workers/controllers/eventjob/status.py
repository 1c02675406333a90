"""The status of an EventJob, computed whole, and the Events of its changes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from workers.api import conditions, times
from workers.api.kinds import Object
from workers.decision.plan import PatchStatus, RecordEvent, Step

_TYPES = ("Ready", "Suspended", "Parked")
_COUNTS = ("waiting", "delayed", "running", "retrying", "parked", "done", "filtered", "duplicates")


@dataclass(frozen=True, slots=True)
class StatedCondition:
    """One condition without its times."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class EventJobState:
    """The state of an EventJob to be written. None stands for what is not known now: the observed value stays.

    counts: of its events. last_arrival: µs, broker's clock. active: unfinished Jobs. last_job: name of the newest Job.
    """

    ready: StatedCondition
    suspended: StatedCondition
    parked: StatedCondition | None = None
    channel: str | None = None
    counts: Mapping[str, int] | None = None
    last_arrival: int = 0
    active: int | None = None
    last_job: str | None = None


def write(body: Object, state: EventJobState, now: datetime) -> Iterator[Step]:
    """Yields the write of a status that differs from the observed one, then the Events of its changes.

    In this order a crash may lose an Event and repeats none.
    """
    observed = body.get("status") or {}
    new = _render(body, observed, state, now)
    if new == observed:
        return
    yield PatchStatus(new)
    yield from _events(body, state)


def _render(body: Object, observed: Object, state: EventJobState, now: datetime) -> Object:
    computed = {
        "conditions": _conditions(body, state, now),
        "observedGeneration": body["metadata"].get("generation"),
        "channel": state.channel,
        "events": None
        if state.counts is None
        else {name: state.counts[name] for name in _COUNTS if name in state.counts},
        "active": state.active,
        "lastEventTime": _instant(state.last_arrival),
        "lastJob": state.last_job,
    }
    return {**observed, **{field: value for field, value in computed.items() if value is not None}}


def _conditions(body: Object, state: EventJobState, now: datetime) -> list[Object]:
    found = []
    for type_, each in zip(_TYPES, (state.ready, state.suspended, state.parked), strict=True):
        before = conditions.find(body, type_)
        if each is None:
            found += [before] if before else []
            continue
        condition = {"type": type_, "status": each.status, "reason": each.reason, "message": each.message}
        found.append(conditions.moved(condition, before, now))
    others = [each for each in (body.get("status") or {}).get("conditions") or () if each.get("type") not in _TYPES]
    return [*found, *others]


def _events(body: Object, state: EventJobState) -> Iterator[RecordEvent]:
    before = conditions.find(body, "Ready") or {}
    ready = state.ready
    if ready.status == "True" and before.get("status") != "True":
        yield RecordEvent("Normal", "EventJobReady", ready.message)
    elif ready.status == "False" and (before.get("status"), before.get("reason"), before.get("message")) != (
        ready.status,
        ready.reason,
        ready.message,
    ):
        # Unknown lasts until the next reading, and is no fault: it gets no Event.
        yield RecordEvent("Warning", ready.reason, ready.message)
    suspended = conditions.status_of(body, "Suspended") == "True"
    if state.suspended.status == "True" and not suspended:
        yield RecordEvent("Normal", "EventJobSuspended", "Events are taken in, and no Job is created")
    elif state.suspended.status == "False" and suspended:
        yield RecordEvent("Normal", "EventJobResumed", "Jobs are created again")


def _instant(micros: int) -> str | None:
    return times.render(datetime.fromtimestamp(micros // 1_000_000, UTC)) if micros else None
