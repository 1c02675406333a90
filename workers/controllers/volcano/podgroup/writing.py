"""What a round writes: who is admitted, and on the others why they wait."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object
from workers.controllers import conditions as existing
from workers.controllers.volcano.podgroup import conditions
from workers.controllers.volcano.podgroup.group import INQUEUE, Group, instant
from workers.controllers.volcano.podgroup.members import Member, let_go
from workers.controllers.volcano.podgroup.voting import Refusal
from workers.reconcile.plan import Patch, RecordEvent, Step, Together

#: Patches in one stage: after one that fails no more of its stage are sent, and the next round makes up for them.
STAGE = 50
#: Reasons written by one round at most; the others have their turn in the next.
TOLD = 100
#: The numbers in a reason change with every group that starts or ends: those of so many groups are kept new, and not
#: more often than that.
FRONT = 20
NEWS = timedelta(seconds=10)

Waiting = Sequence[tuple[Group, Refusal]]


def steps(admitted: Sequence[Group], waiting: Waiting, growth: Sequence[Member], now: datetime) -> list[Step]:
    """The steps, the admissions first. What the API server refuses is decided on again in the next round."""
    told = list(_news(waiting, now))[:TOLD]
    patches = [_admission(group, now) for group in admitted]
    patches += [let_go(pod) for pod in growth]
    patches += [_reason(group, why, now) for group, why in told]
    staged = [Together(tuple(patches[at : at + STAGE]), vital=False) for at in range(0, len(patches), STAGE)]
    return [*staged, *(_event(group, why) for group, why in told if conditions.waits(group.body) != why.reason)]


def _news(waiting: Waiting, now: datetime) -> Iterator[tuple[Group, Refusal]]:
    """Those whose reason is another one than what is written; and of the first ones, those whose words are old."""
    for place, (group, why) in enumerate(waiting):
        if conditions.waits(group.body) != why.reason or (place < FRONT and _outdated(group, why, now)):
            yield group, why


def _outdated(group: Group, why: Refusal, now: datetime) -> bool:
    found = existing.find(group.body, conditions.UNSCHEDULABLE)
    if found is None or found.get("message") == why.message:
        return False
    written = instant(found.get("lastTransitionTime"))
    return written is None or now >= written + NEWS


def _admission(group: Group, now: datetime) -> Patch:
    status: Object = {"phase": INQUEUE, "admitted": times.render(now), "admittedFor": _grant(group)}
    if conditions.waits(group.body) is not None:
        told = "the whole gang may start"
        status["conditions"] = conditions.written(
            group.body, conditions.UNSCHEDULABLE, "False", conditions.ADMITTED, told, now
        )
    return _patch(group, status)


def _grant(group: Group) -> Object:
    """What it is let through for, whatever its spec says later."""
    granted: Object = {"minMember": group.least}
    if group.minimum is not None:
        old = (group.status.get("admittedFor") or {}).get("minResources") or {}
        granted["minResources"] = {**dict.fromkeys(old), **group.body["spec"]["minResources"]}
    return granted


def _reason(group: Group, why: Refusal, now: datetime) -> Patch:
    told = conditions.written(group.body, conditions.UNSCHEDULABLE, "True", why.reason, why.message, now)
    return _patch(group, {"phase": group.phase, "conditions": told})


def _patch(group: Group, status: Object) -> Patch:
    return Patch(group.ref, {"status": status}, group.body["metadata"].get("resourceVersion", ""))


def _event(group: Group, why: Refusal) -> RecordEvent:
    text = f"{why.reason}: {why.message}"
    about = (group.ref.kind, group.body)
    return RecordEvent("Warning" if why.hopeless else "Normal", conditions.UNSCHEDULABLE, text, about)
