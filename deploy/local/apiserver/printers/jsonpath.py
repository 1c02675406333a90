"""JSONPath as Kubernetes' tools write it, for printer columns and for ``penstock get``.

The steps of a path: ``.name``, ``['name']``, ``[0]``, ``[-1]``, ``[1:3]``, ``[*]``, ``..name``, ``['a','b']``,
``[0,2]`` and ``[?(@.type=="Ready")]``. A backslash takes the meaning of the dot behind it. As in client-go a name in
brackets is a path of members: a dot in it needs a backslash, too.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


class OutOfRange(ValueError):  # noqa: N818 - what happened
    """A list has no element of the index."""


@dataclass(frozen=True, slots=True)
class _Member:
    name: str


@dataclass(frozen=True, slots=True)
class _Index:
    place: int


@dataclass(frozen=True, slots=True)
class _Slice:
    part: slice


@dataclass(frozen=True, slots=True)
class _All:
    pass


@dataclass(frozen=True, slots=True)
class _Below:
    """The value itself and all values in it, in document order."""


@dataclass(frozen=True, slots=True)
class _Union:
    paths: "tuple[Path, ...]"


@dataclass(frozen=True, slots=True)
class _Where:
    """A condition on an element. operator "": the left path leads somewhere. right: a path, or a constant."""

    left: "Path"
    operator: str
    right: Any


_Single = _Member | _Index | _Slice | _All | _Below | _Where
_Step = _Single | _Union


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path. whole: it begins at the document, by ``$``, and not at the value in hand."""

    steps: tuple[_Step, ...]
    whole: bool = False


_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NAME = re.compile(r"(?:\\.|[^\s.,\[\]{}()'\"$@=<>!\\])+")
_INDEX = re.compile(r"-?\d+")
_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?(?::(-?\d+))?")
_OPERATOR = re.compile(r"\s*(==|!=|<=|>=|<|>)\s*")
_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}


def find(text: str, body: Any) -> list[Any]:
    """Returns the values at a path, in order; none when the path leads nowhere or cannot be understood."""
    try:
        return values(parse(text), body)
    except ValueError:
        return []


@lru_cache(maxsize=1024)
def parse(text: str) -> Path:
    """Returns the path of a text, with or without braces around it and a dot in front. Raises ValueError."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    if inner[:1] not in (".", "[", "$", "@"):
        inner = f".{inner}"
    path, end = read(inner, 0)
    if end < len(inner):
        raise ValueError(f"{text}: {inner[end:]} cannot be understood")
    return path


def read(text: str, at: int) -> tuple[Path, int]:
    """Returns the path that begins at a place of the text, and the place behind it. Raises ValueError."""
    whole = text[at : at + 1] == "$"
    at += text[at : at + 1] in ("$", "@")
    steps: list[_Step] = []
    while at < len(text) and text[at] in ".[":
        if text[at] == "[":
            end = _closing(text, at)
            steps += _bracket(text[at + 1 : end].strip())
            at = end + 1
            continue
        if text.startswith("..", at):
            steps.append(_Below())
            at += 1
        at += 1
        if at < len(text) and text[at] == "*":
            steps.append(_All())
            at += 1
        elif name := _NAME.match(text, at):
            steps.append(_Member(re.sub(r"\\(.)", r"\1", name[0])))
            at = name.end()
        elif steps and isinstance(steps[-1], _Below) and text[at : at + 1] == "[":
            continue
        elif at < len(text) and text[at] in ".[":
            raise ValueError(f"{text}: a name is missing behind a dot")
    return Path(tuple(steps), whole), at


def _closing(text: str, opening: int) -> int:
    """Returns the place of the bracket that closes the one at a place; quoted texts are passed over."""
    depth, quote = 0, ""
    for at in range(opening, len(text)):
        if quote:
            quote = "" if text[at] == quote and text[at - 1] != "\\" else quote
        elif text[at] in "'\"":
            quote = text[at]
        else:
            depth += (text[at] == "[") - (text[at] == "]")
            if not depth:
                return at
    raise ValueError(f"{text}: a bracket is not closed")


def _bracket(text: str) -> tuple[_Step, ...]:
    if text.startswith("?(") and text.endswith(")"):
        return (_condition(text[2:-1].strip()),)
    parts = _parts(text)
    if len(parts) > 1:
        return (_Union(tuple(Path(_bracket(part)) for part in parts)),)
    if text == "*":
        return (_All(),)
    if _INDEX.fullmatch(text):
        return (_Index(int(text)),)
    if found := _SLICE.fullmatch(text):
        start, stop, step = (int(part) if part else None for part in found.groups())
        if step == 0:
            raise ValueError(f"[{text}]: the step must not be 0")
        return (_Slice(slice(start, stop, step)),)
    if len(text) > 2 and text[0] in "'\"" and text[-1] == text[0]:
        return parse(f".{text[1:-1]}").steps
    raise ValueError(f"[{text}] cannot be understood")


def _parts(text: str) -> list[str]:
    """Returns the parts between commas that are not in quotation marks."""
    return [part.strip() for part in re.findall(r"""(?:[^,'"]|'[^']*'|"[^"]*")+""", text)]


