"""What a ScaledObject's status remembers of earlier decisions: proposals for the windows, changes for the policies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from workers.api import times
from workers.api.kinds import Object

#: Entries of each list. Beyond that the two oldest become one, which holds replicas a little longer than need be.
MOST = 50


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """Replicas at an instant: proposed, or added (above 0) and removed."""

    at: datetime
    replicas: int


@dataclass(frozen=True, slots=True)
class ScalingMemory:
    """highs: proposals with none as high since, falling. lows: with none as low since, rising. changes: in order.

    Of all proposals only those decide what was the highest or lowest of any window that ends now.
    """

    highs: tuple[MemoryEntry, ...] = ()
    lows: tuple[MemoryEntry, ...] = ()
    changes: tuple[MemoryEntry, ...] = ()

    @classmethod
    def observed(cls, memory: Object) -> "ScalingMemory":
        """As the status has it; an entry that cannot be read was never there."""
        return cls(*(tuple(_entries(memory.get(name) or ())) for name in ("highs", "lows", "changes")))

    def render(self) -> Object:
        """As the status has it, without empty lists."""
        lists = {"highs": self.highs, "lows": self.lows, "changes": self.changes}
        return {
            name: [{"at": times.render(entry.at), "replicas": entry.replicas} for entry in entries]
            for name, entries in lists.items()
            if entries
        }

    def proposed(self, replicas: int, now: datetime) -> "ScalingMemory":
        """With one more proposal; whole seconds, as the status keeps them."""
        entry = MemoryEntry(now.replace(microsecond=0), replicas)
        highs = [known for known in self.highs if known.replicas > replicas]
        lows = [known for known in self.lows if known.replicas < replicas]
        return replace(self, highs=_bounded([*highs, entry]), lows=_bounded([*lows, entry]))

    def changed(self, difference: int, now: datetime) -> "ScalingMemory":
        """With one more change of the replicas."""
        at = now.replace(microsecond=0)
        if self.changes and self.changes[-1].at == at:
            difference += self.changes[-1].replicas
            return replace(self, changes=(*self.changes[:-1], MemoryEntry(at, difference)))
        changes = (*self.changes, MemoryEntry(at, difference))
        if len(changes) > MOST:
            first, second, *rest = changes
            changes = (MemoryEntry(second.at, first.replicas + second.replicas), *rest)
        return replace(self, changes=changes)

    def since(self, now: datetime, *, down: float, up: float, period: float) -> "ScalingMemory":
        """What still counts. down, up: the windows; period: of the policies. All in seconds."""
        return ScalingMemory(
            _young(self.highs, now, down), _young(self.lows, now, up), _young(self.changes, now, period)
        )

    def change(self, now: datetime, period: float) -> int:
        """Replicas added less replicas removed within the last seconds."""
        return sum(entry.replicas for entry in _young(self.changes, now, period))


def _young(entries: Sequence[MemoryEntry], now: datetime, seconds: float) -> tuple[MemoryEntry, ...]:
    limit = timedelta(seconds=seconds)
    return tuple(entry for entry in entries if now - entry.at < limit)


def _bounded(entries: Sequence[MemoryEntry]) -> tuple[MemoryEntry, ...]:
    """The first of two stays until the second would have gone: it is what holds replicas more."""
    if len(entries) <= MOST:
        return tuple(entries)
    first, second, *rest = entries
    return (MemoryEntry(second.at, first.replicas), *rest)


def _entries(items: Sequence[Object]) -> Iterator[MemoryEntry]:
    for item in items:
        try:
            yield MemoryEntry(times.parse(item["at"]), int(item["replicas"]))
        except (KeyError, TypeError, ValueError):
            continue
