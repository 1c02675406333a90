"""A shared limit in plain Python: what the script in the broker must answer, and what decisions are tried on."""

from dataclasses import dataclass, field


@dataclass
class SharedCap:
    """granted: by object, what it may have; wished: what it wants, as far as it was told."""

    limit: int
    granted: dict[str, int] = field(default_factory=dict)
    wished: dict[str, int] = field(default_factory=dict)

    def ask(self, name: str, *, alive: int, wanted: int, held: int = 0, keep: bool = False) -> int:
        """Returns the number of unfinished Jobs that the object may have."""
        had = self.granted.get(name, 0)
        others = [each for each in self.granted if each != name]
        room = self.limit - sum(self.granted[each] for each in others)
        granted = max(alive, min(wanted, room, max(min(held, had), self._share(name, wanted, others))))
        self.granted[name] = max(granted, had) if keep else granted
        self.wished[name] = max(wanted, self.granted[name])
        return granted

    def _share(self, name: str, wanted: int, others: list[str]) -> int:
        """An even share of the limit; what others do not want is shared among the rest."""
        left, wishes = self.limit, sorted([wanted, *(self.wished[each] for each in others)])
        while wishes:
            share, over = divmod(left, len(wishes))
            if wishes[0] > share:
                beyond = sum(self.granted[each] > share for each in others)
                return share + (beyond < over)
            left -= wishes.pop(0)
        return wanted

    def count(self, alive: dict[str, int]) -> None:
        """The ledger was lost, and is filled from what is there."""
        self.granted = {name: number for name, number in alive.items() if number}
        self.wished = dict(self.granted)