def _condition(text: str) -> _Where:
    left, at = read(text, 0)
    found = _OPERATOR.match(text, at)
    if not left.steps and not text.startswith(("@", "$")):
        raise ValueError(f"?({text}): a condition begins with @")
    if found is None:
        if text[at:].strip():
            raise ValueError(f"?({text}): {text[at:].strip()} cannot be understood")
        return _Where(left, "", None)
    return _Where(left, found[1], _operand(text[found.end() :].strip()))


def _operand(text: str) -> Any:
    if text[:1] in ("@", "$"):
        return parse(text)
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1].replace(f"\\{text[0]}", text[0])
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        return json.loads(text)
    except ValueError:
        if not re.fullmatch(r"[\w.-]+", text):
            raise ValueError(f"{text or 'nothing'} is no text in quotation marks, number or path") from None
        return text


def values(path: Path, body: Any, document: Any = None) -> list[Any]:
    """Returns the values at a path, in order. document: that of ``$``, if it is not the body. Raises OutOfRange."""
    document = body if document is None else document
    found = [document if path.whole else body]
    for step in path.steps:
        if isinstance(step, _Union):
            # As in client-go: what the first path finds in all values, then what the second one does.
            found = [each for part in step.paths for value in found for each in values(part, value, document)]
        else:
            found = [each for value in found for each in _apply(step, value, document)]
    return found


def _apply(step: _Single, value: Any, document: Any) -> Iterator[Any]:
    match step:
        case _Member(name):
            if isinstance(value, dict) and name in value:
                yield value[name]
        case _All():
            yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        case _Below():
            yield value
            for each in _apply(_All(), value, document):
                yield from _apply(step, each, document)
        case _Index(place) if isinstance(value, list):
            if not -len(value) <= place < len(value):
                raise OutOfRange(f"there is no element {place} in a list of {len(value)}")
            yield value[place]
        case _Slice(part) if isinstance(value, list):
            yield from value[part]
        case _Where() if isinstance(value, list):
            yield from (each for each in value if _holds(step, each, document))


def _holds(where: _Where, element: Any, document: Any) -> bool:
    lefts = values(where.left, element, document)
    if not where.operator:
        return bool(lefts)
    rights = values(where.right, element, document) if isinstance(where.right, Path) else [where.right]
    return any(_compared(left, where.operator, right) for left in lefts for right in rights)


def _compared(left: Any, sign: str, right: Any) -> bool:
    alike = _kind(left) is _kind(right)
    if sign in ("==", "!="):
        return (alike and left == right) == (sign == "==")
    return alike and _kind(left) in (str, float) and _ORDERED[sign](left, right)


def _kind(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
