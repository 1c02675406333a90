"""Scalers whose items can be claimed: taken out of the queue, one for one Job, and accounted for."""

from abc import abstractmethod
from dataclasses import dataclass

from penstock.connections import Connections
from penstock.scaler import Scaler
from workers.handoff.claims import ClaimedItem, ClaimOrder


@dataclass(frozen=True, slots=True)
class Errand:
    """One visit to the ledger of one object.

    owner: the object's ``namespace/name``, for people. uid: the object's; its ledger is under that name. order: to be
    carried out, or None to look only.
    """

    owner: str
    uid: str
    order: ClaimOrder | None


@dataclass(frozen=True, slots=True)
class ClaimableItems:
    """What an errand found when it was done: items waiting, claims, and whether the order was carried out."""

    waiting: float
    claims: tuple[ClaimedItem, ...]
    obeyed: bool


class Claiming(Scaler):
    """A scaler whose items can be claimed."""

    @abstractmethod
    async def carry_out(self, errand: Errand, connections: Connections) -> ClaimableItems:
        """Settle claims and take items as the order says, in one step that happens whole or not at all.

        Safe to repeat. An order older than one the ledger has seen is refused. Raises SourceError.
        """
