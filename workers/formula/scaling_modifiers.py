"""`scalingModifiers` as a ScaledObject's spec has them: the formula parsed, checked against the triggers and tried."""

from dataclasses import dataclass

from workers.api.keda.scaledobject import MetricType, ScaledObjectSpec, is_resource
from workers.errors import UserError
from workers.formula import parser as formulas
from workers.formula.parser import Formula, FormulaError

#: The path that errors name.
FORMULA_PATH = "spec.advanced.scalingModifiers.formula"
#: Values to try a formula with; different ones, so that a difference of two is not always 0.
_DUMMIES = ((1.0,), (1.0, 2.0, 5.0, 11.0), (0.0,), (97.0, 13.0, 41.0))


@dataclass(frozen=True, slots=True)
class Composite:
    """Parsed scaling modifiers. names: of the triggers, in their order."""

    formula: Formula
    kind: MetricType
    target: float
    activation: float
    names: tuple[str, ...]


def read(spec: ScaledObjectSpec) -> Composite | None:
    """Returns the modifiers of a spec, None without any. Raises UserError for those that KEDA's webhook rejects."""
    modifiers = spec.modifiers
    if not modifiers.formula or not modifiers.target:
        return None
    names = tuple(trigger.name or "" for trigger in spec.triggers if not is_resource(trigger))
    try:
        formula = formulas.parse(modifiers.formula)
    except FormulaError as error:
        raise UserError(f"{FORMULA_PATH}: {error}") from error
    pods = {trigger.name for trigger in spec.triggers if is_resource(trigger)}
    if idle := formula.names & pods:
        raise UserError(f"{FORMULA_PATH}: cpu and memory are no part of a formula: {', '.join(sorted(map(str, idle)))}")
    if strange := formula.names - set(names):
        raise UserError(f"{FORMULA_PATH}: there is no trigger named {', '.join(sorted(strange))}")
    _try_out(formula)
    activation = float(modifiers.activation_target or 0)
    return Composite(formula, modifiers.metric_type or "AverageValue", float(modifiers.target), activation, names)


def _try_out(formula: Formula) -> None:
    """Raises UserError for a formula that has a number for none of the sample values: its types do not fit."""
    problem: FormulaError | None = None
    for values in _DUMMIES:
        try:
            formula.value({name: values[place % len(values)] for place, name in enumerate(sorted(formula.names))})
        except FormulaError as error:
            problem = problem or error
        else:
            return
    raise UserError(f"{FORMULA_PATH}: {problem}") from problem
