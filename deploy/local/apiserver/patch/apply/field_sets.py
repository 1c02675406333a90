"""Sets of fields: as paths, and as the `fieldsV1` of managedFields spell them.

An element of a path is spelled as in `fieldsV1`: ``f:`` and the name of a member, ``k:`` and the keys of an item,
``v:`` and an item of a set; keys and items are JSON.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from workers.api.kinds import Object

Path = tuple[str, ...]
FieldSet = frozenset[Path]

_MEMBER = "."


def field(name: str) -> str:
    """Returns the element for a member of an object."""
    return f"f:{name}"


def item(keys: Mapping[str, Any]) -> str:
    """Returns the element for an item of a list, by its keys."""
    return "k:" + orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()


def value(item: Any) -> str:
    """Returns the element for an item of a set of plain values."""
    return "v:" + orjson.dumps(item).decode()


def prefixes(paths: Iterable[Path]) -> FieldSet:
    """Returns the paths of everything that contains one of these fields, without the object itself."""
    return frozenset(path[:end] for path in paths for end in range(1, len(path)))


def encode(fields: FieldSet) -> Object:
    """Returns the `fieldsV1` of a set."""
    tree: Object = {}
    for path in fields:
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node[_MEMBER] = {}
    return _sorted(tree)


def _sorted(node: Object) -> Object:
    """A tree whose members without anything below are empty, in order."""
    if node.keys() == {_MEMBER}:
        return {}
    return {name: {} if name == _MEMBER else _sorted(node[name]) for name in sorted(node)}


def decode(tree: Any) -> FieldSet:
    """Returns the set of a `fieldsV1`. Raises ValueError for something else."""
    return frozenset(_paths(tree, ()))


def _paths(tree: Any, path: Path) -> Iterator[Path]:
    if not isinstance(tree, dict):
        raise ValueError(f"fieldsV1 has no object at {spelled(path) or '.'}")
    for name, below in tree.items():
        if name == _MEMBER:
            if path:
                yield path
        elif below:
            yield from _paths(below, (*path, _normal(name)))
        else:
            yield (*path, _normal(name))


def _normal(element: str) -> str:
    """An element with its JSON as `item` and `value` write it."""
    match element[:2]:
        case "f:" | "i:":
            return element
        case "k:" if isinstance(keys := orjson.loads(element[2:]), dict):
            return item(keys)
        case "v:":
            return value(orjson.loads(element[2:]))
    raise ValueError(f"{element!r} names no field")


def spelled(path: Path) -> str:
    """Returns a path as messages have it: ``.spec.containers[name="main"].image``."""
    return "".join(map(_spelled, path))


def quoted(text: str) -> str:
    """Returns a text in quotes."""
    return orjson.dumps(text).decode()


def _spelled(element: str) -> str:
    kind, rest = element[:2], element[2:]
    match kind:
        case "f:":
            return f".{rest}"
        case "k:":
            keys = orjson.loads(rest)
            return f"[{','.join(f'{name}={orjson.dumps(key).decode()}' for name, key in keys.items())}]"
        case "v:":
            return f"[={rest}]"
    return f"[{rest}]"
