"""The phase, counts and conditions of a PodGroup."""

from collections.abc import Sequence
from datetime import datetime

from workers.api import conditions, times
from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import topology, vectors
from workers.controllers.volcano.podgroup.group import (
    COMPLETED,
    INQUEUE,
    PENDING,
    RUNNING,
    SCHEDULED,
    UNKNOWN,
    UNSCHEDULABLE,
    Group,
)

#: Penstock's condition, False on a group with fields that nothing enforces.
ENFORCED = "Enforced"

#: Volcano's reason of a whole gang.
READY = "tasks in gang are ready to be scheduled"
ADMITTED = "Admitted"


def with_condition(group: Object, type_: str, status: str, reason: str, message: str, now: datetime) -> list[Object]:
    """Returns the group's conditions with this one; an unchanged condition keeps its transition time."""
    known: Sequence[Object] = (group.get("status") or {}).get("conditions") or ()
    old = conditions.find(group, type_)
    if old and (old.get("status"), old.get("reason"), old.get("message", "")) == (status, reason, message):
        return list(known)
    new = {
        "type": type_,
        "status": status,
        "transitionID": f"{int(now.timestamp() * 1000):x}",
        "lastTransitionTime": times.render(now),
        "reason": reason,
        # As Volcano does: an API server that takes an empty text for null would refuse the status.
        **({"message": message} if message else {}),
    }
    return [*(each for each in known if each.get("type") != type_), new]


def phase(group: Group) -> str:
    """Returns the phase that follows from the pods; only a round admits a waiting group.

    A gang is whole when its least number of pods have, or had, a node, and completed when all of those ended. A gang
    that was whole waits again, or is Unknown while some pods run and others are unschedulable. A completed group
    without pods stays completed.
    """
    if group.is_clearing:
        # Pods that are being deleted count as placed: the gang would be whole again until the last one is gone.
        return PENDING
    if not group.members:
        if group.phase == INQUEUE and group.least == 0:
            return COMPLETED
        return group.phase if group.phase in (PENDING, INQUEUE, COMPLETED) else PENDING
    if group.placed >= group.least and (group.placed or group.phase != PENDING):
        ended = sum(each.state in ("succeeded", "failed") for each in group.members)
        return COMPLETED if ended == group.placed else RUNNING
    if group.phase == INQUEUE:
        return INQUEUE
    runs = any(each.state == "running" for each in group.members)
    if group.phase in (RUNNING, UNKNOWN) and runs and any(each.unschedulable for each in group.waiting):
        return UNKNOWN
    return PENDING


def status(group: Group, phase: str, now: datetime) -> Object:
    """Returns the whole status in a phase; fields of other writers stay."""
    states = [each.state for each in group.members]
    found: Object = {
        **group.status,
        "phase": phase,
        "running": states.count("running"),
        "succeeded": states.count("succeeded"),
        "failed": states.count("failed"),
        "allocated": vectors.render(group.allocated),
    }
    found = {name: value for name, value in found.items() if value != {} and (value != 0 or name in group.status)}
    if phase == INQUEUE:
        found.setdefault("admitted", times.render(now))
    elif phase == PENDING:
        found.pop("admitted", None)
    else:
        found.pop("backOff", None)
    if phase != INQUEUE:
        found.pop("admittedFor", None)
    conditions = _conditions(group, phase, now)
    return {**found, "conditions": conditions} if conditions else found


def enforcement(group: Group, written: Object, labels: Sequence[str], now: datetime) -> Object:
    """Returns the status with the condition that names fields which nothing enforces; without it if there are none."""
    text = topology.unenforced(group.body.get("spec") or {}, labels, group.of_a_job)
    known = written.get("conditions") or ()
    if text:
        body = {**group.body, "status": written}
        return {**written, "conditions": with_condition(body, ENFORCED, "False", "NotEnforced", text, now)}
    if not any(each.get("type") == ENFORCED for each in known):
        return written
    return {**written, "conditions": [each for each in known if each.get("type") != ENFORCED]}


def _conditions(group: Group, phase: str, now: datetime) -> list[Object]:
    """The conditions: that the gang is whole, or that it is not any more. Why one waits is the round's to say."""
    known = list(group.status.get("conditions") or ())
    if phase in (RUNNING, COMPLETED) and group.members:
        known = with_condition(group.body, SCHEDULED, "True", READY, "", now)
        if group.waits_for is None:
            return known
        body = {**group.body, "status": {"conditions": known}}
        return with_condition(body, UNSCHEDULABLE, "False", READY, "", now)
    if phase == UNKNOWN or (phase == PENDING and group.phase in (RUNNING, UNKNOWN)):
        missing, all_ = len(group.waiting), len(group.members)
        text, reason = f"pod group is not ready, {group.placed} of {group.least} have a node", "NotEnoughResources"
        if missing:
            text = f"{missing}/{all_} tasks in gang unschedulable: {text}"
        else:
            text, reason = f"{text}, and the others are not there yet", "NotEnoughTasks"
        return with_condition(group.body, UNSCHEDULABLE, "True", reason, text, now)
    return known
