"""Reclaim, an option: gangs of queues above their share make room for a gang of a queue below its own.

Volcano's scheduler evicts single pods. Without it a gang can only give back all of its room: it backs out, and waits
like any other. Only gangs of Volcano Jobs do, because a Job creates its pods again after the next admission.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime

from workers.controllers.volcano.podgroup import order, vectors
from workers.controllers.volcano.podgroup.checks import Refusal
from workers.controllers.volcano.podgroup.deserved_shares import QueueTree
from workers.controllers.volcano.podgroup.group import RUNNING, SLA, Group
from workers.controllers.volcano.podgroup.ledger import PlacementLedger
from workers.controllers.volcano.podgroup.members import Member
from workers.controllers.volcano.podgroup.nodes import Nodes
from workers.controllers.volcano.podgroup.places import Machine
from workers.controllers.volcano.podgroup.vectors import EMPTY, Vector

#: Annotation (Volcano's): ``false`` keeps a gang from being reclaimed.
PREEMPTABLE = "volcano.sh/preemptable"
#: The waiting group that gets room, and the gangs that make it.
Reclaim = tuple[Group | None, tuple[Group, ...]]
NONE: Reclaim = (None, ())


def victims(
    waiting: Iterable[tuple[Group, Refusal]],
    groups: Sequence[Group],
    tree: QueueTree,
    nodes: Nodes,
    ledger: PlacementLedger,
    priorities: Mapping[str, int],
    late: Container[int],
    now: datetime,
) -> Reclaim:
    """Returns the first waiting group for which gangs can make room, and those gangs; NONE without any.

    waiting: the refused groups in order. One group at a time: the next is served when the pods of these are gone, and a
    group that fits into the room of pods that are being deleted waits for it. late: ids of the groups whose room the
    ledger has reserved already.
    """
    if any(group.is_clearing for group in groups):
        return NONE
    leaving = [member for group in groups for member in group.members if member.releasing_place]
    nodes = _vacated(nodes, leaving)
    ranked = sorted(
        # Overdue gangs are admitted before all others: one would be reclaimed again and again.
        (group for group in groups if _is_reclaimable(group, tree) and not group.elapsed(SLA, now)),
        key=lambda group: (order.rank(group, priorities)[0], group.age),
        reverse=True,
    )
    for group, refusal in waiting:
        if not refusal.room:
            continue
        own = Reservation.of(group, refusal) if id(group) in late else Reservation()
        if not _is_owed(group, tree, ledger, own):
            continue
        lacking = _lacking(group, nodes, leaving, ledger, own)
        if leaving and not lacking and _fits_on_nodes(group, (), nodes, ledger):
            return NONE
        if found := _enough(group, ranked, tree, nodes, ledger, lacking):
            return group, found
    return NONE


def _vacated(nodes: Nodes, leaving: Sequence[Member]) -> Nodes:
    """Returns the nodes without these pods."""
    if not leaving:
        return nodes
    freed: dict[str, list[Vector]] = defaultdict(list)
    for each in leaving:
        freed[each.node].append(each.requests)
    return replace(nodes, machines=tuple(_with_room(each, freed) for each in nodes.machines))


def _with_room(machine: Machine, freed: Mapping[str, Sequence[Vector]]) -> Machine:
    """Returns the node with more room. freed: amounts by node."""
    more = freed.get(machine.name)
    return replace(machine, free=vectors.total((machine.free, *more))) if more else machine


@dataclass(frozen=True, slots=True)
class Reservation:
    """The amounts that the ledger counts for a late group that waits.

    use: in the use of its queues. queue: the one queue that counts it, empty for all of its queues. room: of the
    cluster's.
    """

    use: Vector = field(default_factory=dict)
    queue: str = ""
    room: Vector = field(default_factory=dict)

    @classmethod
    def of(cls, group: Group, refusal: Refusal) -> "Reservation":
        """Returns what `AdmissionChecks.reserve_room` has reserved for it."""
        if refusal.scattered and not refusal.short:
            return cls()
        return cls(vectors.minus(group.need, group.loose), refusal.short, EMPTY if refusal.short else group.need)

    def in_use_of(self, queue: str) -> Vector:
        """Returns the part of a queue's use."""
        return self.use if self.queue in ("", queue) else EMPTY


def _is_reclaimable(group: Group, tree: QueueTree) -> bool:
    """Returns True for a whole gang that can start over. Pods that ended would not run again with the others."""
    annotations = group.body["metadata"].get("annotations") or {}
    return (
        group.phase == RUNNING
        and group.of_a_job
        and group.queue in tree
        and tree[group.queue].reclaimable
        and annotations.get(PREEMPTABLE) != "false"
        and all(each.state in ("bound", "running", "waiting") for each in group.members)
    )


