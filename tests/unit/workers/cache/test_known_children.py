"""The children that a process knows: what changes make of them, and which it forgets."""

import pytest

from tests.support.tables import cases
from workers.api.kinds import JOB, Ref
from workers.cache.decode_cache import NotKept
from workers.cache.known_children import ChildrenCache, KnownChildren
from workers.decision.snapshot import CachedObject

NOW = 1_700_000_000_000_000
READ = ("default/work", "scaledjobs.keda.sh", JOB.id)


def entry(name: bytes, value: bytes = b"v1") -> CachedObject | None:
    return None if value == b"broken" else CachedObject(Ref(JOB, "", name.decode()), {"value": value.decode()}, 0)


def children(*names: bytes, size: int = 100) -> KnownChildren:
    found = {name: made for name in names if (made := entry(name))}
    return KnownChildren(b"mark", found, size, NOW)


@cases(
    ("nothing", [], 2, {b"a": b"v1", b"c": b"v1"}, 100),
    ("one of them", [b"c", b"v2"], 2, {b"a": b"v1", b"c": b"v2"}, 52),
    ("a new one, in its place", [b"b", b"v2"], 3, {b"a": b"v1", b"b": b"v2", b"c": b"v1"}, 102),
    ("one that left", [b"a", b""], 1, {b"c": b"v1"}, 50),
    ("one that came and left", [b"b", b""], 2, {b"a": b"v1", b"c": b"v1"}, 100),
    ("one for another", [b"c", b"", b"b", b"v1"], 2, {b"a": b"v1", b"b": b"v1"}, 52),
)
def test_changes(flat: list[bytes], number: int, expected: dict[bytes, bytes], size: int) -> None:
    changed = children(b"a", b"c").changed(b"later", number, flat, entry)
    assert (changed.mark, changed.size, changed.whole) == (b"later", size, NOW)
    assert list(changed.entries.items()) == [(name, entry(name, value)) for name, value in expected.items()]


@cases(
    ("one more than the changes say", [b"a", b"v2"], 3),
    ("one less", [], 1),
    ("one that cannot be read", [b"a", b"broken"], 2),
)
def test_changes_that_do_not_agree_with_the_number_are_not_believed(flat: list[bytes], number: int) -> None:
    known = children(b"a", b"c")
    with pytest.raises(NotKept):
        known.changed(b"later", number, flat, entry)
    assert known == children(b"a", b"c"), "it is as it was"


def test_what_was_not_asked_for_longest_is_forgotten_first() -> None:
    cache, (first, second, third) = ChildrenCache(100), [(str(number), *READ[1:]) for number in range(3)]
    cache.keep(first, JOB.id, children(b"a", size=40))
    cache.keep(second, JOB.id, children(b"b", size=40))
    assert cache.known(first, [JOB.id, "pods"], NOW) == {JOB.id: children(b"a", size=40)}
    cache.keep(third, JOB.id, children(b"c", size=40))
    assert [bool(cache.known(read, [JOB.id], NOW)) for read in (first, second, third)] == [True, False, True]
    # The room of what is replaced or forgotten is free again.
    for _ in range(5):
        cache.keep(third, JOB.id, children(b"c", size=50))
    cache.forget(third, JOB.id)
    cache.keep(second, JOB.id, children(b"b", size=50))
    assert [bool(cache.known(read, [JOB.id], NOW)) for read in (first, second, third)] == [True, True, False]


@cases(("too large", children(b"a", size=51)), ("without a mark", KnownChildren(b"", {}, 1, NOW)))
def test_what_is_not_kept(known: KnownChildren) -> None:
    cache = ChildrenCache(100)
    cache.keep(READ, JOB.id, children(b"b"[:1], size=10))
    cache.keep(READ, JOB.id, known)
    assert cache.known(READ, [JOB.id], NOW) == {}


@cases(("at once", 0, True), ("soon", 59_999_999, True), ("after a minute", 60_000_000, False), ("set back", -1, False))
def test_all_are_read_again_now_and_then(later: int, known: bool) -> None:
    cache = ChildrenCache(100)
    cache.keep(READ, JOB.id, children(b"a", size=10))
    assert bool(cache.known(READ, [JOB.id], NOW + later)) is known
