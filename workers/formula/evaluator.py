"""Evaluator of formulas: the operators and functions of their syntax tree.

A node of the tree is a function from a scope to a value. No code of the formula's author runs, and the work of all
closures together is bounded.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from workers.errors import PenstockError

#: Most elements that all closures and ranges of one evaluation may visit, because nested closures multiply.
MOST_ELEMENTS = 10_000

Value = float | int | bool | str | list[Any] | None


class FormulaError(PenstockError):
    """The formula is malformed or its result is not a number; the message says where or why."""


@dataclass(slots=True)
class _Budget:
    """Elements that closures may still visit, and ranges have."""

    left: int = MOST_ELEMENTS

    def take(self, number: int) -> None:
        self.left -= number
        if self.left < 0:
            raise FormulaError(f"the formula's closures and ranges visit more than {MOST_ELEMENTS} elements")


@dataclass(frozen=True, slots=True)
class FormulaScope:
    """Values by name, of triggers and of ``let``, and the current element of a closure."""

    values: Mapping[str, Value]
    element: Value = None
    budget: _Budget = field(default_factory=_Budget)


#: A part of the formula, ready to be evaluated.
Node = Callable[[FormulaScope], Value]


def number(node: Node, values: Mapping[str, float | None]) -> float | None:
    """Returns the node's number for these values, None for ``nil``.

    Raises FormulaError for any other result and for a number that is not finite.
    """
    try:
        result = node(FormulaScope(values))
        if result is None:
            return None
        found = float(_real(result))
    except (ArithmeticError, TypeError, ValueError, statistics.StatisticsError) as error:
        raise FormulaError(f"the formula has no result: {reason(error)}") from error
    if not math.isfinite(found):
        raise FormulaError("the formula's result is not a finite number")
    return found


def reason(error: Exception) -> str:
    """Returns the reason that there is no result, in words about numbers."""
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
    """Returns a node with the first value that is not ``nil``."""

    def value(scope: FormulaScope) -> Value:
        found = None
        for node in nodes:
            found = node(scope)
            if found is not None:
                break
        return found

    return value


def binding(name: str, value: Node, body: Node) -> Node:
    """Returns the body's node, in which the name has this value."""
    return lambda scope: body(replace(scope, values={**scope.values, name: value(scope)}))


def signed(sign: str, node: Node) -> Node:
    if sign == "!":
        return lambda scope: not _truth(node(scope))
    return lambda scope: -_real(node(scope)) if sign == "-" else _real(node(scope))


def chain(first: Node, rest: Sequence[tuple[str, Node]]) -> Node:
    """Returns a node of any number of operators of one precedence, evaluated from left to right."""

    def value(scope: FormulaScope) -> Value:
        found = first(scope)
        for sign, node in rest:
            if sign == "&&":
                found = _truth(found) and _truth(node(scope))
            elif sign == "||":
                found = _truth(found) or _truth(node(scope))
            elif sign == "..":
                found = _range(found, node(scope), scope.budget)
            else:
                found = _OPERATIONS[sign](found, node(scope))
        return found

    return value


def calling(name: str, nodes: Sequence[Node]) -> Node:
    function = FUNCTIONS[name]
    return lambda scope: function(*(node(scope) for node in nodes))


def over(name: str, items: Node, closure: Node) -> Node:
    """Returns a node that applies a function to the closure's values of all elements."""
    function = OVER_LISTS[name]

    def value(scope: FormulaScope) -> Value:
        listed = _listed(items(scope))
        scope.budget.take(len(listed))
        return function(listed, [closure(FormulaScope(scope.values, each, scope.budget)) for each in listed])

    return value


def _divided(left: Value, right: Value) -> float:
    divisor = _real(right)
    if divisor == 0:
        raise FormulaError("the formula divides by zero")
    return _real(left) / divisor


def _remainder(left: Value, right: Value) -> int:
    first, second = _whole(left, "%"), _whole(right, "%")
    if second == 0:
        raise FormulaError("the formula divides by zero")
    # The remainder has the sign of the first number, as in expr; Python's has that of the second.
    rest = abs(first) % abs(second)
    return rest if first >= 0 else -rest


def _range(left: Value, right: Value, budget: _Budget) -> list[Any]:
    first, last = _whole(left, ".."), _whole(right, "..")
    budget.take(max(0, last - first + 1))
    return list(range(first, last + 1))


def _power(left: Value, right: Value) -> float:
    result = float(_real(left)) ** float(_real(right))
    if isinstance(result, complex):
        raise FormulaError("a root of a negative number is no number")
    return float(result)


def _equal(left: Value, right: Value) -> bool:
    # Names make lists of lists whose size is exponential in the length of the formula.
    if any(isinstance(each, list) for side in (left, right) if isinstance(side, list) for each in side):
        raise FormulaError("lists of lists are not compared")
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
    """Returns the numbers of single arguments and lists. Raises FormulaError if there are none."""
    flat = [each for part in arguments for each in (part if isinstance(part, list) else [part])]
    if not flat:
        raise FormulaError("a function got no numbers")
    return [_real(each) for each in flat]


def _rounded(value: Value) -> float:
    """Rounds halves away from zero."""
    given = _real(value)
    return math.copysign(math.floor(abs(given) + 0.5), given)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "abs": lambda value: abs(_real(value)),
    "ceil": lambda value: float(math.ceil(_real(value))),
    "floor": lambda value: float(math.floor(_real(value))),
    "round": _rounded,
    "float": lambda value: float(value if isinstance(value, str) else _real(value)),
    "int": lambda value: int(value if isinstance(value, str) else _real(value)),
    "len": lambda value: len(_listed(value)),
    "max": lambda *values: max(_numbers(values)),
    "min": lambda *values: min(_numbers(values)),
    "mean": lambda *values: statistics.fmean(_numbers(values)),
    "median": lambda *values: float(statistics.median(_numbers(values))),
}

#: Functions of a list, by name; their arguments are the list and the closure's values of its elements.
OVER_LISTS: Mapping[str, Callable[[list[Value], list[Value]], Value]] = {
    "sum": lambda _, values: sum(_real(each) for each in values),
    "count": lambda _, values: sum(_truth(each) for each in values),
    "all": lambda _, values: all(_truth(each) for each in values),
    "any": lambda _, values: any(_truth(each) for each in values),
    "none": lambda _, values: not any(_truth(each) for each in values),
    "one": lambda _, values: sum(_truth(each) for each in values) == 1,
    "map": lambda _, values: values,
    "filter": lambda items, values: [each for each, fits in zip(items, values, strict=True) if _truth(fits)],
}


def _real(value: Value) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormulaError(f"a number is needed, not {_type_name(value)}")
    return value


def _whole(value: Value, sign: str) -> int:
    given = _real(value)
    if not isinstance(given, int):
        raise FormulaError(f"{sign} needs whole numbers, as int(...) makes them, not {given:g}")
    return given


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise FormulaError(f"true or false is needed, not {_type_name(value)}")
    return value


def _listed(value: Value) -> list[Any]:
    if not isinstance(value, list):
        raise FormulaError(f"a list is needed, not {_type_name(value)}")
    return value


def _type_name(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a text"
    return "nil" if value is None else "a list" if isinstance(value, list) else "a number"
