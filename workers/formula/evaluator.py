"""Evaluating a formula of `scalingModifiers`: what its operators and functions make of numbers.

A formula that was read is a tree of nodes; a node answers its value for a scope. No code of the formula's author ever
runs, and what closures may do together is bounded.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workers.errors import PenstockError

#: Elements that all closures of one evaluation may look at: nested closures multiply.
MOST_ELEMENTS = 10_000

Value = float | int | bool | str | list[Any] | None


class FormulaError(PenstockError):
    """The formula cannot be read, or has no number as its result; the message says where or why."""


@dataclass(slots=True)
class _Budget:
    """Elements that closures may still look at."""

    left: int = MOST_ELEMENTS

    def take(self, number: int) -> None:
        self.left -= number
        if self.left < 0:
            raise FormulaError(f"the formula's closures look at more than {MOST_ELEMENTS} elements")


@dataclass(frozen=True, slots=True)
class FormulaScope:
    """Values by name, and the element that a closure looks at."""

    values: Mapping[str, float | None]
    element: Value = None
    budget: _Budget = field(default_factory=_Budget)


#: A part of the formula, ready to be evaluated.
Node = Callable[[FormulaScope], Value]


def number(node: Node, values: Mapping[str, float | None]) -> float | None:
    """The node's number for these values; None where it is nothing (``nil``).

    Raises FormulaError when it is anything else, or no finite number.
    """
    try:
        result = node(FormulaScope(values))
        if result is None:
            return None
        found = float(_real(result))
    except (ArithmeticError, TypeError, ValueError, statistics.StatisticsError) as error:
        raise FormulaError(f"the formula has no result: {told(error)}") from error
    if not math.isfinite(found):
        raise FormulaError("the formula's result is not a finite number")
    return found


def told(error: Exception) -> str:
    """Why there is no result, in words about numbers."""
    match error:
        case OverflowError():
            return "a number becomes too large"
        case ZeroDivisionError():
            return "it divides by zero, or raises zero to a negative power"
        case _:
            return str(error)


def constant(value: Value) -> Node:
    return lambda _scope: value


def variable(name: str) -> Node:
    def value(scope: FormulaScope) -> Value:
        if name not in scope.values:
            raise FormulaError(f"there is no trigger named {name}")
        return scope.values[name]

    return value


def element(scope: FormulaScope) -> Value:
    return scope.element


def listing(nodes: Sequence[Node]) -> Node:
    return lambda scope: [node(scope) for node in nodes]


def choice(condition: Node, then: Node, otherwise: Node) -> Node:
    return lambda scope: then(scope) if _truth(condition(scope)) else otherwise(scope)


def coalescing(nodes: Sequence[Node]) -> Node:
    """The first that is not nothing."""

    def value(scope: FormulaScope) -> Value:
        found = None
        for node in nodes:
            found = node(scope)
            if found is not None:
                break
        return found

    return value


def signed(sign: str, node: Node) -> Node:
    if sign == "!":
        return lambda scope: not _truth(node(scope))
    return lambda scope: -_real(node(scope)) if sign == "-" else _real(node(scope))


def chain(first: Node, rest: Sequence[tuple[str, Node]]) -> Node:
    """Operators of one strength, from left to right, however many there are."""

    def value(scope: FormulaScope) -> Value:
        found = first(scope)
        for sign, node in rest:
            if sign == "&&":
                found = _truth(found) and _truth(node(scope))
            elif sign == "||":
                found = _truth(found) or _truth(node(scope))
            else:
                found = _OPERATIONS[sign](found, node(scope))
        return found

    return value


def calling(name: str, nodes: Sequence[Node]) -> Node:
    function = FUNCTIONS[name]
    return lambda scope: function(*(node(scope) for node in nodes))


def over(name: str, items: Node, closure: Node) -> Node:
    """A function of what the closure answers for every element."""
    function = OVER_LISTS[name]

    def value(scope: FormulaScope) -> Value:
        listed = _listed(items(scope))
        scope.budget.take(len(listed))
        return function([closure(FormulaScope(scope.values, each, scope.budget)) for each in listed])

    return value


def _divided(left: Value, right: Value) -> float:
    divisor = _real(right)
    if divisor == 0:
        raise FormulaError("the formula divides by zero")
    return _real(left) / divisor


def _remainder(left: Value, right: Value) -> int:
    first, second = _whole(left), _whole(right)
    if second == 0:
        raise FormulaError("the formula divides by zero")
    # The sign is that of the first number.
    rest = abs(first) % abs(second)
    return rest if first >= 0 else -rest


def _power(left: Value, right: Value) -> float:
    result = float(_real(left)) ** float(_real(right))
    if isinstance(result, complex):
        raise FormulaError("a root of a negative number is no number")
    return float(result)


def _equal(left: Value, right: Value) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and left == right


_OPERATIONS: Mapping[str, Callable[[Value, Value], Value]] = {
    "+": lambda left, right: _real(left) + _real(right),
    "-": lambda left, right: _real(left) - _real(right),
    "*": lambda left, right: _real(left) * _real(right),
    "/": _divided,
    "%": _remainder,
    "**": _power,
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": lambda left, right: _real(left) < _real(right),
    "<=": lambda left, right: _real(left) <= _real(right),
    ">": lambda left, right: _real(left) > _real(right),
    ">=": lambda left, right: _real(left) >= _real(right),
    "in": lambda left, right: any(_equal(left, each) for each in _listed(right)),
    "not in": lambda left, right: not any(_equal(left, each) for each in _listed(right)),
}


def _numbers(arguments: Sequence[Value]) -> list[float | int]:
    """Arguments one by one or as lists; at least one number."""
    flat = [each for part in arguments for each in (part if isinstance(part, list) else [part])]
    if not flat:
        raise FormulaError("a function got no numbers")
    return [_real(each) for each in flat]


def _to_float(value: Value) -> float:
    return float(value) if isinstance(value, str) else float(_real(value))


def _to_int(value: Value) -> int:
    return int(value) if isinstance(value, str) else int(_real(value))


def _rounded(value: Value) -> float:
    """Halves go away from zero."""
    given = _real(value)
    return math.copysign(math.floor(abs(given) + 0.5), given)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "abs": lambda value: abs(_real(value)),
    "ceil": lambda value: float(math.ceil(_real(value))),
    "floor": lambda value: float(math.floor(_real(value))),
    "round": _rounded,
    "float": _to_float,
    "int": _to_int,
    "len": lambda value: len(_listed(value)),
    "max": lambda *values: max(_numbers(values)),
    "min": lambda *values: min(_numbers(values)),
    "mean": lambda *values: statistics.fmean(_numbers(values)),
    "median": lambda *values: float(statistics.median(_numbers(values))),
}

#: Functions over a list: what the closure answered for every element goes in.
OVER_LISTS: Mapping[str, Callable[[list[Value]], Value]] = {
    "sum": lambda values: sum(_real(each) for each in values),
    "count": lambda values: sum(_truth(each) for each in values),
    "all": lambda values: all(_truth(each) for each in values),
    "any": lambda values: any(_truth(each) for each in values),
    "none": lambda values: not any(_truth(each) for each in values),
    "one": lambda values: sum(_truth(each) for each in values) == 1,
    "map": lambda values: values,
}


def _real(value: Value) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormulaError(f"a number is needed, not {_said(value)}")
    return value


def _whole(value: Value) -> int:
    given = _real(value)
    if not isinstance(given, int):
        raise FormulaError(f"% needs whole numbers, as int(...) makes them, not {given:g}")
    return given


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise FormulaError(f"true or false is needed, not {_said(value)}")
    return value


def _listed(value: Value) -> list[Any]:
    if not isinstance(value, list):
        raise FormulaError(f"a list is needed, not {_said(value)}")
    return value


def _said(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a text"
    return "nil" if value is None else "a list" if isinstance(value, list) else "a number"
