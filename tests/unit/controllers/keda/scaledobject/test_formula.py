"""Formulas of scalingModifiers: what they answer, what they refuse, and that nothing else can come of any text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.formula import parser
from workers.formula.evaluator import MOST_ELEMENTS
from workers.formula.parser import FormulaError

VALUES = {"a": 6.0, "b": 4.0, "gone": None}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        pytest.param("a + b", 10, id="sum"),
        pytest.param("a - b - 1", 1, id="from left to right"),
        pytest.param("a + b * 2", 14, id="stronger operators first"),
        pytest.param("(a + b) * 2", 20, id="parentheses"),
        pytest.param("-a + 10", 4, id="a sign"),
        pytest.param("7 / 2", 3.5, id="division is not of whole numbers"),
        pytest.param("7 % 4", 3, id="remainder"),
        pytest.param("-7 % 4", -3, id="remainder has the sign of the first"),
        pytest.param("2 ** 3 ** 2", 512, id="powers from right to left"),
        pytest.param("-2 ^ 2", -4, id="powers are stronger than signs"),
        pytest.param("a > 5 ? a : b", 6, id="choice"),
        pytest.param("a < 5 ? a : b < 5 ? 1 : 2", 1, id="choices in a row"),
        pytest.param("a > 5 and b > 5 ? 1 : 0", 0, id="and"),
        pytest.param("a > 5 || b > 5 ? 1 : 0", 1, id="or"),
        pytest.param("not (a == b) ? 1 : 0", 1, id="not"),
        pytest.param("a in [1, 6] ? 1 : 0", 1, id="in"),
        pytest.param("a not in [1, 6] ? 1 : 0", 0, id="not in"),
        pytest.param("b not in [1, 6] ? 1 : 0", 1, id="not in: it is not"),
        pytest.param("b in [4] and a not in [4] ? 1 : 0", 1, id="in and not in"),
        pytest.param("b + gone ?? 1", 5, id="instead of nothing: the strongest operator"),
        pytest.param("-gone ?? 2", -2, id="stronger than a sign"),
        pytest.param("gone ?? -1", -1, id="a sign behind it"),
        pytest.param("gone ?? gone ?? b", 4, id="several in a row"),
        pytest.param("(gone ?? 1) > 0 ? a : b", 6, id="in parentheses"),
        pytest.param("true == 1 ? 1 : 0", 0, id="a truth is not one"),
        pytest.param("gone ?? b", 4, id="what is there instead of nothing"),
        pytest.param("gone ?? nil", None, id="nothing at all"),
        pytest.param("max(a, b, 9)", 9, id="max"),
        pytest.param("min([a, b])", 4, id="min of a list"),
        pytest.param("sum([a, b])", 10, id="sum of a list"),
        pytest.param("count([a, b], {# > 5})", 1, id="a closure"),
        pytest.param("sum([a, b], # * 2)", 20, id="a closure without braces"),
        pytest.param("mean(a, b)", 5, id="mean"),
        pytest.param("median([a, b, 100])", 6, id="median"),
        pytest.param("abs(b - a) + ceil(1.2) + floor(1.8)", 5, id="abs, ceil, floor"),
        pytest.param("round(2.5) + round(-2.5)", 0, id="halves go away from zero"),
        pytest.param("int('7') + float('0.5')", 7.5, id="numbers in texts"),
        pytest.param("1_000 + .5 + 1e3", 2000.5, id="forms of numbers"),
        pytest.param("len(map([a, b], {# > 5 ? 1 : 0}))", 2, id="a list of answers"),
    ],
)
def test_results(text: str, result: float | None) -> None:
    assert parser.parse(text).value(VALUES) == result


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "expected a value, found nothing", id="empty"),
        pytest.param("a +", "position 4", id="half"),
        pytest.param("a b", "expected the end", id="two values"),
        pytest.param("a @ b", "'@' at position 3", id="an unknown sign"),
        pytest.param("gone ?? 1 + a", "into parentheses", id="an operator behind ??"),
        pytest.param("gone ?? 1 not in [1]", "into parentheses", id="not in behind ??"),
        pytest.param("a not b", "expected the end", id="not between two values"),
        pytest.param("open(a)", "no function open", id="an unknown function"),
        pytest.param("a.__class__", "'.' at position 2", id="attributes"),
        pytest.param("#", "expected a value", id="an element outside of a closure"),
        pytest.param("(" * 40 + "a" + ")" * 40, "nested deeper", id="nested deeply"),
        pytest.param("-" * 200 + "a", "nested deeper", id="signs of signs"),
        pytest.param("2" + "**2" * 200, "nested deeper", id="powers of powers"),
        pytest.param("a" * 10_001, "longer than", id="too long"),
        pytest.param("9" * 5_000, "position 1", id="a number too long"),
    ],
)
def test_texts_that_are_no_formulas(text: str, why: str) -> None:
    with pytest.raises(FormulaError, match=why):
        parser.parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("c", "no trigger named c", id="an unknown variable"),
        pytest.param("gone + 1", "a number is needed, not nil", id="nothing is no number"),
        pytest.param("a > b", "not true", id="a truth is no number"),
        pytest.param("'7'", "not a text", id="a text is no number"),
        pytest.param("[a]", "not a list", id="a list is no number"),
        pytest.param("a / (b - 4)", "divides by zero", id="division by zero"),
        pytest.param("1 % 0", "divides by zero", id="remainder by zero"),
        pytest.param("a % 2", "whole numbers", id="remainder of a trigger's value"),
        pytest.param("a ? 1 : 2", "true or false is needed", id="a number is no condition"),
        pytest.param("(-8) ** 0.5", "root of a negative", id="a root"),
        pytest.param("10 ** 400", "no result: a number becomes too large", id="too large"),
        pytest.param("9**9**9", "no result: a number becomes too large", id="far too large"),
        pytest.param("0 ** -1", "zero to a negative power", id="nothing to a negative power"),
        pytest.param("1e308 * 10", "finite", id="infinite"),
        pytest.param("float('nan')", "finite", id="not a number"),
        pytest.param("max([])", "no numbers", id="of nothing"),
        pytest.param("abs()", "no result", id="too few arguments"),
        pytest.param("sum(a)", "a list is needed", id="a list is needed"),
    ],
)
def test_formulas_without_a_result(text: str, why: str) -> None:
    with pytest.raises(FormulaError, match=why):
        parser.parse(text).value(VALUES)


def test_the_variables_are_known() -> None:
    assert parser.parse("a > 1 ? sum([b, a], {# + c}) : nil").names == {"a", "b", "c"}


def test_a_long_chain_is_no_deep_nest() -> None:
    assert parser.parse("+".join(["1"] * 4_000)).value({}) == 4_000


def test_closures_in_closures_are_bounded() -> None:
    ten = "[1,1,1,1,1,1,1,1,1,1]"
    text = "1"
    for _ in range(8):
        text = f"sum({ten}, {{{text}}})"
    with pytest.raises(FormulaError, match=str(MOST_ELEMENTS)):
        parser.parse(text).value({})


SIGNS = [*"()[]{}#,?:+-*/%^!<>=. ", "??", "**", "&&", "||"]
WORDS = ["in", "not", "a", "b", "gone", "nil", "true", "sum", "count", "map", "max", "float", "int", "len", "median"]
ODD = ["1", "0", "2.5", "1e300", "'x'", "__import__", "é", "²"]
PIECES = st.sampled_from([*SIGNS, *WORDS, *ODD])


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=40).map("".join)))
def test_any_text_is_refused_or_gives_a_number_or_nothing(text: str) -> None:
    try:
        result = parser.parse(text).value(VALUES)
    except FormulaError:
        return
    assert result is None or math.isfinite(result)


EXPRESSIONS = st.recursive(
    st.sampled_from(["a", "b", "gone", "1", "0", "2.5", "[a, b]", "'7'", "true", "nil"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%", "**", "<", "==", "and", "??", "in"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
        st.tuples(st.sampled_from(["max", "sum", "count", "int", "round", "len"]), inner).map(
            lambda parts: f"{parts[0]}({parts[1]})"
        ),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
def test_what_is_well_formed_gives_a_number_nothing_or_a_reason(text: str) -> None:
    read = parser.parse(text)
    try:
        result = read.value(VALUES)
    except FormulaError:
        return
    assert result is None or math.isfinite(result)
