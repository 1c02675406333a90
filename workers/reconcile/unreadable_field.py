"""The field for which an object cannot be decided on: no schema refused it, or an older one did not. Pure."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from workers.api.kinds import Object

#: Parts of an object that are left out at most.
MOST = 2000

_Path = tuple[str | int, ...]

#: Fields without which an object is none.
_IDENTITY = {"apiVersion", "kind", "metadata"}


def find(body: Object, decide: Callable[[Object], object]) -> str:
    """Returns the path of the smallest part without which `decide` raises nothing, as ``spec.triggers[0].type``.

    It is empty if there is none: then the object is not to blame, or for more than one field. decide: is called once
    for each part that is left out, at most `MOST` times.
    """
    parts = sorted(islice(_parts(body), MOST), key=len, reverse=True)
    return _text(next((path for path in parts if _decides(decide, _without(body, path))), ()))


def _decides(decide: Callable[[Object], object], body: Object) -> bool:
    try:
        decide(body)
    except Exception:
        return False
    return True


def _parts(body: Object) -> Iterator[_Path]:
    for name, value in body.items():
        if name not in _IDENTITY:
            yield from _inner((name,), value)
    for name in ("annotations", "labels"):
        if name in body["metadata"]:
            yield from _inner(("metadata", name), body["metadata"][name])


def _inner(path: _Path, value: Any) -> Iterator[_Path]:
    yield path
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        yield from _inner((*path, step), each)


def _without(node: Any, path: _Path) -> Any:
    first, *rest = path
    if isinstance(node, dict):
        if not rest:
            return {name: value for name, value in node.items() if name != first}
        return {name: _without(value, tuple(rest)) if name == first else value for name, value in node.items()}
    if not rest:
        return [value for place, value in enumerate(node) if place != first]
    return [_without(value, tuple(rest)) if place == first else value for place, value in enumerate(node)]


def _text(path: _Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
