"""One admission round: the waiting gangs that may start now, the reasons of the others, and the writes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter

from workers.api import conditions as existing
from workers.api import times
from workers.api.kinds import NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, RESOURCE_QUOTA, Kind, Object
from workers.api.references import GROUP_NAME
from workers.controllers.volcano.podgroup import deserved_shares, nodes, order, reclaim, status
from workers.controllers.volcano.podgroup import group as groups
from workers.controllers.volcano.podgroup.checks import AdmissionChecks, Refusal
from workers.controllers.volcano.podgroup.deserved_shares import QueueTree
from workers.controllers.volcano.podgroup.group import (
    COMPLETED,
    DEFAULT_RULES,
    INQUEUE,
    PENDING,
    RUNNING,
    UNSCHEDULABLE,
    GangRules,
    Group,
)
from workers.controllers.volcano.podgroup.ledger import PlacementLedger
from workers.controllers.volcano.podgroup.members import Member, member, ungate
from workers.controllers.volcano.podgroup.nodes import Nodes
from workers.controllers.volcano.podgroup.places import PodShape
from workers.controllers.volcano.podgroup.quotas import NamespaceQuotas
from workers.decision.plan import ComeBack, HoldKey, Patch, Plan, RecordEvent, Step, Together
from workers.decision.snapshot import Snapshot

#: Most pods that one round ungates.
MOST = 500


@dataclass(frozen=True, slots=True)
class ExtraPod:
    """A pod beyond its gang."""

    group: Group
    pod: Member

    @property
    def queue(self) -> str:
        """The queue of its gang."""
        return self.group.queue


@dataclass(frozen=True, slots=True)
class Growth:
    """pods: may be ungated. waits: others have to wait."""

    pods: tuple[Member, ...] = ()
    waits: bool = False


NONE = Growth()


def growth(
    groups: Iterable[Group],
    priorities: Mapping[str, int],
    tree: QueueTree,
    ledger: PlacementLedger,
    checks: AdmissionChecks,
) -> Growth:
    """Returns the pods beyond their gangs that may start, in the order of queues, ranks and ages.

    Only whole gangs grow, after every waiting gang was checked. A refusal holds for equal pods: room only shrinks.
    """
    whole = (group for group in groups if group.phase in (RUNNING, COMPLETED) and group.rest)
    ranked = sorted(whole, key=lambda group: order.rank(group, priorities))
    turns = order.GangOrder((ExtraPod(group, pod) for group in ranked for pod in group.rest), tree, ledger)
    going: list[Member] = []
    refused: set[tuple[str, PodShape]] = set()
    while len(going) < MOST and (extra := turns.take()) is not None:
        kind = (extra.queue, extra.pod.shape)
        if kind in refused:
            continue
        if checks.check_pod(extra.group, extra.pod):
            going.append(extra.pod)
            turns.changed()
        else:
            refused.add(kind)
    return Growth(tuple(going), bool(refused) or len(going) == MOST)


#: Kinds that a round observes completely.
EVERYWHERE: tuple[Kind, ...] = (QUEUE, POD_GROUP, NODE, POD, PRIORITY_CLASS, RESOURCE_QUOTA)
#: Interval of rounds while groups wait, and after writes: pods without a gang, and time, make room as well.
INTERVAL = timedelta(seconds=1)
#: Pause after a round (seconds per object, and at most): rounds take no more than about a third of a process.
PAUSE, LONGEST_PAUSE = 1e-4, 2.0
#: Up to so many objects there is no pause.
FEW = 100


@dataclass(frozen=True)
class ClusterView:
    """The observed input of a round."""

    groups: tuple[Group, ...]
    tree: QueueTree
    nodes: Nodes
    priorities: Mapping[str, int]
    quotas: tuple[Object, ...] = ()
    pods: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """admitted: groups that may start. waiting: the others with their reasons, in order. growth: extra pods.

    reclaimed: gangs that make room for the beneficiary.
    """

    admitted: tuple[Group, ...]
    waiting: tuple[tuple[Group, Refusal], ...]
    growth: Growth = NONE
    reclaimed: tuple[Group, ...] = ()
    beneficiary: Group | None = None


def admit(snapshot: Snapshot, now: datetime, rules: GangRules = DEFAULT_RULES) -> Plan:
    """Returns the round as a plan of the queue `root`; the snapshot must hold everything of EVERYWHERE."""
    outcome = run(observe(snapshot), now, rules)
    steps = plan_steps(outcome.admitted, outcome.waiting, outcome.growth.pods, now)
    if outcome.beneficiary is not None:
        steps += _reclaiming(outcome.reclaimed, outcome.beneficiary, now)
    size = sum(len(entries) for entries in snapshot.cluster_wide.values())
    rest = (HoldKey(min(size * PAUSE, LONGEST_PAUSE)),) if size > FEW else ()
    if not steps and not (outcome.waiting or outcome.growth.waits):
        return Plan(rest)
    # A refused patch changes no object: nothing but the next round repeats it.
    back = ComeBack(now + INTERVAL)
    more = f", {len(outcome.growth.pods)} pods more" if outcome.growth.pods else ""
    return Plan((*steps, *rest, back), f"{len(outcome.admitted)} gangs admitted{more}, {len(outcome.waiting)} wait")


def run(cluster: ClusterView, now: datetime, rules: GangRules = DEFAULT_RULES) -> RoundOutcome:
    """Runs the round."""
    ledger = PlacementLedger(cluster.tree, cluster.nodes, cluster.groups, rules.overcommit)
    checks = AdmissionChecks(cluster.tree, ledger, NamespaceQuotas(cluster.quotas, cluster.groups, cluster.pods), now)
    admission = _Admission(checks, now, rules)
    pending = [group for group in cluster.groups if group.phase == PENDING and not group.leaving]
    first = order.overdue(pending, cluster.priorities, now)
    for late in first:
        admission.ask(late, last=True)
    early = {id(group) for group in first}
    others = (each for each in pending if id(each) not in early) if early else pending
    ranked = sorted(others, key=partial(order.rank, priorities=cluster.priorities))
    turns = order.GangOrder(ranked, cluster.tree, ledger)
    fifo = {name for name in cluster.tree if cluster.tree[name].fifo}
    while (group := turns.take()) is not None:
        refusal = admission.ask(group)
        if refusal is None:
            turns.changed()
        elif group.queue in fifo and not refusal.hopeless:
            # A group that can never start blocks no queue.
            behind = Refusal("Behind", f"queue {group.queue} is served in order, and {_name(group)} comes first")
            admission.waiting += [(each, checks.permanent_refusal(each) or behind) for each in turns.rest(group.queue)]
    ledger.settle()
    beneficiary, reclaimed = (
        reclaim.victims(
            admission.waiting,
            cluster.groups,
            cluster.tree,
            cluster.nodes,
            ledger,
            cluster.priorities,
            admission.reserved,
            now,
        )
        if rules.reclaim
        else reclaim.NONE
    )
    admission.reserve_the_rest()
    ledger.settle()
    grown = growth(cluster.groups, cluster.priorities, cluster.tree, ledger, checks)
    return RoundOutcome(tuple(admission.admitted), tuple(admission.waiting), grown, reclaimed, beneficiary)


class _Admission:
    """The checks of a round, group after group; late groups have room reserved at once."""

    def __init__(self, checks: AdmissionChecks, now: datetime, rules: GangRules) -> None:
        self.admitted: list[Group] = []
        self.waiting: list[tuple[Group, Refusal]] = []
        #: Groups that have room reserved, by identity: hashing thousands of references takes longer than the checks.
        self.reserved: set[int] = set()
        self._checks, self._now, self._rules = checks, now, rules

    def ask(self, group: Group, *, last: bool = False) -> Refusal | None:
        """Returns the group's refusal, None if it may start. last: no group overtakes it."""
        refusal = self._checks.ask(group)
        if refusal is None:
            self.admitted.append(group)
            return None
        self.waiting.append((group, refusal))
        if refusal.room and (last or order.is_late(group, self._rules.overtaking, self._now)):
            self._checks.reserve_room(group, refusal)
            self.reserved.add(id(group))
        return refusal

    def reserve_the_rest(self) -> None:
        """Reserves the room that waiting groups need, from now on."""
        reserved = self.reserved
        self._checks.reserve_rooms([each for each in self.waiting if each[1].room and id(each[0]) not in reserved])


