"""The decision on one PodGroup: its phase and numbers, its pods let go once it may start, its back-out."""

from dataclasses import dataclass
from datetime import datetime

from workers.admission.volcano.queue_lookup import ROOT
from workers.api.kinds import POD, QUEUE, Ref
from workers.controllers.volcano.podgroup import backout, conditions, phases, vectors
from workers.controllers.volcano.podgroup.group import COMPLETED, INQUEUE, PENDING, RUNNING, Group, observe
from workers.controllers.volcano.podgroup.members import let_go, member
from workers.controllers.volcano.podgroup.rules import DEFAULT, GangRules
from workers.reconcile.plan import (
    NOTHING,
    ComeBack,
    MarkObject,
    PatchStatus,
    Plan,
    RecordEvent,
    Step,
    Together,
)
from workers.reconcile.snapshot import Snapshot

#: The queue whose decision is the round.
ROUND = Ref(QUEUE, "", ROOT)


@dataclass(frozen=True, slots=True)
class Gangs:
    """The decision, with what it takes from the settings."""

    rules: GangRules = DEFAULT

    def decide(self, snapshot: Snapshot, now: datetime) -> Plan:
        """What is to be done about this group now."""
        if snapshot.body is None or snapshot.body["metadata"].get("deletionTimestamp"):
            return NOTHING
        pods = snapshot.referrers.get(POD.id, ())
        group = observe(snapshot.body, (member(entry.body) for entry in pods if entry.body is not None))
        phase = phases.phase(group)
        deadline = backout.deadline(group, phase, self.rules)
        if deadline is not None and now >= deadline:
            return _back_out(group, now)
        if leftovers := backout.given_back(group):
            return Plan(tuple(leftovers), "what is left of a gang that backed out")
        status = phases.status(group, phase, now)
        steps: list[Step] = [PatchStatus(status)] if status != group.status else []
        # Not before the phase is written down: whoever is let go counts as admitted.
        steps += _let_go(group) if phase != PENDING else []
        steps += [MarkObject(ROUND)] if _is_news(group, phase) else []
        # A gang that is whole as it was let through, and has grown meanwhile, is asked anew.
        steps += [ComeBack(now)] if group.grows and phase != INQUEUE else []
        steps += [ComeBack(deadline)] if deadline else []
        return Plan(tuple(steps), f"{phase}, {group.placed} of {group.least} pods have a node") if steps else NOTHING


def _back_out(group: Group, now: datetime) -> Plan:
    """Write the end of the attempt down first: nobody makes its pods anew then, and whoever comes next goes on."""
    back = backout.begun(group, now)
    text = f"{group.placed} of {group.least} pods had a node in time: the gang gives back what it holds and waits"
    told = conditions.written(group.body, conditions.UNSCHEDULABLE, "True", "BackingOff", text, now)
    status = {**phases.status(group, PENDING, now), "backOff": back.render(), "conditions": told}
    after = observe({**group.body, "status": status}, group.members)
    steps: list[Step] = [PatchStatus(status), RecordEvent("Warning", "BackOff", text), *backout.given_back(after)]
    return Plan((*steps, MarkObject(ROUND)), text)


def _let_go(group: Group) -> list[Step]:
    """The pods that make the gang whole, once all of them are there.

    The rest of them are let go by rounds, one by one, as there is room.
    """
    if group.gathers:
        return []
    gated = tuple(let_go(each) for each in group.missing if each.gated)
    return [Together(gated)] if gated else []


def _is_news(group: Group, phase: str) -> bool:
    """Whether the round must hear of it: something waits that it has not judged yet, or there is room again."""
    if phase == PENDING and (group.phase != PENDING or conditions.waits(group.body) is None):
        return True
    if phase != group.phase or (phase in (RUNNING, COMPLETED) and group.rest):
        return True
    before = vectors.readable(group.status.get("allocated"))
    return any(group.allocated.get(name, 0) < value for name, value in before.items())
