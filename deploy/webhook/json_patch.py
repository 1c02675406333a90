"""JSON patches (RFC 6902) from the difference of two documents."""

from collections.abc import Iterator
from typing import Any

Operation = dict[str, Any]


def patch(old: Any, new: Any, path: str = "") -> list[Operation]:
    """Returns the operations from `old` to `new`, in order. Lists of different length are replaced as a whole."""
    return list(_changes(old, new, path))


def _changes(old: Any, new: Any, path: str) -> Iterator[Operation]:
    # Containers are compared entry by entry: to Python [False] and [0] are equal, to JSON they are not.
    if not isinstance(old, dict | list) and type(old) is type(new) and old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
        for key, value in new.items():
            place = f"{path}/{_escaped(key)}"
            if key in old:
                yield from _changes(old[key], value, place)
            else:
                yield {"op": "add", "path": place, "value": value}
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(before, after, f"{path}/{index}")
    else:
        yield {"op": "replace", "path": path, "value": new}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
