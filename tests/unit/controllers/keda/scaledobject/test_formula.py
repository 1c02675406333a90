"""Formulas of scalingModifiers: what they answer, what they refuse, and that nothing else can come of any text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from workers.formula import parser
from workers.formula.evaluator import MOST_ELEMENTS
from workers.formula.parser import FormulaError

VALUES = {"a": 6.0, "b": 4.0, "gone": None}


@cases(
    ("sum", "a + b", 10),
    ("from left to right", "a - b - 1", 1),
    ("stronger operators first", "a + b * 2", 14),
    ("parentheses", "(a + b) * 2", 20),
    ("a sign", "-a + 10", 4),
    ("a sign that changes nothing", "+a - +b", 2),
    ("division is not of whole numbers", "7 / 2", 3.5),
    ("remainder of one", "7 % 1", 0),
    ("remainder", "7 % 4", 3),
    ("remainder has the sign of the first", "-7 % 4", -3),
    ("powers from right to left", "2 ** 3 ** 2", 512),
    ("powers are stronger than signs", "-2 ^ 2", -4),
    ("choice", "a > 5 ? a : b", 6),
    ("choices in a row", "a < 5 ? a : b < 5 ? 1 : 2", 1),
    ("and", "a > 5 and b > 5 ? 1 : 0", 0),
    ("or", "a > 5 || b > 5 ? 1 : 0", 1),
    ("not", "not (a == b) ? 1 : 0", 1),
    ("in", "a in [1, 6] ? 1 : 0", 1),
    ("not in", "a not in [1, 6] ? 1 : 0", 0),
    ("not in: it is not", "b not in [1, 6] ? 1 : 0", 1),
    ("in and not in", "b in [4] and a not in [4] ? 1 : 0", 1),
    ("instead of nothing: the strongest operator", "b + gone ?? 1", 5),
    ("stronger than a sign", "-gone ?? 2", -2),
    ("a sign behind it", "gone ?? -1", -1),
    ("several in a row", "gone ?? gone ?? b", 4),
    ("in parentheses", "(gone ?? 1) > 0 ? a : b", 6),
    ("a truth is not one", "true == 1 ? 1 : 0", 0),
    ("what is there instead of nothing", "gone ?? b", 4),
    ("nothing at all", "gone ?? nil", None),
    ("max", "max(a, b, 9)", 9),
    ("min of a list", "min([a, b])", 4),
    ("sum of a list", "sum([a, b])", 10),
    ("a closure", "count([a, b], {# > 5})", 1),
    ("a closure without braces", "sum([a, b], # * 2)", 20),
    ("a closure in a closure", "sum([a, b], {sum([1, 2], {# * 2}) + #})", 22),
    ("a closure after a closure", "count([a], {# > 5}) + count([b], {# > 3})", 2),
    ("a backslash", r"""'a\'b' == "a'b" ? 1 : 0""", 1),
    ("mean", "mean(a, b)", 5),
    ("median", "median([a, b, 100])", 6),
    ("abs, ceil, floor", "abs(b - a) + ceil(1.2) + floor(1.8)", 5),
    ("halves go away from zero", "round(2.5) + round(-2.5)", 0),
    ("up from a half on", "round(2.5)", 3),
    ("down below it", "round(2.4)", 2),
    ("down to the negative", "round(-2.5)", -3),
    ("thousands", "1_000", 1000),
    ("numbers in texts", "int('7') + float('0.5')", 7.5),
    ("thousands of whole numbers", "1_001 % 10", 1),
    ("as deep as may be", "(" * 31 + "a" + ")" * 31, 6),
    ("as long as may be", "1" + "+1" * 4_999 + " ", 5_000),
    ("forms of numbers", "1_000 + .5 + 1e3", 2000.5),
    ("a name for a part", "let c = a + b; c > 5 ? c : 0", 10),
    ("names for parts of parts", "let c = a + b; let d = c * 2; d - c", 10),
    ("a name in parentheses alone", "(let c = 1; c) + a", 7),
    ("a name of a list", "let all_ = [a, b]; sum(all_) / len(all_)", 5),
    ("a name in a closure", "let c = 5; count([a, b], {# > c})", 1),
    ("a pipe", "a | max(b, 9)", 9),
    ("a pipe takes all before it", "a + b | max(1) ", 10),
    ("a pipe into a closure", "[a, b] | filter(# > 5) | sum()", 6),
    ("what follows a pipe", "a | max(b) > 5 ? 1 : 0", 1),
    ("a pipe and stronger operators", "b | min(a) ** 2 + 1", 17),
    ("instead of nothing behind a pipe", "a | max(b) ?? 1", 6),
    ("a range", "sum(1..4)", 10),
    ("a range of one, and an empty one", "len(3..3) + len(3..2)", 1),
    ("in a range", "b in 1..5 ? 1 : 0", 1),
    ("a range is weaker than a sum", "len(1 .. 2 + 3)", 5),
    ("a number with a dot is no range", "1.5 + 1.", 2.5),
    ("those that fit", "len(filter([a, b, gone], {# != nil}))", 2),
    ("comments", "a // the queue\n + /* and\nthe other */ b", 10),
    ("a list of answers", "len(map([a, b], {# > 5 ? 1 : 0}))", 2),
)
def test_results(text: str, result: float | None) -> None:
    assert parser.parse(text).value(VALUES) == result


@cases(
    ("empty", "", "expected a value, found nothing"),
    ("half", "a +", "position 4"),
    ("two values", "a b", "expected the end"),
    ("an unknown sign", "a @ b", "'@' at position 3"),
    ("an operator behind ??", "gone ?? 1 + a", "into parentheses"),
    ("not in behind ??", "gone ?? 1 not in [1]", "into parentheses"),
    ("not between two values", "a not b", "expected the end"),
    ("an unknown function", "open(a)", "no function open"),
    ("attributes", "a.__class__", "'.' at position 2"),
    ("an element outside of a closure", "#", "expected a value"),
    ("an element behind a closure", "count([a], {# > 5}) + #", "expected a value"),
    ("nested too deeply", "(" * 32 + "a" + ")" * 32, "nested deeper"),
    ("signs of signs", "-" * 200 + "a", "nested deeper"),
    ("powers of powers", "2" + "**2" * 200, "nested deeper"),
    ("too long", "a" * 10_001, "longer than"),
    ("a number too long", "9" * 5_000, "position 1"),
    ("a name without a value", "let c; c", "expected '='"),
    ("a name without an end", "let c = a", "expected ';'"),
    ("a name that is a number", "let 1 = a; a", "expected a name"),
    ("a name twice", "let c = a; let c = b; c", "position 16 of the formula: c has a meaning already"),
    ("a name of a function", "let max = a; max", "max has a meaning already"),
    ("a name of a constant", "let nil = a; nil", "nil has a meaning already"),
    ("a pipe into a value", "a | b", "expected '\\('"),
    ("a pipe into nothing", "a | ", "expected a function"),
    ("a range behind ??", "gone ?? 1 .. 2", "into parentheses"),
    ("as many names as levels", "let c = 1;" * 33 + "c", "has a meaning already|nested deeper"),
)
def test_texts_that_are_no_formulas(text: str, why: str) -> None:
    with pytest.raises(FormulaError, match=why):
        parser.parse(text)


@cases(
    ("an unknown variable", "c", "no trigger named c"),
    ("nothing is no number", "gone + 1", "a number is needed, not nil"),
    ("a truth is no number", "a > b", "not true"),
    ("nor is the other one", "a < b", "not false"),
    ("a text is no number", "'7'", "not a text"),
    ("a list is no number", "[a]", "not a list"),
    ("division by zero", "a / (b - 4)", "divides by zero"),
    ("remainder by zero", "1 % 0", "divides by zero"),
    ("remainder of a trigger's value", "a % 2", "whole numbers"),
    ("a number is no condition", "a ? 1 : 2", "true or false is needed"),
    ("a root", "(-8) ** 0.5", "root of a negative"),
    ("too large", "10 ** 400", "no result: a number becomes too large"),
    ("far too large", "9**9**9", "no result: a number becomes too large"),
    ("nothing to a negative power", "0 ** -1", "zero to a negative power"),
    ("infinite", "1e308 * 10", "finite"),
    ("not a number", "float('nan')", "finite"),
    ("of nothing", "max([])", "no numbers"),
    ("too few arguments", "abs()", "no result"),
    ("a list is needed", "sum(a)", "a list is needed"),
    ("a range of what is not whole", "sum(1 .. a)", "whole numbers"),
    ("a large range", "len(1..100_000_000_000)", "more than 10000 elements"),
    ("a range of numbers too large", f"len({'9' * 400} .. {'9' * 401})", "more than 10000 elements"),
    ("lists of lists", "let c = [[a]]; c == [[a]] ? 1 : 0", "lists of lists"),
    ("a name that has gone", "(let c = 1; c) + c", "no trigger named c"),
)
def test_formulas_without_a_result(text: str, why: str) -> None:
    with pytest.raises(FormulaError, match=why):
        parser.parse(text).value(VALUES)


def test_the_variables_are_known() -> None:
    assert parser.parse("a > 1 ? sum([b, a], {# + c}) : nil").names == {"a", "b", "c"}
    assert parser.parse("let c = a; c + b").names == {"a", "b"}


def test_a_long_chain_is_no_deep_nest() -> None:
    assert parser.parse("+".join(["1"] * 4_000)).value({}) == 4_000


def test_closures_in_closures_are_bounded() -> None:
    ten = "[1,1,1,1,1,1,1,1,1,1]"
    text = "1"
    for _ in range(8):
        text = f"sum({ten}, {{{text}}})"
    with pytest.raises(FormulaError, match=str(MOST_ELEMENTS)):
        parser.parse(text).value({})


SIGNS = [*"()[]{}#,?:+-*/%^!<>=. ;|", "??", "**", "&&", "||", "..", "let c = "]
WORDS = [
    "in",
    "c",
    "filter",
    "not",
    "a",
    "b",
    "gone",
    "nil",
    "true",
    "sum",
    "count",
    "map",
    "max",
    "float",
    "int",
    "len",
    "median",
]
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
