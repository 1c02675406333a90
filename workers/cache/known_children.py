"""The children of objects as this process has read them last, so that the broker sends only what has changed since."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workers.cache import codec
from workers.cache.decode_cache import NotKept, Read
from workers.decision.snapshot import CachedObject

#: Bytes of the values of children that a process knows; most of the decoded objects are those of the decode cache.
SIZE = 8 << 20

#: Microseconds after which all children are read again: what a process of another release has written, which may log
#: nothing, is missed no longer.
WHOLE = 60_000_000

#: Decodes a field and its value; None for a value that cannot be read.
Decode = Callable[[bytes, bytes], CachedObject | None]


@dataclass(frozen=True, slots=True)
class KnownChildren:
    """The children of one object and kind, tombstones included, by their fields, which are in order.

    mark: where the broker's log of changes stood when they were read (workers/lua/observe.lua). size: bytes of their
    values, about. whole: when all of them were read (µs, broker's clock).
    """

    mark: bytes
    entries: Mapping[bytes, CachedObject]
    size: int
    whole: int

    def changed(self, mark: bytes, number: int, flat: Sequence[bytes], decode: Decode) -> "KnownChildren":
        """Returns the children after these changes: fields and values in turn, an empty value for one that left.

        number: of children that there are then. Raises NotKept if it does not agree: more has happened than the changes
        say.
        """
        entries, size, is_new = dict(self.entries), self.size, False
        average = size // (len(entries) or 1)
        for field, value in zip(flat[0::2], flat[1::2], strict=True):
            entry = decode(field, value) if value else None
            size += codec.size(value) - (average if field in entries else 0)
            if entry is None:
                entries.pop(field, None)
            else:
                is_new |= field not in entries
                entries[field] = entry
        if len(entries) != number:
            raise NotKept
        if is_new:
            # The keys alone: to compare pairs takes three times as long.
            entries = {field: entries[field] for field in sorted(entries)}
        return KnownChildren(mark, entries, max(size, 0), self.whole)


class ChildrenCache:
    """By read and kind id, the children that were read last. size: most bytes of their values."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = self._room = size
        self._known: OrderedDict[tuple[Read, str], KnownChildren] = OrderedDict()

    def known(self, read: Read, kinds: Iterable[str], now: int) -> dict[str, KnownChildren]:
        """Returns what is known of a read, by the ids of these kinds. now: µs, broker's clock, about."""
        found = {}
        for kind_id in kinds:
            key = (read, kind_id)
            if (known := self._known.get(key)) and 0 <= now - known.whole < WHOLE:
                self._known.move_to_end(key)
                found[kind_id] = known
        return found

    def keep(self, read: Read, kind_id: str, known: KnownChildren) -> None:
        """Remembers the children of a read; forgets those that were not asked for longest, to make room."""
        self.forget(read, kind_id)
        if not known.mark or known.size > self._size // 2:
            return
        self._known[read, kind_id] = known
        self._room -= known.size
        while self._room < 0:
            _, dropped = self._known.popitem(last=False)
            self._room += dropped.size

    def forget(self, read: Read, *kinds: str) -> None:
        """Lets the next read of these kinds' children get all of them."""
        for kind_id in kinds:
            if former := self._known.pop((read, kind_id), None):
                self._room += former.size