def _is_owed(group: Group, tree: QueueTree, ledger: PlacementLedger, own: Reservation) -> bool:
    """Returns True if the group's queue, and each queue above it, has no more than its share with the group."""
    for queue in tree.chains[group.queue][:-1]:
        share, use = ledger.deserved[queue], vectors.minus(ledger.use[queue], own.in_use_of(queue))
        if any(name in share and use.get(name, 0) + value > share[name] for name, value in group.need.items()):
            return False
    return True


def _lacking(
    group: Group, nodes: Nodes, leaving: Iterable[Member], ledger: PlacementLedger, own: Reservation
) -> dict[str, int]:
    """Returns the amounts that the cluster is short of for the group once the pods that leave are gone."""
    useful = _useful(group, nodes)
    coming = vectors.total((own.room, *(each.requests for each in leaving if each.node in useful)))
    lacking: dict[str, int] = {}
    for name, value in group.need.items():
        left = ledger.left(group.queue, name)
        if left is not None and value > left + coming.get(name, 0):
            lacking[name] = value - left - coming.get(name, 0)
    return lacking


def _enough(
    group: Group,
    ranked: Sequence[Group],
    tree: QueueTree,
    nodes: Nodes,
    ledger: PlacementLedger,
    lacking: Vector,
) -> tuple[Group, ...]:
    """Returns gangs, the least important first, without which the group fits; empty if there are not enough."""
    found: list[Group] = []
    useful = _useful(group, nodes)
    given: dict[str, list[Vector]] = defaultdict(list)
    for victim in ranked:
        chain = tree.chains[victim.queue][:-1]
        # Only queues that the two do not share lose the room.
        losing = [queue for queue in chain if queue not in tree.chains[group.queue]]
        if not losing or not any(victim.allocated.get(name, 0) for name in lacking):
            continue
        if _is_served_before(victim, group, tree):
            continue
        if not any(member.occupies and member.node in useful for member in victim.members):
            continue
        if all(_keeps_its_share(queue, (*given[queue], victim.allocated), lacking, ledger) for queue in losing):
            found.append(victim)
            for queue in losing:
                given[queue].append(victim.allocated)
        if _make_room(group, found, lacking, nodes, ledger):
            return _needed(group, found, lacking, nodes, ledger)
    return ()


def _useful(group: Group, nodes: Nodes) -> Set[str]:
    """Returns the names of the nodes that pods of the group may go to."""
    shapes = set(group.shapes or ())
    return {each.name for each in nodes.machines if not shapes or any(one.places.allow(each) for one in shapes)}


def _is_served_before(victim: Group, group: Group, tree: QueueTree) -> bool:
    """Returns True if the priority of its queue would admit the victim before the group, again and again."""
    chains = (reversed(tree.chains[each.queue]) for each in (victim, group))
    one, other = next(pair for pair in zip(*chains, strict=False) if pair[0] != pair[1])
    return tree[one].priority > tree[other].priority


def _needed(
    group: Group, found: list[Group], lacking: Vector, nodes: Nodes, ledger: PlacementLedger
) -> tuple[Group, ...]:
    """Returns these gangs without those that the group does not need, of which the most important stay first."""
    for victim in reversed(found):
        others = [each for each in found if each is not victim]
        if others and _make_room(group, others, lacking, nodes, ledger):
            found = others
    return tuple(found)


def _make_room(group: Group, leaving: Sequence[Group], lacking: Vector, nodes: Nodes, ledger: PlacementLedger) -> bool:
    enough = vectors.fits(lacking, vectors.total(each.allocated for each in leaving))
    return enough and _fits_on_nodes(group, leaving, nodes, ledger)


def _keeps_its_share(queue: str, given: Iterable[Vector], lacking: Iterable[str], ledger: PlacementLedger) -> bool:
    lost, use, share = vectors.total(given), ledger.use[queue], ledger.deserved[queue]
    return all(use.get(name, 0) - lost.get(name, 0) >= share.get(name, 0) for name in lacking)


def _fits_on_nodes(group: Group, leaving: Iterable[Group], nodes: Nodes, ledger: PlacementLedger) -> bool:
    """Returns True if each of the group's pods fits on a node once the pods of these gangs are gone."""
    freed: dict[str, list[Vector]] = defaultdict(list)
    for each in leaving:
        for member in each.members:
            if member.occupies:
                freed[member.node].append(member.requests)
    machines = [_with_room(each, freed) for each in nodes.machines]
    return ledger.bins_of(machines).take(group.shapes or ())
