"""Templates, custom columns and orders by JSONPath; what they print is what kubectl printed for the same."""

from typing import Any

import pytest

from deploy.cli.objects.path_output import Columns, Order, Template
from tests.support.tables import cases, for_each
from workers.errors import UserError

ONE = {
    "kind": "ConfigMap",
    "metadata": {"name": "c1", "annotations": {"x.y": "dotted"}},
    "data": {"a": "1", "b": "two"},
    "spec": {"suspend": False, "parallelism": 2, "empty": None, "share": 0.5},
}
TWO = {"kind": "ConfigMap", "metadata": {"name": "c2", "labels": {"app": "x"}}, "data": {"a": "é日"}}
LIST = {"kind": "List", "items": [ONE, TWO]}


@cases(
    ("text alone", ".metadata.name", ".metadata.name"),
    ("text around", "{.kind}s {.metadata.name}\\n", "Lists \\n"),
    ("one value", "{.kind}", "List"),
    ("several", "{.items[*].metadata.name}", "c1 c2"),
    ("of what is there", "{.items[*].metadata.labels.app}", "x"),
    ("nothing", "{.nope}", ""),
    ("a range", '{range .items[*]}{.metadata.name}{"\\t"}{.data.a}{"\\n"}{end}', "c1\t1\nc2\té日\n"),
    (
        "a range in a range",
        "{range .items[*]}[{.metadata.name}, {range .data.*}({@}){end}]{end}",
        "[c1, (1)(two)][c2, (é日)]",
    ),
    ("the whole in a range", "{range .items[*]}{$.kind}{end}", "ListList"),
    ("quoted text", "{\"a{b}'\"}{'it'}", "a{b}'it"),
    ("an object", "{.items[0].data}", '{"a":"1","b":"two"}'),
    ("truth and number", "{.items[0].spec.suspend}{.items[0].spec.parallelism}{.items[0].spec.share}", "false20.5"),
    ("the last", "{.items[-1].metadata.name}", "c2"),
    ("a part", "{.items[0:1].metadata.name}", "c1"),
    ("a part from the end", "{.items[-1:].metadata.name}", "c2"),
    ("every second", "{.items[::2].metadata.name}", "c1"),
    ("two elements", "{.items[1,0].metadata.name}", "c2 c1"),
    ("two paths", "{.items[*]['metadata.name','data.a']}", "c1 c2 1 é日"),
    ("a dot in a name", "{.items[*].metadata.annotations.x\\.y}", "dotted"),
    ("a dot in brackets", "{.items[*].metadata.annotations['x\\.y']}", "dotted"),
    ("at any depth", "{..name}", "c1 c2"),
    ("all values", "{.items[0].data.*}", "1 two"),
    ("with a member", "{.items[?(@.data.b)].metadata.name}", "c1"),
    ("equal", '{.items[?(@.data.b=="two")].metadata.name}', "c1"),
    ("equal, in other marks", "{.items[?(@.metadata.name=='c2')].data.a}", "é日"),
    ("a bracket in the text", '{.items[?(@.metadata.name != "]}")].metadata.name}', "c1 c2"),
    ("unequal", '{.items[?(@.metadata.name!="c1")].metadata.name}', "c2"),
    ("above", "{.items[?(@.spec.parallelism > 1)].metadata.name}", "c1"),
    ("not below", "{.items[?(@.spec.parallelism<2)].metadata.name}", ""),
    ("equal to another path", "{.items[?(@.kind==@.kind)].metadata.name}", "c1 c2"),
    ("another type", '{.items[?(@.spec.parallelism=="2")].metadata.name}', ""),
    ("spaces in braces", "{ .kind }", "List"),
)
def test_a_template_prints_what_its_paths_find(template: str, printed: str) -> None:
    assert Template.parse(template).render(LIST) == printed


@for_each(
    ("", "a template is missing"),
    ("{.items[*", "not closed"),
    ("{.items[*}", "bracket is not closed"),
    ('{"a}', "not closed"),
    ("{range .items[*]}x", "has no {end}"),
    ("{end}", "without a {range}"),
    ("{if .a}", "begins with a dot"),
    ("{.a .b}", "cannot be understood"),
    ("{.a[x]}", "cannot be understood"),
    ("{.a[::0]}", "must not be 0"),
    ("{.a[?(b==1)]}", "begins with @"),
    ('{.a[?(@.b=~"c")]}', "cannot be understood"),
    ("{}", "begins with a dot"),
)
def test_a_template_that_cannot_be_understood_is_named(template: str, why: str) -> None:
    with pytest.raises(UserError, match=rf"^-o jsonpath: .*{why.replace('{', '.').replace('}', '.')}"):
        Template.parse(template)


def test_an_element_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UserError, match=r"^-o jsonpath: there is no element 0 in a list of 0$"):
        Template.parse("{.items[0].metadata.name}").render({"items": []})


def test_custom_columns_join_values_and_show_what_is_missing() -> None:
    columns = Columns.parse("NAME:.metadata.name,ALL:data.*,X:{.nope},NONE:.spec.empty,FAR:.items[3]")
    assert columns.titles == ("NAME", "ALL", "X", "NONE", "FAR")
    assert columns.row(ONE) == ["c1", "1,two", "<none>", "<none>", "<none>"]
    assert columns.row({**TWO, "items": []})[-1] == "<none>"


@for_each("", "NAME", "NAME:", ":.a", "A:.b,", "A:.b[")
def test_a_custom_column_that_cannot_be_understood_is_named(text: str) -> None:
    with pytest.raises(UserError, match=r"^-o custom-columns: "):
        Columns.parse(text)


@cases(
    ("texts", ["b", "a"], ["a", "b"]),
    ("numbers in texts", ["pod-10", "pod-9", "pod"], ["pod", "pod-9", "pod-10"]),
    ("numbers", [10, 9, 2.5], [2.5, 9, 10]),
    ("missing ones first", ["a", None, "b"], [None, "a", "b"]),
    ("truth values", [True, False], [False, True]),
    ("mixed types", ["a", 1, True, None], [None, True, 1, "a"]),
)
def test_objects_are_ordered_by_the_value_of_a_path(given: list[Any], ordered: list[Any]) -> None:
    order = Order.parse("{.spec.x}")
    assert [body["x"] for body in sorted(({"x": x, "spec": {"x": x}} for x in given), key=order.key)] == ordered


def test_a_field_that_no_object_has_is_no_order() -> None:
    with pytest.raises(UserError, match=r"^--sort-by: no object has the field \.spec\.y$"):
        Order.parse(".spec.y").check([ONE, TWO])
    Order.parse(".data.b").check([ONE, TWO])
    Order.parse(".spec.y").check([])
