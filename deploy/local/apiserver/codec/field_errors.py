"""Validation errors of fields, in the words of Kubernetes' API machinery, and rules that make them.

Clients show these texts to people and some match on them, so the wording is part of the protocol.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from workers.api.kinds import Object

#: Stands for a value that a message does not quote: it is long, or the whole object is meant.
OMITTED: Any = object()


@dataclass(frozen=True, slots=True)
class FieldError:
    """One cause of a 422 answer. field: the path of the field. reason: the machine-readable kind of error."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


#: The message of a schema for a value that fits none of several alternatives.
NO_ALTERNATIVE = "must validate at least one schema (anyOf)"


class DecodeError(ValueError):
    """A body that is no object of its kind at all: answered with 400, before any field is judged."""


def shown(value: Any) -> str:
    """A value as error messages quote it: texts in quotes, lists and maps of them in Go's way, the rest as JSON."""
    match value:
        case {} if value and all(isinstance(item, str) for item in value.values()):
            pairs = ", ".join(f"{shown(key)}:{shown(value[key])}" for key in sorted(value))
            return f"map[string]string{{{pairs}}}"
        case [_, *_] if all(isinstance(item, str) for item in value):
            return f"[]string{{{', '.join(map(shown, value))}}}"
        case _:
            try:
                return orjson.dumps(value).decode()
            except TypeError:
                # orjson writes no whole number beyond 64 bits.
                return json.dumps(value)


def required(field: str, detail: str = "") -> FieldError:
    """The field must be there and not empty."""
    return FieldError(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """The value breaks a rule."""
    quoted = "" if value is OMITTED else f"{shown(value)}: "
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {quoted}{detail}")


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """The value is none of the few that are allowed."""
    values = ", ".join(shown(item) for item in supported)
    return FieldError(field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {values}")


def duplicate(field: str, value: Any) -> FieldError:
    """The value is there twice in a list or must be unique otherwise."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    """The field may not be set, or not be changed, here."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def not_found(field: str, value: Any) -> FieldError:
    """The value names something that is not there."""
    return FieldError(field, "FieldValueNotFound", f"Not found: {shown(value)}")


def too_long(field: str, limit: int) -> FieldError:
    """A text of more than `limit` bytes."""
    return FieldError(field, "FieldValueTooLong", f"Too long: must have at most {limit} bytes")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """A list of more than `limit` items."""
    return FieldError(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} items")


NON_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"


def non_negative(field: str, value: Any) -> list[FieldError]:
    """Refuses numbers below zero; an absent number is fine."""
    return [invalid(field, value, NON_NEGATIVE)] if value is not None and value < 0 else []


def immutable(field: str, new: Any, old: Any) -> list[FieldError]:
    """Refuses a new value that differs from the old one."""
    return [] if new == old else [invalid(field, new, IMMUTABLE)]


#: Judges the value of one field, given the field's path and the value (None when it is absent).
Rule = Callable[[str, Any], Iterable[FieldError]]
#: Names everything that is wrong with the form of a text.
TextRule = Callable[[str], Sequence[str]]


def judge(body: Object, path: str, rules: Iterable[tuple[str, Rule]]) -> Iterator[FieldError]:
    """Yields the errors of a table of (field, rule), in the order of the table."""
    for field, rule in rules:
        yield from rule(f"{path}.{field}", body.get(field))


def malformed(field: str, value: str, rule: TextRule) -> list[FieldError]:
    """Refuses a text that does not have this form; the empty text too."""
    return [invalid(field, value, problem) for problem in rule(value)]


def formatted(rule: TextRule) -> Rule:
    """Returns the rule that a text, where there is one, has this form."""
    return lambda field, value: malformed(field, value, rule) if value else ()


def named(rule: TextRule) -> Rule:
    """Returns the rule that there is a text, and that it has this form."""
    return lambda field, value: formatted(rule)(field, value) if value else [required(field)]


def one_of(*allowed: str) -> Rule:
    """Returns the rule that there is a value, and that it is one of these."""

    def rule(field: str, value: Any) -> Iterable[FieldError]:
        if not value:
            return [required(field)]
        return [] if value in allowed else [not_supported(field, value, allowed)]

    return rule


def between(low: int, high: int) -> Rule:
    """Returns the rule that a number, where there is one, is in this range, both ends included."""
    detail = f"must be between {low} and {high}, inclusive"
    return lambda field, value: [] if value is None or low <= value <= high else [invalid(field, value, detail)]


def present(field: str, value: Any) -> list[FieldError]:
    """Refuses an absent or empty value."""
    return [] if value else [required(field)]


def each(rule: Rule) -> Rule:
    """Returns the rule that every item of a list keeps a rule."""
    return lambda field, items: (
        error for index, item in enumerate(items or ()) for error in rule(f"{field}[{index}]", item)
    )


def immutables(new: Object, old: Object, path: str, fields: Iterable[str]) -> list[FieldError]:
    """Refuses new values of these fields."""
    return [error for name in fields for error in immutable(f"{path}.{name}", new.get(name), old.get(name))]
