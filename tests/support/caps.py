"""A shared limit in plain Python: what the script in the broker must answer, and what decisions are tried on."""

from dataclasses import dataclass, field


@dataclass
class SharedCap:
    """granted: by object, what it may have; wished: what it wants, as far as it was told.

    turns: by object, the number of its last turn, and the decision that took it: one more than its share. taken: turns
    in all.
    """

    limit: int
    granted: dict[str, int] = field(default_factory=dict)
    wished: dict[str, int] = field(default_factory=dict)
    turns: dict[str, tuple[int, object]] = field(default_factory=dict)
    taken: int = 0

    def ask(
        self, name: str, *, alive: int, wanted: int, held: int = 0, keep: bool = False, decision: object = None
    ) -> int:
        """Returns the number of unfinished Jobs that the object may have. decision: None for one of its own."""
        had = self.granted.get(name, 0)
        others = [each for each in self.granted if each != name]
        room = self.limit - sum(self.granted[each] for each in others)
        share, remainder = self._share(wanted, others)
        decision = object() if decision is None else decision
        uses = max(alive, min(held, had), had if keep else 0) > share or self.turns.get(name, (0, None))[1] == decision
        takes = wanted > share and (remainder > 0 if uses else self._is_next(name, share, remainder, others))
        granted = max(alive, min(wanted, room, max(min(held, had), share + takes)))
        if takes and granted > share and not (uses and name in self.turns):
            self.taken += 1
            self.turns[name] = self.taken, decision
        self.granted[name] = max(granted, had) if keep else granted
        self.wished[name] = max(wanted, self.granted[name])
        return granted

    def _share(self, wanted: int, others: list[str]) -> tuple[int, int]:
        """An even share of the limit, and how many may have one more; what some do not want is shared by the rest."""
        left, wishes = self.limit, sorted([wanted, *(self.wished[each] for each in others)])
        while wishes:
            share, over = divmod(left, len(wishes))
            if wishes[0] > share:
                return share, over - sum(self.granted[each] > share for each in others)
            left -= wishes.pop(0)
        return wanted, 0

    def _is_next(self, name: str, share: int, remainder: int, others: list[str]) -> bool:
        """True if fewer of those that want one more have waited longer than may have one."""
        waiting = [each for each in others if self.granted[each] <= share < self.wished[each]]
        return sum(self._turn(each) < self._turn(name) for each in waiting) < remainder

    def _turn(self, name: str) -> int:
        return self.turns.get(name, (0, None))[0]

    def count(self, alive: dict[str, int]) -> None:
        """The ledger was lost, and is filled from what is there."""
        self.granted = {name: number for name, number in alive.items() if number}
        self.wished = dict(self.granted)
