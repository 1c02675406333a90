"""A list and its ledger in plain Python: what the script on the server must do, and what decisions are tried on."""

from dataclasses import dataclass, field

from workers.decision.claims import ClaimedItem, ClaimOrder


@dataclass
class ListLedger:
    """items: the list, head first. held: item and attempts by claim. parked: items with the reason. clock: of ids."""

    items: list[str] = field(default_factory=list)
    held: dict[str, tuple[str, int]] = field(default_factory=dict)
    parked: list[tuple[str, str]] = field(default_factory=list)
    order: int = 0
    clock: int = 0

    def carry_out(self, order: ClaimOrder | None) -> bool:
        """Returns True if the order was carried out."""
        if order is None or order.id < self.order:
            return False
        if order.id > self.order:
            for each in order.settlements:
                if each.id in self.held:
                    self._settle(each.id, each.how, each.reason, each.attempt, order.tail)
        self.order = order.id
        while self.items and len(self.held) < order.limit:
            self.clock += 1
            self.held[str(self.clock)] = (self.items.pop(-1 if order.tail else 0), 0)
        return True

    def _settle(self, id: str, how: str, reason: str, attempt: int, tail: bool) -> None:
        item = self.held[id][0]
        if how == "retried":
            self.held[id] = (item, attempt)
            return
        del self.held[id]
        if how == "returned":
            self.items.insert(len(self.items) if tail else 0, item)
        elif how == "parked":
            self.parked.append((item, reason))

    def waiting(self) -> list[str]:
        """Returns the items that have no claim and are not parked."""
        return list(self.items)

    def claims(self, bound: tuple[str, ...] = ()) -> tuple[ClaimedItem, ...]:
        """Returns the claimed items, the oldest first."""
        return tuple(
            ClaimedItem(id, attempt, len(item), None if id in bound else item)
            for id, (item, attempt) in self.held.items()
        )
