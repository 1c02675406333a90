"""References in the patches of a flow."""

from typing import Any

from tests.support.tables import cases
from workers.flows.flow_expressions import FlowScope, filled, patch_problem, value

SCOPE = FlowScope("f", {"n": "5", "mode": "fast"}, {"a": "Completed", "b": None}, "east", 2)


@cases(
    ("texts", ["q-${item}", "${flow}/${index}"], ["q-east", "f/2"]),
    ("a phase that is not known yet", "[${entries.b.phase}]", "[]"),
    ("numbers", {"n": "${int:parameters.n}", "i": "${int:index}"}, {"n": 5, "i": 2}),
    ("no texts", [1, None, True], [1, None, True]),
    ("no reference", "${HOME} $item", "${HOME} $item"),
)
def test_references_are_replaced(tree: Any, found: Any):
    assert filled(tree, SCOPE) == found


@cases(
    ("a text", "${parameters.mode}", "fast"),
    ("a phase that is not known yet", "${entries.b.phase}", ""),
    ("a boolean", "${index} > 1", "true"),
    ("a number", "${index} + 1", "3"),
)
def test_the_value_of_a_switch_is_a_text(text: str, found: str):
    assert value(text, SCOPE) == found


@cases(
    ("a number that is not known yet", {"n": ["${int:parameters.n}", 1]}, None),
    ("an unknown number", {"n": ["${int:parameters.m}"]}, "there is no parameter m"),
    ("an unknown entry", "${entries.x.phase}", "there is no entry x"),
)
def test_a_patch_is_refused_for_unknown_names_alone(tree: Any, problem: str | None):
    assert patch_problem(tree, ["n"], ["a"]) == problem
