"""Scalers whose items can be claimed: taken out of the queue, one for one Job, and recorded in a ledger beside it."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.connections import Connections
from penstock.scaler import Scaler
from workers.decision.claims import ClaimedItem, ClaimOrder


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """One request to the ledger of one object.

    owner: the object's ``namespace/name``, for people. uid: the object's; its ledger has that name. order: to be
    carried out, or None to read only.
    """

    owner: str
    uid: str
    order: ClaimOrder | None


@dataclass(frozen=True, slots=True)
class ClaimableItems:
    """The outcome of a request: items waiting, claims, and whether the order was carried out.

    again: seconds after which an item may be claimed that may not now, None if there is none. counts, last_arrival: of
    the ledgers that know them, see ClaimLedger.
    """

    waiting: float
    claims: tuple[ClaimedItem, ...]
    applied: bool
    again: float | None = None
    counts: Mapping[str, int] | None = None
    last_arrival: int = 0


class Claiming(Scaler):
    """A scaler whose items can be claimed."""

    @abstractmethod
    async def carry_out(self, request: ClaimRequest, connections: Connections) -> ClaimableItems:
        """Settles claims and takes items as the order says, in one atomic step that is safe to repeat.

        An order older than one the ledger has seen is refused. Raises SourceError.
        """
