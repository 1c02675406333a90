"""Bounded mappings: of what is newest, and of what is used in turn."""

from collections import OrderedDict

from tests.support.tables import cases, for_each
from workers.newest_entries import TurnCache, remember


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


def turn(cache: TurnCache[int, int], keys: range) -> int:
    """Uses all of them, and caches what is not there. Returns how many were."""
    found = 0
    for key in keys:
        if cache.used(key) is None:
            cache.keep(key, -key)
        else:
            found += 1
    return found


@for_each(101, 150, 400)
def test_most_of_a_full_cache_is_found_by_those_who_use_more_than_it_holds_in_turn(number: int) -> None:
    cache = TurnCache[int, int](100)
    rounds = [turn(cache, range(number)) for _ in range(6)]
    assert rounds[0] == 0
    assert all(found >= 60 for found in rounds[1:])
    assert len(cache) == 100


def test_what_is_used_no_more_gives_way() -> None:
    cache = TurnCache[int, int](100)
    turn(cache, range(100))
    rounds = [turn(cache, range(1000, 1090)) for _ in range(100)]
    assert rounds[-1] == 90


def test_a_known_key_gets_a_new_value() -> None:
    cache = TurnCache[str, int](1)
    cache.keep("a", 1)
    cache.keep("a", 2)
    assert (cache.used("a"), cache.used("b")) == (2, None)
