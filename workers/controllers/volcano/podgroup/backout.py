"""A gang that was let through and does not get its places gives back what it holds, and tries again later."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import POD, ref_of
from workers.controllers.volcano.podgroup import conditions
from workers.controllers.volcano.podgroup.group import INQUEUE, PATIENCE, PENDING, Group, GroupBackOff
from workers.controllers.volcano.podgroup.members import Member
from workers.controllers.volcano.podgroup.rules import GangRules
from workers.reconcile.plan import Delete, Patch, Step, Together

#: The wait after the first back-out; it doubles each time.
FIRST = timedelta(seconds=10)
LONGEST = timedelta(minutes=10)

#: A pod's annotation: whoever deletes it is its controller, not somebody else.
OURS = "volcano.sh/controller-out-of-sync"


def deadline(group: Group, phase: str, rules: GangRules) -> datetime | None:
    """When an admitted group that is not whole gives up; None if it never does.

    A pod that was let go and that nobody would make again is not taken away: its group is left as it is.
    """
    patience = group.durations.get(PATIENCE, rules.patience)
    if phase != INQUEUE or group.admitted_at is None or not patience:
        return None
    if not all(each.replaced or each.gated for each in group.waiting):
        return None
    return group.admitted_at + patience


def begun(group: Group, now: datetime) -> GroupBackOff:
    """The back-off that begins now."""
    count = (group.back_off.count if group.back_off else 0) + 1
    return GroupBackOff(count, now, now + min(FIRST * 2 ** min(count - 1, 20), LONGEST))


def given_back(group: Group) -> list[Step]:
    """The steps that delete the pods of a group that backed out, however far they were carried out before.

    All of a gang that was never whole go; of one that was, only those without a node: the others may have done work.
    Pods made since then stay: they are held back.
    """
    back = group.back_off
    if group.phase != PENDING or back is None:
        return []
    going = [each for each in _of_the_gang(group) if _made(each) <= back.since and not each.gated]
    if not going:
        return []
    marks = tuple(_mark(each) for each in going if OURS not in (each.pod["metadata"].get("annotations") or {}))
    deletions = tuple(Delete(ref_of(POD, each.pod), each.pod["metadata"]["uid"]) for each in going)
    return [*((Together(marks),) if marks else ()), Together(deletions)]


def _of_the_gang(group: Group) -> Iterable[Member]:
    whole = conditions.was_whole(group.body)
    states = ("waiting",) if whole else ("waiting", "bound", "running")
    return (each for each in group.members if each.state in states and each.replaced)


def _made(each: Member) -> datetime:
    return times.parse(each.pod["metadata"]["creationTimestamp"])


def _mark(each: Member) -> Patch:
    metadata = each.pod["metadata"]
    return Patch(ref_of(POD, each.pod), {"metadata": {"annotations": {OURS: "true"}}}, metadata["resourceVersion"])
