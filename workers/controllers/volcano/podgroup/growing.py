"""The pods beyond their gangs: let go one by one, when every gang that waits has had its turn.

Volcano's scheduler gives them what is left in the same way; as no pod is ever taken back from a node, none of them
takes what a gang waits for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workers.controllers.volcano.podgroup import order
from workers.controllers.volcano.podgroup.group import COMPLETED, RUNNING, Group
from workers.controllers.volcano.podgroup.ledger import PlacementLedger
from workers.controllers.volcano.podgroup.members import Member
from workers.controllers.volcano.podgroup.shapes import PodShape
from workers.controllers.volcano.podgroup.tree import QueueTree
from workers.controllers.volcano.podgroup.voting import Voting

#: Pods that one round lets go at most.
MOST = 500


@dataclass(frozen=True, slots=True)
class Spare:
    """A pod beyond its gang."""

    group: Group
    pod: Member

    @property
    def queue(self) -> str:
        """Its gang's queue."""
        return self.group.queue


@dataclass(frozen=True, slots=True)
class Growth:
    """pods: who may go. waits: whether others have to wait."""

    pods: tuple[Member, ...] = ()
    waits: bool = False


NONE = Growth()


def growth(
    groups: Iterable[Group], priorities: Mapping[str, int], tree: QueueTree, ledger: PlacementLedger, voting: Voting
) -> Growth:
    """Who may go, queue after queue as gangs do; the gangs of one queue by their rank, their pods by age.

    Only gangs that are whole grow. What one pod was refused is not tried for another like it: room only gets less.
    """
    whole = (group for group in groups if group.phase in (RUNNING, COMPLETED) and group.rest)
    ranked = sorted(whole, key=lambda group: order.rank(group, priorities))
    turns = order.GangOrder((Spare(group, pod) for group in ranked for pod in group.rest), tree, ledger)
    going: list[Member] = []
    refused: set[tuple[str, PodShape]] = set()
    while len(going) < MOST and (spare := turns.take()) is not None:
        kind = (spare.queue, spare.pod.shape)
        if kind in refused:
            continue
        if voting.ask_one(spare.group, spare.pod):
            going.append(spare.pod)
            turns.changed()
        else:
            refused.add(kind)
    return Growth(tuple(going), bool(refused) or len(going) == MOST)
