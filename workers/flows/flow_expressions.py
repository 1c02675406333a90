"""Expressions of a flow: conditions, values of a switch, and references in patches.

A reference is ``${parameters.NAME}``, ``${entries.NAME.phase}``, ``${item}``, ``${index}`` or ``${flow}``. In an
expression it stands for a value of any content; in a patch for its text. Everything else of an expression is
the language of ScaledObjects' formulas: no code of its author ever runs.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.errors import UserError
from workers.formula import parser
from workers.formula.evaluator import FormulaScope as Values
from workers.formula.evaluator import Value, reason
from workers.formula.parser import FormulaError

_REFERENCE = re.compile(
    r"\$\{(?P<whole>parameters\.(?P<parameter>[^}.\s]+)|entries\.(?P<entry>[^}\s]+)\.phase|item|index|flow)\}"
)
#: A reference in a patch that becomes a number.
_NUMBER = re.compile(r"\$\{int:([^}]*)\}")


@dataclass(frozen=True, slots=True)
class FlowScope:
    """The values of references. phases: of entries by name, None until they end."""

    flow: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    phases: Mapping[str, str | None] = field(default_factory=dict)
    item: str | None = None
    index: int | None = None

    def value(self, reference: re.Match[str]) -> str | int | None:
        """Returns a reference's value. Raises UserError for an unknown name."""
        if name := reference["parameter"]:
            if name not in self.parameters:
                raise UserError(f"there is no parameter {name}")
            return self.parameters[name]
        if name := reference["entry"]:
            if name not in self.phases:
                raise UserError(f"there is no entry {name}")
            return self.phases[name]
        return {"item": self.item, "index": self.index, "flow": self.flow}[reference["whole"]]


def truth(text: str, scope: FlowScope) -> bool:
    """Returns the result of a condition. Raises UserError if it is no boolean."""
    found = _result(text, scope)
    if not isinstance(found, bool):
        raise UserError(f"{text}: true or false is needed")
    return found


def value(text: str, scope: FlowScope) -> str:
    """Returns the result of a switch as text. Raises UserError without a result."""
    found = _result(text, scope)
    return str(found).lower() if isinstance(found, bool) else "" if found is None else str(found)


def filled(tree: Any, scope: FlowScope) -> Any:
    """Returns a patch with its references replaced. Raises UserError for an unknown name."""
    if isinstance(tree, dict):
        return {key: filled(each, scope) for key, each in tree.items()}
    if isinstance(tree, list):
        return [filled(each, scope) for each in tree]
    if not isinstance(tree, str):
        return tree
    if number := _NUMBER.fullmatch(tree):
        text = filled("${" + number[1] + "}", scope)
        try:
            return int(text)
        except ValueError:
            raise UserError(f"{tree}: {text!r} is no whole number") from None
    return _REFERENCE.sub(lambda found: "" if scope.value(found) is None else str(scope.value(found)), tree)


def problem(text: str, parameters: Collection[str], entries: Collection[str]) -> str | None:
    """Returns the error of an expression that no value cures, or None."""
    try:
        read, values = _bound(text, _known(parameters, entries))
    except (FormulaError, UserError) as error:
        return str(error)
    unknown = sorted(read.names - set(values))
    return f"{unknown[0]} means nothing; references are written ${{parameters.NAME}}" if unknown else None


def patch_problem(tree: Any, parameters: Collection[str], entries: Collection[str]) -> str | None:
    """Returns the error of a patch's references, or None."""
    try:
        filled(_without_numbers(tree), _known(parameters, entries))
    except UserError as error:
        return str(error)
    return None


def _known(parameters: Collection[str], entries: Collection[str]) -> FlowScope:
    """Returns a scope of names without values."""
    return FlowScope("", dict.fromkeys(parameters, ""), dict.fromkeys(entries), "", 0)


def _without_numbers(tree: Any) -> Any:
    """Returns the tree with numbers as texts: a parameter's value is not known yet."""
    if isinstance(tree, dict):
        return {key: _without_numbers(each) for key, each in tree.items()}
    if isinstance(tree, list):
        return [_without_numbers(each) for each in tree]
    return _NUMBER.sub(r"${\1}", tree) if isinstance(tree, str) else tree


def _result(text: str, scope: FlowScope) -> Value:
    try:
        read, values = _bound(text, scope)
        return read.node(Values(values))
    except (FormulaError, ArithmeticError, TypeError, ValueError) as error:
        raise UserError(f"{text}: {reason(error)}") from None


def _bound(text: str, scope: FlowScope) -> tuple[parser.Formula, dict[str, Any]]:
    """Returns the expression with a variable for each reference, and the variables' values."""
    values: dict[str, Any] = {}

    def variable(found: re.Match[str]) -> str:
        name = f"_{len(values)}"
        values[name] = scope.value(found)
        return f" {name} "

    return parser.parse(_REFERENCE.sub(variable, text)), values
