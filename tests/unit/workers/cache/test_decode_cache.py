"""What a process keeps of the store: the same bytes are the same entry, others never are, and it ends."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from workers.api.kinds import JOB, POD, Kind, Object
from workers.cache import codec
from workers.cache.decode_cache import DecodeCache
from workers.decision.snapshot import CachedObject


def value(version: int, body: Object | None = None, seen: int = 7) -> bytes:
    """An object of this version as it stands in the broker; without a body its tombstone."""
    json = b"-" if body is None else orjson.dumps({"metadata": {}, **body})
    return f"{version} {seen} uid - - - - 1 10 ".encode() + json


def test_an_object_that_stands_as_it_stood_is_not_decoded_again():
    recall = DecodeCache()
    first = recall.entry(JOB, b"default/a", value(1, {"a": 1}))
    assert first == codec.entry(codec.ref(JOB, b"default/a"), value(1, {"a": 1}))
    assert recall.entry(JOB, b"default/a", value(1, {"a": 1})) is first


def test_neither_a_newer_version_nor_a_namesake_is_taken_for_it():
    recall = DecodeCache()
    recall.entry(JOB, b"default/a", value(1, {"a": 1}))
    newer = recall.entry(JOB, b"default/a", value(2, {"a": 2}))
    gone = recall.entry(JOB, b"default/a", value(3))
    other = recall.entry(POD, b"default/a", value(3, {"a": 4}))
    assert newer == CachedObject(codec.ref(JOB, b"default/a"), {"metadata": {}, "a": 2}, 7)
    assert gone == CachedObject(codec.ref(JOB, b"default/a"), None, 7)
    assert other == CachedObject(codec.ref(POD, b"default/a"), {"metadata": {}, "a": 4}, 7)
    assert recall.entry(JOB, b"default/a", None) is None


def test_the_kept_entries_of_many_values_are_those_of_each():
    recall = DecodeCache()
    kept = recall.entry(JOB, b"default/a", value(1, {"a": 1}))
    recall.entry(POD, b"default/b", value(1, {"b": 1}))
    names = [b"default/a", b"default/a", b"default/b"]
    values = [value(1, {"a": 1}), value(2, {"a": 1}), value(1, {"b": 1})]
    assert recall.known(JOB, names, values) == [kept, None, None]


def test_an_entry_that_was_asked_for_among_many_goes_later():
    one = len(value(1, {}))
    recall = DecodeCache(size=4 * one)
    kept = {name: recall.entry(JOB, name, value(1, {})) for name in (b"n/a", b"n/b", b"n/c", b"n/d")}
    recall.known(JOB, [b"n/a"], [value(1, {})])
    recall.entry(JOB, b"n/e", value(1, {}))
    assert recall.entry(JOB, b"n/a", value(1, {})) is kept[b"n/a"]


def test_what_was_not_asked_for_the_longest_goes_first():
    one = len(value(1, {}))
    recall = DecodeCache(size=4 * one)
    kept = {name: recall.entry(JOB, name, value(1, {})) for name in (b"n/a", b"n/b", b"n/c", b"n/d")}
    assert recall.entry(JOB, b"n/a", value(1, {})) is kept[b"n/a"]
    recall.entry(JOB, b"n/e", value(1, {}))
    assert recall.entry(JOB, b"n/a", value(1, {})) is kept[b"n/a"]
    assert recall.entry(JOB, b"n/b", value(1, {})) is not kept[b"n/b"]


def test_one_that_would_take_all_the_room_takes_none():
    small, large = value(1, {}), value(1, {"text": "x" * 100})
    recall = DecodeCache(size=4 * len(large) - 1)
    kept = recall.entry(JOB, b"n/small", small)
    first = recall.entry(JOB, b"n/large", large)
    assert recall.entry(JOB, b"n/large", large) is not first
    assert recall.entry(JOB, b"n/small", small) is kept


_ASKED = st.tuples(st.sampled_from([JOB, POD]), st.sampled_from([b"n/a", b"n/b", b"n/c"]), st.integers(1, 3))


@given(st.lists(st.tuples(_ASKED, st.integers(0, 60) | st.none()), max_size=40), st.integers(0, 400))
def test_the_entry_equals_the_value_after_any_sequence_of_calls(
    asked: list[tuple[tuple[Kind, bytes, int], int | None]], size: int
) -> None:
    recall = DecodeCache(size)
    for (kind, name, version), length in asked:
        text = value(version, None if length is None else {"text": "x" * length})
        expected: CachedObject | None = codec.entry(codec.ref(kind, name), text)
        assert recall.entry(kind, name, text) == expected
        assert sum(len(known) for known, _ in recall._kept.values()) <= size
