"""Paths into JSON documents, in the part of gjson's dialect that docs/json-paths.md describes."""

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final


class _Missing:
    """The value of a path that leads nowhere."""


MISSING: Final = _Missing()

_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: Wildcards of a pattern, whose other parts are single characters.
_ANY, _ONE = "any text", "any character"
#: Each of them may look at every element of what the one before found.
_MOST_LISTS = 16
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_OPERATOR = re.compile(r"==|!=|<=|>=|!%|=|<|>|%")
_REFUSED = {
    "@": "modifiers such as @this are not supported",
    "[": "multipaths such as [a,b] are not supported",
    "{": "multipaths such as {a,b} are not supported",
    "!": "literals are not supported",
}


@dataclass(frozen=True, slots=True)
class _Member:
    """name: its characters and wildcards."""

    name: tuple[str, ...]

    @property
    def exactly(self) -> str | None:
        """The name, if there is no wildcard in it."""
        return None if _ANY in self.name or _ONE in self.name else "".join(self.name)


@dataclass(frozen=True, slots=True)
class _Where:
    """A condition on an element. path: of what is compared, or none for the element itself. operator "": it exists."""

    path: "Path"
    operator: str
    value: Any


@dataclass(frozen=True, slots=True)
class _First:
    where: _Where


@dataclass(frozen=True, slots=True)
class _All:
    """where: None for every element."""

    where: _Where | None


@dataclass(frozen=True, slots=True)
class _Step:
    """One part of a path. piped: it stands behind a `|`."""

    part: _Member | _First | _All
    piped: bool


Path = tuple[_Step, ...]


@lru_cache(maxsize=1024)
def parse(text: str) -> Path:
    """The steps of a path. Raises ValueError that says what in it is not supported."""
    if not text:
        raise ValueError("must not be empty")
    if text.count("#") > _MOST_LISTS:
        raise ValueError(f"has more than {_MOST_LISTS} lists in it")
    steps: list[_Step] = []
    at, piped = 0, False
    while True:
        part, at = _part(text, at)
        steps.append(_Step(part, piped))
        if at == len(text):
            return tuple(steps)
        piped = text[at] == "|"
        at += 1


def find(document: Any, path: Path) -> Any:
    """The value at a path of a document, MISSING if there is none."""
    for index, step in enumerate(path):
        part = step.part
        if isinstance(part, _All):
            return _all(document, part, path[index + 1 :])
        if isinstance(part, _First):
            elements = document if isinstance(document, list) else ()
            document = next((element for element in elements if _holds(part.where, element)), MISSING)
        else:
            document = _member(document, part)
        if document is MISSING:
            break
    return document


def _all(document: Any, part: _All, rest: Path) -> Any:
    if not isinstance(document, list):
        return MISSING
    if part.where is None and not rest:
        return len(document)
    elements = [element for element in document if part.where is None or _holds(part.where, element)]
    each = next((index for index, step in enumerate(rest) if step.piped), len(rest))
    found = [find(element, rest[:each]) for element in elements]
    return find([value for value in found if value is not MISSING], rest[each:])


def _member(document: Any, part: _Member) -> Any:
    name = part.exactly
    if isinstance(document, dict):
        if name is not None:
            return document.get(name, MISSING)
        return next((value for each, value in document.items() if _fits(each, part.name)), MISSING)
    if isinstance(document, list) and name and _INDEX.fullmatch(name) and int(name) < len(document):
        return document[int(name)]
    return MISSING


def _holds(where: _Where, element: Any) -> bool:
    value = find(element, where.path)
    if value is MISSING or not where.operator:
        return value is not MISSING
    if where.operator in ("%", "!%"):
        fits = isinstance(value, str) and _fits(value, where.value)
        return fits == (where.operator == "%")
    same = _kind(value) is _kind(where.value)
    if where.operator in ("==", "!="):
        return (same and value == where.value) == (where.operator == "==")
    return same and _kind(value) in (str, float) and _ORDERED[where.operator](value, where.value)


def _kind(value: Any) -> type:
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


def _part(text: str, at: int) -> tuple[_Member | _First | _All, int]:
    """The part that begins at a place, and the place behind it."""
    if text[at : at + 2] == "#(":
        end = _closing(text, at + 1)
        where, behind = _where(text[at + 2 : end]), end + 1
        every = text[behind : behind + 1] == "#"
        behind += every
        if behind < len(text) and text[behind] not in ".|":
            raise ValueError(f"{text[behind:]} behind a condition is not supported")
        return (_All(where) if every else _First(where)), behind
    if refused := _REFUSED.get(text[at : at + 1]):
        raise ValueError(refused)
    end = at
    while end < len(text) and text[end] not in ".|":
        end += 2 if text[end] == "\\" else 1
    if end == at:
        raise ValueError("has a dot or a pipe with no name beside it")
    if text[at:end] == "#":
        return _All(None), end
    return _Member(_pattern(text[at:end])), min(end, len(text))


def _pattern(text: str) -> tuple[str, ...]:
    """The characters and wildcards of a name or text; a backslash takes the meaning of the character behind it."""
    parts = re.findall(r"\\?[\s\S]", text)
    return tuple({"*": _ANY, "?": _ONE}.get(part, part[-1]) for part in parts)


def _fits(text: str, pattern: tuple[str, ...]) -> bool:
    """Returns whether the pattern matches a text. It takes no more steps than the product of both lengths."""
    at = place = 0
    star, tried = -1, 0
    while at < len(text):
        if place < len(pattern) and pattern[place] in (text[at], _ONE):
            at, place = at + 1, place + 1
        elif place < len(pattern) and pattern[place] == _ANY:
            star, tried = place, at
            place += 1
        elif star >= 0:
            # The last wildcard takes one character more.
            tried += 1
            at, place = tried, star + 1
        else:
            return False
    return all(part == _ANY for part in pattern[place:])


def _closing(text: str, opening: int) -> int:
    """The place of the bracket that closes the one at a place; texts in quotation marks are passed over."""
    depth, quoted, at = 0, False, opening
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == '"':
            quoted = not quoted
        elif not quoted:
            depth += (text[at] == "(") - (text[at] == ")")
            if not depth:
                return at
        at += 1
    raise ValueError("has a condition without an end")


def _where(text: str) -> _Where:
    """The condition between the brackets of `#(…)`."""
    at = 0
    while at < len(text):
        if text[at] == "(":
            at = _closing(text, at)
        elif text[at] == "\\":
            at += 1
        elif text[at] == "~":
            raise ValueError("the operator ~ is not supported")
        elif found := _OPERATOR.match(text, at):
            name = "==" if found[0] == "=" else found[0]
            return _Where(_inner(text[:at]), name, _value(text[found.end() :], name))
        at += 1
    return _Where(_inner(text), "", None)


def _inner(text: str) -> Path:
    return parse(text.strip()) if text.strip() else ()


def _value(text: str, name: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = MISSING
    if value is MISSING or isinstance(value, list | dict):
        raise ValueError(f"{text.strip()} must be a number, true, false, null, or a text in quotation marks")
    if name in ("%", "!%") and not isinstance(value, str):
        raise ValueError(f"{text.strip()} must be a pattern in quotation marks")
    return _pattern(value) if name in ("%", "!%") else value
