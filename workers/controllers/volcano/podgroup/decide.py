"""The decision about one PodGroup: phase, counts, ungating, and back-out.

An admitted gang that does not get its nodes in time gives back its resources, and waits before the next attempt.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from workers.admission.volcano.queue_lookup import ROOT
from workers.api import times
from workers.api.kinds import POD, QUEUE, Ref, ref_of
from workers.api.references import OUT_OF_SYNC
from workers.controllers.volcano.podgroup import status, vectors
from workers.controllers.volcano.podgroup.group import (
    COMPLETED,
    DEFAULT_RULES,
    INQUEUE,
    PATIENCE,
    PENDING,
    RUNNING,
    UNSCHEDULABLE,
    GangRules,
    Group,
    observe,
)
from workers.controllers.volcano.podgroup.members import Member, member, ungate
from workers.decision.plan import (
    NOTHING,
    ComeBack,
    Delete,
    MarkObject,
    Patch,
    PatchStatus,
    Plan,
    RecordEvent,
    Step,
    Together,
)
from workers.decision.snapshot import Snapshot


def back_out_deadline(group: Group, phase: str, rules: GangRules) -> datetime | None:
    """Returns the time at which an admitted group that is not whole backs out; None if it never does.

    An ungated pod without a controller would never be replaced: its group does not back out.
    """
    patience = group.durations.get(PATIENCE, rules.patience)
    if phase != INQUEUE or group.admitted_at is None or not patience:
        return None
    if not all(each.replaced or each.gated for each in group.waiting):
        return None
    return group.admitted_at + patience


def deletions(group: Group) -> list[Step]:
    """Returns the steps that delete the pods of a group that backed out; they may be repeated.

    A gang that was never whole, or is reclaimed, loses all its pods; any other loses only pods without a node, because
    the others may have done work. Pods created after the back-out stay: they are gated.
    """
    back = group.back_off
    if group.phase != PENDING or back is None:
        return []
    going = [
        each
        for each in _of_the_gang(group)
        if times.parse(each.pod["metadata"]["creationTimestamp"]) <= back.since and not each.gated
    ]
    if not going:
        return []
    marks = tuple(
        _out_of_sync(each) for each in going if OUT_OF_SYNC not in (each.pod["metadata"].get("annotations") or {})
    )
    deletions = tuple(Delete(ref_of(POD, each.pod), each.pod["metadata"]["uid"]) for each in going)
    return [*((Together(marks),) if marks else ()), Together(deletions)]


def _of_the_gang(group: Group) -> Iterable[Member]:
    whole = group.was_whole and not (group.back_off and group.back_off.reclaimed)
    states = ("waiting",) if whole else ("waiting", "bound", "running")
    return (each for each in group.members if each.state in states and each.replaced)


def _out_of_sync(each: Member) -> Patch:
    metadata = each.pod["metadata"]
    return Patch(
        ref_of(POD, each.pod), {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}}, metadata["resourceVersion"]
    )


#: The queue whose decision runs the admission round.
ROUND = Ref(QUEUE, "", ROOT)


@dataclass(frozen=True, slots=True)
class GangDecision:
    """The decision with its rules."""

    rules: GangRules = DEFAULT_RULES

    def decide(self, snapshot: Snapshot, now: datetime) -> Plan:
        """Returns the plan for this group."""
        if snapshot.body is None or snapshot.body["metadata"].get("deletionTimestamp"):
            return NOTHING
        pods = snapshot.referrers.get(POD.id, ())
        group = observe(snapshot.body, (member(entry.body) for entry in pods if entry.body is not None))
        phase = status.phase(group)
        deadline = back_out_deadline(group, phase, self.rules)
        if deadline is not None and now >= deadline:
            return _back_out(group, now)
        if leftovers := deletions(group):
            return Plan(tuple(leftovers), "what is left of a gang that backed out")
        written = status.enforcement(group, status.status(group, phase, now), self.rules.topology, now)
        # A round writes the first phase, with the admission or with the reason why the gang waits.
        is_said = written == group.status or (not group.status and written == {"phase": PENDING})
        steps: list[Step] = [] if is_said else [PatchStatus(written)]
        # The phase is written before the gates go: an ungated pod counts as admitted.
        steps += _ungate(group) if phase != PENDING else []
        steps += [MarkObject(ROUND)] if _round_is_affected(group, phase) else []
        # A whole gang that has grown since its admission is checked again.
        steps += [ComeBack(now)] if group.grows and phase != INQUEUE else []
        steps += [ComeBack(deadline)] if deadline else []
        return Plan(tuple(steps), f"{phase}, {group.placed} of {group.least} pods have a node") if steps else NOTHING


def _back_out(group: Group, now: datetime) -> Plan:
    """Writes the end of the attempt before the deletions: no gang is replaced in between, and a crash repeats them."""
    back = group.next_back_off(now)
    text = f"{group.placed} of {group.least} pods had a node in time: the gang gives back what it holds and waits"
    conditions = status.with_condition(group.body, UNSCHEDULABLE, "True", "BackingOff", text, now)
    written = {**status.status(group, PENDING, now), "backOff": back.render(), "conditions": conditions}
    after = observe({**group.body, "status": written}, group.members)
    steps: list[Step] = [PatchStatus(written), RecordEvent("Warning", "BackOff", text), *deletions(after)]
    return Plan((*steps, MarkObject(ROUND)), text)


def _ungate(group: Group) -> list[Step]:
    """Returns the patches of the pods that make the gang whole, once all of them exist.

    Admission rounds ungate the pods beyond the gang one by one.
    """
    if group.incomplete:
        return []
    gated = tuple(ungate(each) for each in group.missing if each.gated)
    return [Together(gated)] if gated else []


def _round_is_affected(group: Group, phase: str) -> bool:
    """Returns True if a round has to run: a group waits without a reason yet, or there is room again."""
    if phase == PENDING and (group.phase != PENDING or group.waits_for is None):
        return True
    if phase != group.phase or (phase in (RUNNING, COMPLETED) and group.rest):
        return True
    before = vectors.readable(group.status.get("allocated"))
    return any(group.allocated.get(name, 0) < value for name, value in before.items())
