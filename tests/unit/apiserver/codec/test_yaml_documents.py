"""YAML bodies: read as JSON, refused when they are nested too deeply or grow by their aliases."""

from typing import Any

import orjson
import pytest
import yaml

from deploy.local.apiserver.codec import yaml_documents
from deploy.local.apiserver.codec.yaml_documents import DEEPEST, LARGEST
from tests.support.tables import cases


@cases(
    ("a date is a text", b"day: 2026-01-01", {"day": "2026-01-01"}),
    ("a key is a text", b"1: one", {"1": "one"}),
    ("a number that is none", b"a: .nan", {"a": None}),
    ("a list", b"- true\n- yes", [True, True]),
    ("two ports are no number to base 60", b"- 22:22\n- 1:30.5", ["22:22", "1:30.5"]),
    ("an alias", b"a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
    ("a merge", b"a: &x {b: 1}\nc: {<<: *x, d: 2}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
    ("as deep as may be", b"[" * DEEPEST + b"]" * DEEPEST, orjson.loads("[" * DEEPEST + "]" * DEEPEST)),
    ("a long one without aliases", b"- " + b"x" * (LARGEST - 2), ["x" * (LARGEST - 2)]),
)
def test_yaml_is_read_as_json(text: bytes, value: Any) -> None:
    assert yaml_documents.read(text) == (value, [])


def chain(length: int, start: bytes, link: bytes) -> bytes:
    """Anchors `a0`, `a1`, …; each is made of the one before."""
    links = [b"- &a%d " % number + link.replace(b"*", b"*a%d" % (number - 1)) for number in range(1, length)]
    return b"\n".join([b"- &a0 " + start, *links])


BOMBS = {
    "lists of lists": chain(9, b"[x, x, x, x, x, x, x, x, x]", b"[*, *, *, *, *, *, *, *, *]"),
    "merges of merges": chain(12, b"{a: b}", b"{<<: [*, *, *, *, *, *, *, *]}"),
    "one long text": b"- &a " + b"x" * 100_000 + b"\n- [" + b"*a," * 100 + b"]",
}


@cases(
    {
        "broken": (b"a: [", "did not find expected"),
        "bytes": (b"a: !!binary AAAA", "bytes"),
        "a set": (b"a: !!set {b}", "set"),
        "a number beyond all bounds": (b"a: 1" + b"0" * 40, "64-bit"),
        "a number of a million digits": (b"a: 1" + b"0" * 1_000_000, "digits"),
        "a number to base 60 that is called one": (b"a: !!int 1" + b":1" * 9, "base 60"),
        "a number without digits": (b"a: !!int ''", "does not fit its tag"),
        "an instant that is none": (b"a: !!timestamp x", "does not fit its tag"),
        "two documents": (b"--- 1\n--- 2", "single document"),
        "a list in itself": (b"a: &x [*x]", "contains itself"),
        "nobody's alias": (b"a: *x", "is not known"),
        "lists that never end": (b"[" * 10_000, "nested more than"),
        "maps that never end": (b"{a: " * 10_000, "nested more than"),
        "just too deep": (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), "nested more than"),
        "too deep by aliases": (chain(DEEPEST + 1, b"[]", b"[*]"), "nested more than"),
        "an object of another language": (b"a: !!python/object:os.system {}", "could not determine a constructor"),
        **{name: (text, "excessive aliasing") for name, text in BOMBS.items()},
    },
)
def test_yaml_that_json_cannot_express_or_that_grows_is_refused(
    text: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if message in ("excessive aliasing", "nested more than"):
        # Nothing is made of a document that is beyond a limit.
        monkeypatch.setattr(yaml, "load", None)
    with pytest.raises(ValueError, match=message):
        yaml_documents.read(text)


@cases(
    ("none", "a: 1\nb: {c: 1}\n", []),
    ("at the top", "a: 1\na: 2\n", [(2, "a")]),
    ("inside", "a:\n- b: 1\n  b: 2\nc: 1\nc: 1\n", [(3, "b"), (5, "c")]),
    ("once for all aliases", "a: &x {b: 1, b: 2}\nc: *x\n", [(1, "b")]),
    ("what is merged is no repetition", "a: &x {b: 1}\nc:\n  <<: *x\n  b: 2\n", []),
    ("nothing", "", []),
    ("a scalar", "null\n...\n", []),
)
def test_repeated_keys_are_named_by_line(text: str, found: list[tuple[int, str]]) -> None:
    assert yaml_documents.read(text.encode())[1] == [
        f'line {line}: key "{key}" already set in map' for line, key in found
    ]


def test_what_is_written_reads_the_same() -> None:
    value = {"b": "2026-01-01", "a": ["1", 1, None, True, "22:22", "ß"]}
    text = yaml_documents.write(orjson.dumps(value))
    assert text.startswith(b"b: ")
    assert yaml_documents.read(text) == (value, [])
