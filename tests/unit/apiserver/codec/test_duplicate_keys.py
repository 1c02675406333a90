"""Keys that are repeated are found where they are."""

import orjson

from deploy.local.apiserver.codec import duplicate_keys
from tests.support.tables import cases


@cases(
    ("none", '{"a":1,"b":[{"c":1}]}', []),
    ("none, written differently", ' {"a": 1, "b": "\\u003c"}\n', []),
    ("at the top", '{"a":1,"a":1}', ["a"]),
    ("inside", '{"a":{"b":[{},{"c":1,"d":2,"c":3}]},"e":1,"e":2,"e":3}', ["e", "e", "a.b[1].c"]),
    ("inside what is lost", '{"a":{"x":1,"x":2},"a":{"y":1}}', ["a"]),
    ("in two objects", '{"a":{"b":1},"c":{"b":1}}', []),
    ("a list", '[{"a":1,"a":2}]', ["[0].a"]),
)
def test_in_json(text: str, found: list[str]) -> None:
    said = duplicate_keys.in_json(text.encode(), orjson.loads(text))
    assert said == [f'duplicate field "{path}"' for path in found]
