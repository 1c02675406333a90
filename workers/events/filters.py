"""Conditions on events: the filter dialects of CloudEvents' subscriptions, and CEL.

Comparisons are case-sensitive, as that specification has them; an attribute that is missing matches nothing.
"""

import re
from collections.abc import Iterator

from workers.api.penstock_dev.eventjob import EventFilter
from workers.events import expressions
from workers.events.event_scope import EventScope

_NAME = re.compile(r"[a-z0-9]+")
#: Filters in each other, and conditions in all.
_DEEPEST = 16
_MOST = 256
#: The field of a whole condition.
_FIELD = "spec.filter"


def matches(condition: EventFilter, scope: EventScope, field: str = _FIELD) -> bool:
    """Returns True if the event meets the condition. Raises ExpressionFailed, naming the field."""
    attributes = scope.attributes
    if condition.exact is not None:
        return all(attributes.get(name) == text for name, text in condition.exact.items())
    if condition.prefix is not None:
        return all(name in attributes and attributes[name].startswith(text) for name, text in condition.prefix.items())
    if condition.suffix is not None:
        return all(name in attributes and attributes[name].endswith(text) for name, text in condition.suffix.items())
    if condition.all is not None:
        return all(matches(each, scope, f"{field}.all[{index}]") for index, each in enumerate(condition.all))
    if condition.any is not None:
        return any(matches(each, scope, f"{field}.any[{index}]") for index, each in enumerate(condition.any))
    if condition.not_ is not None:
        return not matches(condition.not_, scope, f"{field}.not")
    return expressions.truth(condition.cel or "", scope, f"{field}.cel")


def problems(condition: EventFilter) -> Iterator[tuple[str, str]]:
    """Yields field and problem of every part that can never be evaluated."""
    parts = list(_parts(condition, _FIELD, 1))
    if len(parts) > _MOST:
        yield _FIELD, f"has more than {_MOST} conditions"
    if any(depth > _DEEPEST for _, _, depth in parts):
        yield _FIELD, f"is nested deeper than {_DEEPEST} levels"
        return
    for each, place, _ in parts:
        for name, texts in (("exact", each.exact), ("prefix", each.prefix), ("suffix", each.suffix)):
            for attribute, text in (texts or {}).items():
                if not _NAME.fullmatch(attribute) or attribute == "data":
                    yield f"{place}.{name}", f"{attribute!r} is no attribute: lower-case letters and digits are"
                elif not text:
                    yield f"{place}.{name}.{attribute}", "must not be empty"
        if each.cel and (problem := expressions.check(each.cel)):
            yield f"{place}.cel", problem


def _parts(condition: EventFilter, field: str, depth: int) -> Iterator[tuple[EventFilter, str, int]]:
    yield condition, field, depth
    for name, each in (("all", condition.all or ()), ("any", condition.any or ())):
        for index, inner in enumerate(each):
            yield from _parts(inner, f"{field}.{name}[{index}]", depth + 1)
    if condition.not_ is not None:
        yield from _parts(condition.not_, f"{field}.not", depth + 1)
