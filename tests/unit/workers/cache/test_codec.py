"""The codec of stored objects: large JSON is compressed, and nobody but the codec sees it."""

import zlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.workers.objects import job, ref
from workers.api.kinds import JOB, Object
from workers.cache import codec
from workers.cache.codec import LARGE, ObjectVersion
from workers.cache.decode_cache import DecodeCache

REF = ref(JOB, "a")


def value_of(body: Object) -> bytes:
    """The value of the hash, as the script composes it."""
    words = codec.arguments(JOB, ObjectVersion(body), lambda _: True, adopted=False, refers_to=None)
    _, version, *others, json = words
    assert isinstance(json, bytes)
    return " ".join(map(str, (version, 1_700_000_000_000_000, *others, ""))).encode() + json


def body_of(value: bytes) -> Object | None:
    entry = codec.entry(REF, value)
    assert entry is not None
    return entry.body


def head_of(value: bytes) -> bytes:
    """What stands before the JSON."""
    return b" ".join((*value.split(b" ", 9)[:9], b""))


def of_size(size: int) -> Object:
    """A Job whose JSON has so many bytes."""
    body = job("a", 5)
    return {**body, "spec": {"text": "x" * (size - len(orjson.dumps({**body, "spec": {"text": ""}})))}}


@cases(("as large as may be stored as it is", 0, False), ("one byte more", 1, True))
def test_json_is_compressed_beyond_a_size(more: int, compressed: bool) -> None:
    body = of_size(LARGE + more)
    value = value_of(body)
    assert (len(value) < LARGE) is compressed
    assert body_of(value) == body
    assert codec.size(value) == len(head_of(value)) + LARGE + more


@given(st.lists(st.text(max_size=200), max_size=20), st.sampled_from((1, 1000)))
def test_every_object_is_read_as_it_was_written(texts: list[str], times: int) -> None:
    body = {**job("a", 5), "spec": {"texts": texts * times}}
    value = value_of(body)
    assert body_of(value) == body
    assert codec.size(value) == len(head_of(value)) + len(orjson.dumps(body))


WHOLE = value_of(of_size(3 * LARGE))
HEAD = head_of(WHOLE)


@cases(
    ("cut off", WHOLE[:-9], "cannot be expanded"),
    ("without its end", WHOLE[:-1][:-4], "cannot be expanded"),
    ("another stream", HEAD + b"z9 no stream of zlib'sz", "cannot be expanded"),
    ("empty", HEAD + b"zz", "cannot be expanded"),
    ("no JSON in it", HEAD + b"z1 " + zlib.compress(b"no JSON") + b"z", "expected"),
)
def test_what_cannot_be_expanded_cannot_be_read(value: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        codec.entry(REF, value)
    assert codec.size(value) > 0


def test_a_large_object_takes_as_much_of_the_cache_as_its_json() -> None:
    name, value = b"default/a", value_of(of_size(3 * LARGE))
    for size, kept in ((16 * LARGE, True), (8 * LARGE, False)):
        cache = DecodeCache(size)
        first = cache.entry(JOB, name, value)
        assert (cache.entry(JOB, name, value) is first) is kept
