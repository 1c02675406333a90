"""Substitutions: `$(event.<path>)` in the texts of a Job's template, replaced by what the event has there.

A path begins with an attribute or with `data`; behind `data` come names and places: `$(event.data.items[0].sku)`.
`$(event.subject:-none)` has a default for what is missing. `$$(event.id)` stands for the text `$(event.id)`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from workers.errors import PenstockError, UserError
from workers.events.event_scope import EventScope, as_json

#: Bytes of the longest text that a substitution makes: Linux starts no process with an argument beyond 128 KiB.
LONGEST = 100_000

_PATH = re.compile(r"event((?:\.[A-Za-z0-9_-]+|\[[0-9]{1,9}\])+)(?::-([^)]*))?", re.ASCII)
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[([0-9]+)\]", re.ASCII)
_BEGINNING = "$(event"
_MISSING = object()

#: expanded: Kubernetes expands `$(NAME)` in the text, and reads `$$` as `$`. verbatim: it takes the text as it is.
Syntax = Literal["expanded", "verbatim"]


class SubstitutionFailed(PenstockError):  # noqa: N818 - says what happened
    """The event has nothing for a substitution, or something that its place cannot hold. The text names both."""


@dataclass(frozen=True, slots=True)
class Substitution:
    """One reference to the event. path: for people. steps: names and places. default: for what is missing."""

    path: str
    steps: tuple[str | int, ...]
    default: str | None

    def text(self, scope: EventScope) -> str:
        """Returns the event's text: texts as they are, everything else as JSON. Raises SubstitutionFailed."""
        found = self._find(scope)
        if found is _MISSING:
            if self.default is None:
                raise SubstitutionFailed(f"$({self.path}): the event has none")
            return self.default
        if isinstance(found, bytes):
            raise SubstitutionFailed(f"$({self.path}): the event's data are bytes that are no text")
        text = found if isinstance(found, str) else as_json(found)
        if "\0" in text:
            raise SubstitutionFailed(f"$({self.path}): the event has a NUL there, which no process can be given")
        if len(text.encode()) > LONGEST:
            raise SubstitutionFailed(f"$({self.path}): the event has more than {LONGEST} bytes there")
        return text

    def _find(self, scope: EventScope) -> Any:
        first, *rest = self.steps
        if first != "data":
            return scope.attributes.get(str(first), _MISSING)
        found = scope.exact_data if scope.has_data else _MISSING
        for step in rest:
            if isinstance(step, int):
                found = found[step] if isinstance(found, list) and step < len(found) else _MISSING
            else:
                found = found.get(step, _MISSING) if isinstance(found, dict) else _MISSING
        return found


#: A text of a template: what stays, and references.
Parts = tuple[str | Substitution, ...]


def parse(text: str, syntax: Syntax) -> Parts:
    """Returns the parts of a text. Raises UserError for a malformed reference."""
    return tuple(_parts(text, syntax))


def references(text: object) -> bool:
    """Returns True if this is a text that may refer to the event."""
    return isinstance(text, str) and _BEGINNING in text


def render(parts: Parts, scope: EventScope, syntax: Syntax) -> str:
    """Returns the text for an event, so that Kubernetes expands nothing of it. Raises SubstitutionFailed."""
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        else:
            found = part.text(scope)
            texts.append(found.replace("$", "$$") if syntax == "expanded" else found)
    return "".join(texts)


def variables(text: str) -> Iterator[str]:
    """Yields the names of the variables that Kubernetes expands in a text, those of the event left out."""
    place = 0
    while 0 <= (place := text.find("$", place)) < len(text) - 1:
        end = text.find(")", place)
        if text[place + 1] == "(" and end > 0:
            name = text[place + 2 : end]
            if not name.startswith("event."):
                yield name
            place = end + 1
        else:
            place += 2


def _parts(text: str, syntax: Syntax) -> Iterator[str | Substitution]:
    """Yields the parts, reading `$` as Kubernetes does: `$$` stands for itself, `$(` lasts to the next `)`."""
    kept, place = 0, 0
    while (place := text.find("$", place)) >= 0:
        following = text[place + 1 : place + 2]
        if following == "$":
            if syntax == "verbatim" and text.startswith(_BEGINNING, place + 1):
                yield text[kept:place]
                kept = place + 1
            place += 2
            continue
        if following != "(":
            place += 1
            continue
        if (end := text.find(")", place)) < 0:
            end = len(text)
        inside = text[place + 2 : end]
        if _BEGINNING in inside:
            raise UserError(f"{text[place:][:60]!r}: a reference may not stand in another one, or behind an open $(")
        if inside.startswith("event.") or inside.startswith("event["):
            if end == len(text):
                raise UserError(f"{text[place:][:60]!r} has no closing bracket")
            yield text[kept:place]
            yield _substitution(inside)
            kept = end + 1
        place = end + 1
    yield text[kept:]


def _substitution(inside: str) -> Substitution:
    match = _PATH.fullmatch(inside)
    if match is None:
        raise UserError(f"$({inside}) is malformed; an example is $(event.data.items[0].sku)")
    steps = tuple(name or int(index) for name, index in _STEP.findall(match[1]))
    if not isinstance(steps[0], str) or (steps[0] != "data" and len(steps) > 1):
        raise UserError(f"$({inside}): only data has parts")
    if not re.fullmatch(r"[a-z0-9]+", steps[0]):
        raise UserError(f"$({inside}): attribute names are lower-case letters and digits")
    default = match[2]
    if default is not None and "$" in default:
        raise UserError(f"$({inside}): a default may not have a $")
    return Substitution(inside.partition(":-")[0], steps, default)
