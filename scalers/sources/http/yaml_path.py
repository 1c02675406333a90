"""One scalar of a YAML document, found among its events: nothing is made of the rest of the document."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml

from scalers.sources.http.json_path import MISSING

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: The deepest nesting. libyaml's time for each level grows with their number.
_DEEPEST = 200
#: The longest text that is read as a number. The time for a number to base 60 grows with the square of its length.
_LONGEST = 1_000


class NotRead(Exception):  # noqa: N818 - what happened
    """The document is YAML of a kind that is not read; the message says which."""


class _NoNumber:
    """The value of a path that leads to a list, a map, or a scalar that its tag does not allow."""


NO_NUMBER: Final = _NoNumber()


def find(body: bytes, path: Sequence[str]) -> Any:
    """Returns the scalar at names and indices, MISSING if nothing is there, NO_NUMBER for what can be no number.

    Raises yaml.YAMLError for a body that is no YAML; NotRead for several documents, deep nesting, and a path that leads
    to or through an alias.
    """
    found: Any = MISSING
    documents = 0
    events = _events(body)
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            found = _at(event, events, path)
            documents += 1
    if documents > 1:
        raise NotRead("there are several documents")
    return found


def _events(body: bytes) -> Iterator[yaml.Event]:
    depth = 0
    for event in yaml.parse(body, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise NotRead(f"it is nested more than {_DEEPEST} levels deep")
        yield event


def _at(event: yaml.Event, events: Iterator[yaml.Event], path: Sequence[str]) -> Any:
    """Returns what is at a path of the node that begins with an event, and takes the node's events."""
    if isinstance(event, yaml.AliasEvent):
        raise NotRead("the path leads to an alias, which is not followed")
    if isinstance(event, yaml.ScalarEvent):
        return MISSING if path else _value(event)
    if not path:
        _skip(event, events)
        return NO_NUMBER
    found: Any = MISSING
    for name, child in _children(event, events):
        # Of several values of one name the last one counts.
        if name == path[0]:
            found = _at(child, events, path[1:])
        else:
            _skip(child, events)
    return found


def _children(event: yaml.Event, events: Iterator[yaml.Event]) -> Iterator[tuple[str | None, yaml.Event]]:
    """Yields the name, or the index, and the first event of each child; the caller takes the child's other events."""
    number = 0
    while not isinstance(child := next(events), yaml.CollectionEndEvent):
        name: str | None = str(number)
        if isinstance(event, yaml.MappingStartEvent):
            name = child.value if isinstance(child, yaml.ScalarEvent) else None
            _skip(child, events)
            child = next(events)
        number += 1
        yield name, child


def _skip(event: yaml.Event, events: Iterator[yaml.Event]) -> None:
    """Takes the events of the node that begins with this one, however deep it is."""
    depth = 0
    while True:
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if not depth:
            return
        event = next(events)


def _value(event: yaml.ScalarEvent) -> Any:
    if len(event.value) > _LONGEST:
        return NO_NUMBER
    loader: Any = yaml.SafeLoader("")
    tag = event.tag
    if tag in (None, "!"):
        tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
    try:
        return loader.construct_object(yaml.ScalarNode(tag, event.value))
    # What the constructors raise for texts that they do not expect, such as a 13th month.
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError):
        return NO_NUMBER