class WaitingGroups:
    """The groups without pods of the round before: those that did not change keep what was derived from them.

    Thousands may wait while few change from one round to the next.
    """

    def __init__(self) -> None:
        # In the order of their ages, in which they nearly are the next time: sorting them again compares each once.
        self._known: dict[str, Group] = {}

    def observe(self, bodies: Iterable[Object], pods: Mapping[tuple[str, str], Sequence[Member]]) -> tuple[Group, ...]:
        """Returns the groups, the oldest first. pods: by namespace and name of their group."""
        known, fresh, kept = self._known, [], set[str]()
        for body in bodies:
            metadata = body["metadata"]
            uid, members = metadata["uid"], pods.get((metadata["namespace"], metadata["name"]), ())
            before = known.get(uid)
            if before is not None and not members and (before.body is body or before.body == body):
                kept.add(uid)
            else:
                fresh.append(groups.observe(body, members))
        same = [group for uid, group in known.items() if uid in kept]
        found = sorted((*same, *fresh), key=attrgetter("age"))
        self._known = {group.body["metadata"]["uid"]: group for group in found if group.holds_nothing}
        return tuple(found)


#: Of the process: one worker at a time decides a round, and seldom another one than before.
_WAITING = WaitingGroups()


def observe(snapshot: Snapshot) -> ClusterView:
    """Returns the view of a snapshot of the queue `root`."""
    pods = [member(pod) for pod in _all(snapshot, POD)]
    of: dict[tuple[str, str], list[Member]] = {}
    for each in pods:
        metadata = each.pod["metadata"]
        if name := (metadata.get("annotations") or {}).get(GROUP_NAME):
            of.setdefault((metadata["namespace"], name), []).append(each)
    return ClusterView(
        groups=_WAITING.observe(_all(snapshot, POD_GROUP), of),
        tree=QueueTree(deserved_shares.observe(body) for body in _all(snapshot, QUEUE)),
        nodes=nodes.observe(_all(snapshot, NODE), pods),
        priorities={body["metadata"]["name"]: int(body.get("value") or 0) for body in _all(snapshot, PRIORITY_CLASS)},
        quotas=tuple(_all(snapshot, RESOURCE_QUOTA)),
        pods=tuple(pods),
    )


