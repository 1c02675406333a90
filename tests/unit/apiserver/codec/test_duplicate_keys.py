"""Keys that are repeated are found where they are."""

import orjson

from deploy.local.apiserver.codec import duplicate_keys
from tests.unit.tables import cases


@cases(
    ("text", "found"),
    {
        "none": ('{"a":1,"b":[{"c":1}]}', []),
        "none, written differently": (' {"a": 1, "b": "\\u003c"}\n', []),
        "at the top": ('{"a":1,"a":1}', ["a"]),
        "inside": ('{"a":{"b":[{},{"c":1,"d":2,"c":3}]},"e":1,"e":2,"e":3}', ["e", "e", "a.b[1].c"]),
        "inside what is lost": ('{"a":{"x":1,"x":2},"a":{"y":1}}', ["a"]),
        "in two objects": ('{"a":{"b":1},"c":{"b":1}}', []),
        "a list": ('[{"a":1,"a":2}]', ["[0].a"]),
    },
)
def test_in_json(text: str, found: list[str]) -> None:
    said = duplicate_keys.in_json(text.encode(), orjson.loads(text))
    assert said == [f'duplicate field "{path}"' for path in found]


@cases(
    ("text", "found"),
    {
        "none": ("a: 1\nb: {c: 1}\n", []),
        "at the top": ("a: 1\na: 2\n", [(2, "a")]),
        "inside": ("a:\n- b: 1\n  b: 2\nc: 1\nc: 1\n", [(3, "b"), (5, "c")]),
        "once for all aliases": ("a: &x {b: 1, b: 2}\nc: *x\n", [(1, "b")]),
        "what is merged is no repetition": ("a: &x {b: 1}\nc:\n  <<: *x\n  b: 2\n", []),
        "nothing": ("", []),
        "a scalar": ("null\n...\n", []),
    },
)
def test_in_yaml(text: str, found: list[tuple[int, str]]) -> None:
    assert duplicate_keys.in_yaml(text.encode()) == [
        f'line {line}: key "{key}" already set in map' for line, key in found
    ]


def test_an_alias_of_its_own_node_is_visited_once() -> None:
    assert duplicate_keys.in_yaml(b"&x [*x, {a: 1, a: 2}]") == ['line 1: key "a" already set in map']
