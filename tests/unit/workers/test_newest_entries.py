"""Mappings that keep their newest entries alone."""

from collections import OrderedDict

from tests.support.tables import cases
from workers.newest_entries import remember


@cases(
    ("room for one more", "ab", "c", 3, "abc", ""),
    ("a known one becomes the newest", "abc", "a", 3, "bca", ""),
    ("the oldest gives way", "abc", "d", 3, "bcd", "a"),
    ("a lower limit drops several", "abc", "d", 2, "cd", "ab"),
    ("no room at all", "", "a", 0, "", "a"),
)
def test_the_newest_entries_stay(known: str, key: str, limit: int, kept: str, dropped: str) -> None:
    entries = OrderedDict(dict.fromkeys(known, 0))
    assert [name for name, _ in remember(entries, key, 1, limit)] == list(dropped)
    assert list(entries) == list(kept)
    assert all(value == (name == key) for name, value in entries.items())
