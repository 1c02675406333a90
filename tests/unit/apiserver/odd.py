"""Values that nobody expects, and documents that have them somewhere."""

import copy
from collections.abc import Iterator
from typing import Any

from workers.api.kinds import Object

ODD: list[Any] = [
    *(None, True, False, 0, -1, 2**31 - 1, 2**31, -(2**63), 2**63, 10**40, 0.5, float(2**70)),
    *(
        "",
        " ",
        "x" * 300,
        "\x00",
        "ß",
        "-1",
        "1-",
        "0-2147483646",
        ",",
        "TZ=Local * * * * *",
        "@every 1h",
        "2026-01-01",
    ),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {}}, [1, 1], ["a", "a"]),
]


def places(body: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a document."""
    if at:
        yield at
    for key, value in body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ():
        yield from places(value, (*at, key))


def mutated(body: Object, changes: list[tuple[tuple[Any, ...], Any]]) -> Object:
    """A copy with other values at some paths, as far as these still exist."""
    result: Any = copy.deepcopy(body)
    for path, value in changes:
        target = result
        try:
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue
    return dict(result)