def _all(snapshot: Snapshot, kind: Kind) -> list[Object]:
    return [entry.body for entry in snapshot.cluster_wide.get(kind.id, ()) if entry.body is not None]


def _name(group: Group) -> str:
    return f"{group.ref.namespace}/{group.ref.name}"


#: Patches sent together: after a failed one the rest of its batch waits for the next round.
BATCH = 50
#: Most reasons written by one round.
REASONS = 100
#: The numbers in a reason change with every admission: only the first groups are updated, at this interval.
FRESH = 20
FRESH_EVERY = timedelta(seconds=10)

Waiting = Sequence[tuple[Group, Refusal]]


def plan_steps(admitted: Sequence[Group], waiting: Waiting, growth: Sequence[Member], now: datetime) -> list[Step]:
    """Returns the steps, admissions first. The next round repeats what the API server refuses."""
    reported = list(_to_report(waiting, now))[:REASONS]
    patches = [_admission_patch(group, now) for group in admitted]
    patches += [ungate(pod) for pod in growth]
    patches += [_refusal_patch(group, why, now) for group, why in reported]
    return [Together(tuple(patches[at : at + BATCH]), vital=False) for at in range(0, len(patches), BATCH)]


def _to_report(waiting: Waiting, now: datetime) -> Iterator[tuple[Group, Refusal]]:
    """Yields groups with a new reason, and at the front of the order those with outdated words."""
    for place, (group, why) in enumerate(waiting):
        if group.waits_for != why.reason or (place < FRESH and _outdated(group, why, now)):
            yield group, why


def _outdated(group: Group, why: Refusal, now: datetime) -> bool:
    found = existing.find(group.body, UNSCHEDULABLE)
    if found is None or found.get("message") == why.message:
        return False
    written = times.instant(found.get("lastTransitionTime"))
    return written is None or now >= written + FRESH_EVERY


def _admission_patch(group: Group, now: datetime) -> Patch:
    written: Object = {"phase": INQUEUE, "admitted": times.render(now), "admittedFor": _grant(group)}
    if group.waits_for is not None:
        text = "the whole gang may start"
        written["conditions"] = status.with_condition(group.body, UNSCHEDULABLE, "False", status.ADMITTED, text, now)
    return _status_patch(group, written)


def _grant(group: Group) -> Object:
    """Returns the resources of the admission; a later edit of the spec does not change them."""
    granted: Object = {"minMember": group.least}
    if group.minimum is not None:
        old = (group.status.get("admittedFor") or {}).get("minResources") or {}
        granted["minResources"] = {**dict.fromkeys(old), **group.body["spec"]["minResources"]}
    return granted


def _reclaiming(groups: Sequence[Group], beneficiary: Group, now: datetime) -> list[Step]:
    """Returns the steps that begin the back-out of these gangs; the decisions on them delete their pods."""
    text = f"its room is for {_name(beneficiary)} of queue {beneficiary.queue}, which has less than its share"
    patches = []
    for group in groups:
        conditions = status.with_condition(group.body, UNSCHEDULABLE, "True", "Reclaimed", text, now)
        back = group.next_back_off(now, reclaimed=True).render()
        written = {"phase": PENDING, "admitted": None, "backOff": back, "conditions": conditions}
        event = RecordEvent("Warning", "Reclaimed", text, (group.ref.kind, group.body))
        patches.append(_status_patch(group, written, event))
    return [Together(tuple(patches), vital=False)]


def _refusal_patch(group: Group, why: Refusal, now: datetime) -> Patch:
    conditions = status.with_condition(group.body, UNSCHEDULABLE, "True", why.reason, why.message, now)
    event = _refusal_event(group, why) if group.waits_for != why.reason else None
    return _status_patch(group, {"phase": group.phase, "conditions": conditions}, event)


def _status_patch(group: Group, status: Object, then: RecordEvent | None = None) -> Patch:
    return Patch(group.ref, {"status": status}, group.body["metadata"].get("resourceVersion", ""), then)


def _refusal_event(group: Group, why: Refusal) -> RecordEvent:
    text = f"{why.reason}: {why.message}"
    about = (group.ref.kind, group.body)
    return RecordEvent("Warning" if why.hopeless else "Normal", UNSCHEDULABLE, text, about)
