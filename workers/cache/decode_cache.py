"""A cache of decoded entries: an unchanged value is neither decoded nor sent again."""

from collections import OrderedDict
from collections.abc import Sequence

from workers.api.kinds import Kind
from workers.cache import codec
from workers.decision.snapshot import CachedObject
from workers.newest_entries import TurnCache

#: Bytes of values (`codec.size`) that a process caches; the decoded objects take about five times as much in addition.
SIZE = 4 << 20
#: Those of a process that polls: it needs each object in turn, again and again. Of more than it keeps it finds none.
SIZE_OF_POLLER = 16 << 20
#: Reads whose moments are remembered.
READS = 20_000

#: One read: a field of the hash or `=<uid>`, the id of its kind, and those of the kinds of its children.
Read = tuple[str, ...]
#: Where a value stands: the id of its kind, and its field in the hash of that kind.
Field = tuple[str, bytes]


#: Spaces in the head of a value, `<resourceVersion> <seen> <uid> `: no other value begins with the same one.
_SPACES = 3


class NotKept(Exception):  # noqa: N818 - the cache's state, not an error of anybody
    """The broker sent the head of a value that is not kept any more."""


class DecodeCache:
    """An LRU cache of entries by field, each valid while its value stays the same bytes.

    Typically one of an object's thousand children has changed since it was observed last. Callers share the entries and
    must not change their bodies. size: most bytes of values; a value above a quarter of it is not cached.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._kept: OrderedDict[Field, tuple[bytes, CachedObject]] = OrderedDict()
        self._largest = size // 4
        self._size = self._room = size
        #: When a read was, and the first of its values.
        self._moments: TurnCache[Read, tuple[int, Field]] = TurnCache(READS)

    def moment(self, read: Read) -> int | None:
        """Returns when this was read last (µs, broker's clock); None unless all its values are likely to be kept.

        It forgets a read whose first value is not kept any more.
        """
        if (found := self._moments.used(read)) is None:
            return None
        moment, first = found
        if first in self._kept:
            return moment
        self.forget(read)
        return None

    def was_read(self, read: Read, first: Field | None, sizes: Sequence[int], moment: int) -> None:
        """Remembers when this was read, unless its values are too large to be kept side by side.

        first: where the first of its values stands, which mostly was used before the others and goes before them; None
        for a read without values, which an earlier moment describes as well. sizes: bytes of each value.
        """
        if first is None:
            return
        if first in self._kept and sum(sizes) <= self._size and max(sizes) <= self._largest:
            self._moments.keep(read, (moment, first))
        else:
            self.forget(read)

    def forget(self, read: Read) -> None:
        """Lets the next read of this get all values."""
        self._moments.pop(read, None)

    def entry(self, kind: Kind, name: bytes, value: bytes | None) -> CachedObject | None:
        """Decodes a value of the hash; None for no value. name: its field in the hash of its kind."""
        if value is None:
            return None
        key = (kind.id, name)
        known = self._kept.get(key)
        if known and known[0] == value:
            self._kept.move_to_end(key)
            return known[1]
        entry = codec.entry(codec.ref(kind, name), value)
        assert entry is not None
        self._keep(key, value, entry)
        return entry

    def known(
        self, kind: Kind, names: Sequence[bytes], values: Sequence[bytes], *, heads: bool = False
    ) -> list[CachedObject | None]:
        """Returns the kept entry of each value, None where there is none: that one is for `entry`.

        For a thousand children of which one has changed: a call for each would take twice as long. heads: some are
        heads of values. Raises NotKept for the head of a value that is not kept.
        """
        id, get, touch = kind.id, self._kept.get, self._kept.move_to_end
        found: list[CachedObject | None] = []
        for name, value in zip(names, values, strict=True):
            key = (id, name)
            kept = get(key)
            is_head = heads and value.endswith(b" ") and value.count(b" ") == _SPACES
            if kept is not None and (kept[0].startswith(value) if is_head else kept[0] == value):
                touch(key)
                found.append(kept[1])
            elif is_head:
                raise NotKept
            else:
                found.append(None)
        return found

    def size(self, kind: Kind, names: Sequence[bytes], values: Sequence[bytes]) -> int:
        """Returns the bytes of these values, some of which may be heads of those that are kept."""
        kept = (self._kept.get((kind.id, name)) for name in names)
        return sum(codec.size(one[0] if one else value) for one, value in zip(kept, values, strict=True))

    def _keep(self, key: Field, value: bytes, entry: CachedObject) -> None:
        if former := self._kept.pop(key, None):
            self._room += codec.size(former[0])
        size = codec.size(value)
        if size > self._largest:
            return
        self._kept[key] = (value, entry)
        self._room -= size
        while self._room < 0:
            _, (dropped, _) = self._kept.popitem(last=False)
            self._room += codec.size(dropped)
