"""CEL expressions over `event`: checked when a manifest is read, evaluated with a bound on their work.

The library evaluates without a limit of time or memory, so both are bounded beforehand: by the shape of the expression
and by the size of the event and of its lists.
"""

import math
from functools import lru_cache
from typing import Any

import orjson

from penstock._deferred_imports import deferred
from workers.errors import PenstockError, UserError
from workers.events import expression_text
from workers.events.event_scope import EventScope
from workers.events.expression_text import ExpressionShape

# Its command line, which brings a terminal and a typesetter.
with deferred("cel.cli"):
    import cel

#: Bytes of the longest text that an expression may give.
LONGEST = 1024
#: Floats from here on may stand for whole numbers of more than 64 bits.
_EXACT = 2.0**63
#: Visits of entries, weighted by the length of the expression and of the texts it may compare; about 100 ms.
_WORK = 100_000
#: Characters that texts in an evaluation can have together.
_MEMORY = 64 << 20
#: Characters that are compared or searched in the time of one visit.
_SCANNED = 8192
#: Entries of data that are converted in the time of one visit. Each reading of `event.data` converts all of them.
_CONVERTED = 4
_MOST_LOOPS = 2
_MOST_PATTERNS = 8

_FUNCTIONS = frozenset(
    {"size", "has", "contains", "startsWith", "endsWith", "matches", "all", "exists", "exists_one", "existsOne"}
    | {"filter", "string", "int", "uint", "double", "bytes", "timestamp", "duration", "type", "dyn"}
    | {"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours"}
    | {"getMinutes", "getSeconds", "getMilliseconds"}
)
#: Names of types, as `type(event.data.total) == int` compares with them.
_TYPES = frozenset({"int", "uint", "double", "string", "bool", "bytes", "list", "map", "null_type", "type"})


class ExpressionFailed(PenstockError):  # noqa: N818 - says what happened
    """An expression gave no usable result for an event. field: of the EventJob. message: the reason, for people."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


def check(text: str) -> str | None:
    """Returns the problem of an expression, None if it can be evaluated."""
    try:
        _compiled(text)
    except UserError as error:
        return str(error)
    return None


def truth(text: str, scope: EventScope, field: str) -> bool:
    """Returns the result of a condition. Raises ExpressionFailed without one, or for a result that is no boolean."""
    found = _result(text, scope, field)
    if not isinstance(found, bool):
        raise ExpressionFailed(field, f"gave {_kind(found)}; true or false is needed")
    return found


def value(text: str, scope: EventScope, field: str) -> str | None:
    """Returns the result as text, numbers and booleans as JSON; None for null.

    Raises ExpressionFailed without a result, and for one of another type, longer than `LONGEST`, or not exact.
    """
    found = _result(text, scope, field)
    if found is None:
        return None
    if not isinstance(found, str | int | float) or (isinstance(found, float) and not math.isfinite(found)):
        raise ExpressionFailed(field, f"gave {_kind(found)}; a text, a number, true, false or null is needed")
    if isinstance(found, float) and abs(found) >= _EXACT:
        # Two of them may give one text: events would hold each other back, or count as duplicates and be lost.
        raise ExpressionFailed(field, "gave a number of more than 64 bits, whose last digits CEL drops; push a text")
    result = found if isinstance(found, str) else orjson.dumps(found).decode()
    if len(result.encode()) > LONGEST:
        raise ExpressionFailed(field, f"gave a text of more than {LONGEST} bytes")
    return result


def _result(text: str, scope: EventScope, field: str) -> Any:
    try:
        program, shape = _compiled(text)
    except UserError as error:
        raise ExpressionFailed(field, str(error)) from None
    if reason := _excess(shape, scope, text):
        raise ExpressionFailed(field, reason)
    event: dict[str, Any] = dict(scope.attributes)
    if shape.needs_data and scope.has_data:
        event["data"] = scope.data
    try:
        return program.execute({"event": event})
    except KeyError as error:
        raise ExpressionFailed(field, f"the event has no {error.args[0] if error.args else error}") from None
    except Exception as error:  # the library raises built-in errors of many classes
        raise ExpressionFailed(field, _short(str(error).partition("\n")[0]) or type(error).__name__) from None


def _excess(shape: ExpressionShape, scope: EventScope, text: str) -> str | None:
    """Returns the reason why the expression could take too much of time or memory on this event, None if it cannot."""
    size = scope.size + len(text)
    grown = (1 + shape.additions) ** (1 + shape.loops)
    if size * grown > _MEMORY:
        return f"could make texts of {size * grown} characters of this event; {_MEMORY} are allowed"
    if not shape.loops:
        return None
    fields = (len(scope.fields), scope.size, 0)
    entries, longest, total = scope.extent if shape.needs_data else fields
    visited = max(entries, 1 + shape.elements) * (grown if shape.additions else 1)
    each = 1 + (total / _CONVERTED + scope.size / _SCANNED if shape.rescans else 0)
    if visited**shape.loops * each * (1 + shape.operations / 32) * (1 + longest / _SCANNED) > _WORK:
        again = ", and event.data is read at each" if shape.rescans else ""
        return f"would do too much: the largest list or object of this event has {entries} entries{again}"
    return None


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[cel.Program, ExpressionShape]:
    """Returns a program and its shape. Raises UserError for an expression that cannot be evaluated."""
    try:
        program = cel.compile(text)
    except ValueError as error:
        raise UserError(_parse_error(str(error))) from None
    shape = expression_text.shape(text)
    if shape.problem:
        raise UserError(shape.problem)
    if unknown := sorted(shape.called - _FUNCTIONS):
        raise UserError(f"there is no function {unknown[0]}")
    if unknown := sorted(set(program.variables()) - shape.bound - _TYPES - {"event"}):
        raise UserError(f"there is no variable {unknown[0]}; the event is `event`")
    if shape.loops > _MOST_LOOPS:
        raise UserError("at most two all, exists or exists_one may stand in each other, and nothing in filter")
    if len(shape.patterns) > _MOST_PATTERNS:
        raise UserError(f"at most {_MOST_PATTERNS} matches are allowed")
    for pattern in shape.patterns:
        _check_pattern(pattern)
    return program, shape


def _check_pattern(literal: str) -> None:
    try:
        cel.evaluate(f"''.matches({literal})")
    except RuntimeError:
        raise UserError(f"matches: {literal} is no regular expression that RE2 accepts") from None


def _parse_error(message: str) -> str:
    """Returns the library's message without the expression and without its drawing."""
    _, found, rest = message.partition("ERROR: <input>:")
    line = (rest if found else message).partition("\n")[0]
    place, separator, reason = line.partition(": ")
    if not (found and separator):
        return _short(line)
    row, _, column = place.partition(":")
    return _short(f"line {row}, column {column}: {reason}")


def _short(text: str) -> str:
    return text if len(text) <= 300 else text[:299] + "…"


def _kind(found: Any) -> str:
    if isinstance(found, float):
        return "a number" if math.isfinite(found) else "a number that is not finite"
    names = {dict: "an object", list: "a list", str: "a text", bytes: "bytes", type(None): "null", int: "a number"}
    return names.get(type(found), f"a {type(found).__name__}")
