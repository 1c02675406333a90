"""The field for which an object cannot be decided on: no schema refused it, or an older one did not. Pure."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from typing import Any

from workers.api.kinds import Object

#: Parts of an object that are left out at most.
MOST = 2000

_Path = tuple[str | int, ...]

#: Fields without which an object is none.
_IDENTITY = {"apiVersion", "kind", "metadata"}
#: Stands for a part that is left out.
_ABSENT = object()
#: Values that most fields of their type may have.
_OTHERS: tuple[Any, ...] = (1, "1", "2026-01-01T00:00:00Z", True, [], {})


def find(body: Object, decide: Callable[[Object], object], goes_on: Callable[[], bool] = lambda: True) -> str:
    """Returns the path of the smallest part that is to blame, as ``spec.triggers[0].type``.

    `decide` raises nothing without it, nor with another value in its place; if no part is like that, it is the smallest
    one without which it raises nothing. It is empty if there is none: then the object is not to blame, or for more than
    one field. decide: is called once for each part that is left out, at most `MOST` times, and then for each of
    `_OTHERS`. goes_on: the search ends with what it has once this returns False.
    """
    parts = sorted(islice(_parts(body), MOST), key=lambda part: len(part[0]), reverse=True)
    first: _Path = ()
    for path, value in takewhile(lambda _: goes_on(), parts):
        if not _decides(decide, _replaced(body, path, _ABSENT)):
            continue
        # Without a part that must be there, a decision may end before it comes to the fault.
        others = takewhile(lambda _: goes_on(), _others(value))
        if any(_decides(decide, _replaced(body, path, other)) for other in others):
            return _text(path)
        first = first or path
    return _text(first)


def _decides(decide: Callable[[Object], object], body: Object) -> bool:
    try:
        decide(body)
    except Exception:
        return False
    return True


def _others(value: Any) -> Iterator[Any]:
    """Yields other values for a part; none that only leaves out what is in it."""
    filled = isinstance(value, dict | list)
    yield from (other for other in _OTHERS if not (filled and isinstance(other, dict | list)))


def _parts(body: Object) -> Iterator[tuple[_Path, Any]]:
    for name, value in body.items():
        if name not in _IDENTITY:
            yield from _inner((name,), value)
    for name in ("annotations", "labels"):
        if name in body["metadata"]:
            yield from _inner(("metadata", name), body["metadata"][name])


def _inner(path: _Path, value: Any) -> Iterator[tuple[_Path, Any]]:
    yield path, value
    if isinstance(value, dict | list):
        for step, each in _steps(value):
            yield from _inner((*path, step), each)


def _steps(node: Any) -> Iterable[tuple[str | int, Any]]:
    steps: Iterable[tuple[str | int, Any]] = node.items() if isinstance(node, dict) else enumerate(node)
    return steps


def _replaced(node: Any, path: _Path, value: Any) -> Any:
    """Returns the node with this value at the path; without that part for `_ABSENT`."""
    first, rest = path[0], path[1:]
    changed = [
        (step, each if step != first else _replaced(each, rest, value) if rest else value)
        for step, each in _steps(node)
    ]
    kept = [(step, each) for step, each in changed if each is not _ABSENT]
    return dict(kept) if isinstance(node, dict) else [each for _, each in kept]


def _text(path: _Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
