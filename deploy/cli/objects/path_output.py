"""Outputs of ``penstock get`` by JSONPath: templates, custom columns and an order of objects, as kubectl has them.

A template is text with actions in braces: a path prints what it finds, ``{"\\n"}`` a text with escapes, and
``{range .items[*]}`` ... ``{end}`` its content for every value.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.local.apiserver.printers import jsonpath
from workers.api.kinds import Object
from workers.errors import UserError

NONE = "<none>"


@dataclass(frozen=True, slots=True)
class _Range:
    path: jsonpath.Path
    content: "tuple[_Part, ...]"


#: A text, a path, or a range.
_Part = str | jsonpath.Path | _Range


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template of ``-o jsonpath=...``."""

    parts: tuple[_Part, ...]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Raises UserError that names the action which cannot be understood."""
        if not text:
            raise UserError("-o jsonpath: a template is missing, as in -o jsonpath='{.metadata.name}'")
        # Every range that is open has its path and the parts so far.
        opened: list[tuple[jsonpath.Path | None, list[_Part]]] = [(None, [])]
        for action, literal in _actions(text):
            parts = opened[-1][1]
            if literal:
                parts.append(action)
            elif action == "end":
                path, content = opened.pop()
                if path is None:
                    raise UserError("-o jsonpath: {end} without a {range}")
                opened[-1][1].append(_Range(path, tuple(content)))
            elif action.startswith("range "):
                opened.append((_path(action.removeprefix("range ")), []))
            else:
                parts.append(_path(action))
        if len(opened) > 1:
            raise UserError("-o jsonpath: a {range} has no {end}")
        return cls(tuple(opened[0][1]))

    def render(self, body: Object) -> str:
        """Returns the text for an object or a List. Raises UserError for an index that its list has not."""
        try:
            return "".join(_rendered(self.parts, body, body))
        except jsonpath.OutOfRange as error:
            raise UserError(f"-o jsonpath: {error}") from error


#: Text outside of braces, or one action. Braces within quotation marks belong to the action.
_TOKEN = re.compile(r"""(?P<text>[^{]+)|\{(?P<action>(?:[^{}'"]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")*)\}""")


def _actions(text: str) -> Iterator[tuple[str, bool]]:
    """Yields the template's texts and actions, and whether it is a text."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise UserError(f"-o jsonpath: {text[at:]}: a brace or quotation mark is not closed")
        at = found.end()
        action = (found["action"] or "").strip()
        if found["text"] is not None:
            yield found["text"], True
        elif action[:1] in ("'", '"') and action[-1] == action[0]:
            yield _unquoted(action), True
        else:
            yield action, False


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])


def _path(action: str) -> jsonpath.Path:
    text = action.strip()
    try:
        # Words that are no path are those of other languages, such as `if`.
        if text[:1] not in (".", "[", "@", "$"):
            raise ValueError("a path begins with a dot")
        return jsonpath.parse(text)
    except ValueError as error:
        raise UserError(f"-o jsonpath: {{{text}}} cannot be understood: {error}") from error


def _rendered(parts: Sequence[_Part], body: Any, document: Any) -> Iterator[str]:
    for part in parts:
        match part:
            case str():
                yield part
            case jsonpath.Path():
                yield " ".join(map(_text, jsonpath.values(part, body, document)))
            case _Range(path, content):
                for each in jsonpath.values(path, body, document):
                    yield from _rendered(content, each, document)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of ``-o custom-columns=TITLE:PATH,...``."""

    titles: tuple[str, ...]
    paths: tuple[jsonpath.Path, ...]

    @classmethod
    def parse(cls, text: str) -> "Columns":
        """Raises UserError that names the column which cannot be understood."""
        titles, paths = [], []
        for part in text.split(","):
            title, colon, path = part.partition(":")
            if not (title and colon and path):
                raise UserError(f"-o custom-columns: {part!r}: TITLE:PATH is needed, as in NAME:.metadata.name")
            try:
                paths.append(jsonpath.parse(path))
            except ValueError as error:
                raise UserError(f"-o custom-columns: {title}: {error}") from error
            titles.append(title)
        return cls(tuple(titles), tuple(paths))

    def row(self, body: Object) -> list[str]:
        """Returns the cells of an object: values joined by commas, ``<none>`` where there is none."""
        return [self._cell(path, body) for path in self.paths]

    @staticmethod
    def _cell(path: jsonpath.Path, body: Object) -> str:
        try:
            found = jsonpath.values(path, body)
        except jsonpath.OutOfRange:
            found = []
        return ",".join(_text(value).replace("\n", " ") for value in found if value is not None) or NONE


@dataclass(frozen=True, slots=True)
class Order:
    """The order of ``--sort-by PATH``."""

    path: jsonpath.Path
    text: str

    @classmethod
    def parse(cls, text: str) -> "Order":
        """Raises UserError for what is no path."""
        try:
            return cls(jsonpath.parse(text), text)
        except ValueError as error:
            raise UserError(f"--sort-by: {error}") from error

    def key(self, body: Object) -> tuple[int, Any]:
        """Returns an object's sort key: nothing, then truth values, numbers, and texts with their numbers by size."""
        try:
            value = next(iter(jsonpath.values(self.path, body)), None)
        except jsonpath.OutOfRange:
            value = None
        if value is None:
            return 0, ()
        if isinstance(value, int | float):
            return 1 if isinstance(value, bool) else 2, value
        return 3, [(not part.isdecimal(), int(part) if part.isdecimal() else part) for part in _runs(_text(value))]

    def check(self, bodies: Sequence[Object]) -> None:
        """Raises UserError where no object has the field: it is misspelt, more often than not."""
        if bodies and all(self.key(body)[0] == 0 for body in bodies):
            raise UserError(f"--sort-by: no object has the field {self.text}")


def _runs(text: str) -> list[str]:
    """Returns the parts of a text that are digits, and those between them."""
    return [part for part in re.split(r"([0-9]+)", text) if part]
