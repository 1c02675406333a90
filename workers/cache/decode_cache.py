"""What a process read of the store lately: an object that stands as it stood is not decoded again."""

from collections import OrderedDict

from workers.api.kinds import Kind
from workers.cache import codec
from workers.reconcile.snapshot import CachedObject

#: Bytes of the store's values that a process keeps; decoded they take about five times as much beside.
SIZE = 4 << 20


class DecodeCache:
    """Entries as they were decoded last, for as long as their values stay the same bytes.

    When an object with a thousand children is looked at, one of them has changed. The same entry is given out again and
    again, so nobody may change its body: decisions never do. size: most bytes of values that are kept; those that were
    not asked for the longest go first, and one that would take more than a quarter of the room is not kept at all.
    """

    def __init__(self, size: int = SIZE) -> None:
        self._kept: OrderedDict[tuple[str, bytes], tuple[bytes, CachedObject]] = OrderedDict()
        self._largest = size // 4
        self._room = size

    def entry(self, kind: Kind, name: bytes, value: bytes | None) -> CachedObject | None:
        """The entry that a value stands for, None for no value. name: its field in the hash of its kind."""
        if not value:
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

    def _keep(self, key: tuple[str, bytes], value: bytes, entry: CachedObject) -> None:
        if former := self._kept.pop(key, None):
            self._room += len(former[0])
        if len(value) > self._largest:
            return
        self._kept[key] = (value, entry)
        self._room -= len(value)
        while self._room < 0:
            _, (dropped, _) = self._kept.popitem(last=False)
            self._room += len(dropped)
