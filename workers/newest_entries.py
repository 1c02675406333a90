"""Mappings that keep their newest entries alone."""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remember(entries: OrderedDict[K, V], key: K, value: V, limit: int) -> list[tuple[K, V]]:
    """Makes an entry the newest one. Returns the oldest entries, which it dropped to keep at most `limit`."""
    entries[key] = value
    entries.move_to_end(key)
    return [entries.popitem(last=False) for _ in range(len(entries) - limit)]
