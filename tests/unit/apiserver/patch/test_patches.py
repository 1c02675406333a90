"""JSON patch and JSON merge patch: the RFCs' own examples, what is refused, and laws."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver.patch import PatchError
from deploy.local.apiserver.patch.patches import MAX_OPERATIONS, json_patch, merge_patch, same
from tests.support.tables import cases

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
)
objects = st.dictionaries(st.text("abc", min_size=1, max_size=2), values, max_size=4)


@cases(
    ("a value replaces", {"a": "b"}, {"a": "c"}, {"a": "c"}),
    ("a new member is added", {"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ("null removes", {"a": "b", "c": 1}, {"a": None}, {"c": 1}),
    ("null of nothing is nothing", {}, {"a": None}, {}),
    ("a list gives way to a value", {"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ("lists are replaced whole", {"a": [{"b": 1}]}, {"a": [1]}, {"a": [1]}),
    ("objects merge", {"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
    ("an object over a value keeps no nulls", {"a": 3}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ("nulls vanish at any depth", {}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
)
def test_a_merge_patch_merges(doc: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(doc, patch) == expected


def test_a_merge_patch_must_be_an_object() -> None:
    with pytest.raises(PatchError) as refused:
        merge_patch({}, [1])
    assert refused.value.status == 400


def _difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The merge patch that makes `new` of `old`, for objects without nulls."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            patch[name] = _difference(before, value)
        elif name not in old or not same(before, value):
            patch[name] = value
    return patch


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return value


@given(objects, objects)
def test_merging_the_difference_gives_the_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    one, other = _without_nulls(one), _without_nulls(other)
    assert same(merge_patch(one, _difference(one, other)), other)


@given(objects, objects)
def test_merging_twice_is_merging_once_and_changes_no_argument(doc: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((doc, patch))
    once = merge_patch(doc, patch)
    assert same(merge_patch(once, patch), once)
    assert same([doc, patch], list(before))


@cases(
    ("add a member", {"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    ("insert", {"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    ("append", {"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    ("add replaces a member", {"a": 1}, [{"op": "add", "path": "/a", "value": None}], {"a": None}),
    ("remove a member", {"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
    ("remove an item", {"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    ("replace an item", {"a": [1]}, [{"op": "replace", "path": "/a/0", "value": 5}], {"a": [5]}),
    ("replace the last item", {"a": [1, 2]}, [{"op": "replace", "path": "/a/-1", "value": 5}], {"a": [1, 5]}),
    ("replace a member that is not there", {"a": {}}, [{"op": "replace", "path": "/a/b", "value": 1}], {"a": {"b": 1}}),
    ("remove the last item but one", {"a": [1, 2]}, [{"op": "remove", "path": "/a/-2"}], {"a": [2]}),
    ("append by a negative index", {"a": [1]}, [{"op": "add", "path": "/a/-1", "value": 2}], {"a": [1, 2]}),
    ("insert before all", {"a": [1, 2]}, [{"op": "add", "path": "/a/-3", "value": 0}], {"a": [0, 1, 2]}),
    ("copy the last item", {"a": [1, 2]}, [{"op": "copy", "from": "/a/-1", "path": "/b"}], {"a": [1, 2], "b": 2}),
    ("test the last item", {"a": [1, 2]}, [{"op": "test", "path": "/a/-1", "value": 2}], {"a": [1, 2]}),
    ("an index with a leading zero", {"a": [1, 2]}, [{"op": "remove", "path": "/a/01"}], {"a": [1]}),
    ("replace everything", {"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
    ("test everything", {"a": 1}, [{"op": "test", "path": "", "value": {"a": 1}}], {"a": 1}),
    ("move", {"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    ("move onto itself", {"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
    ("move an item", {"a": [1, 2]}, [{"op": "move", "from": "/a/0", "path": "/a/1"}], {"a": [2, 1]}),
    ("copy", {"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
    ("a test that holds", {"a": [1]}, [{"op": "test", "path": "/a", "value": [1]}], {"a": [1]}),
    ("a test that a member is not there", {}, [{"op": "test", "path": "/a", "value": None}], {}),
    ("an escaped slash", {"x/y": 1, "~": 2}, [{"op": "remove", "path": "/x~1y"}], {"~": 2}),
    ("an escaped tilde", {"x/y": 1, "~1": 2}, [{"op": "remove", "path": "/~01"}], {"x/y": 1}),
)
def test_a_json_patch_applies(doc: Any, operations: Any, expected: Any) -> None:
    before = copy.deepcopy(doc)
    assert json_patch(doc, operations) == expected
    assert doc == before


@cases(
    ("no list", {"op": "add"}, 400),
    ("no operations in the list", ["add"], 400),
    ("unknown operation", [{"op": "bad", "path": "/a"}], 422),
    ("an operation that is no text", [{"op": ["add"], "path": "/a"}], 422),
    ("remove what is not there", [{"op": "remove", "path": "/x"}], 422),
    ("replace below what is not there", [{"op": "replace", "path": "/x/y", "value": 1}], 422),
    ("replace an item that is not there", [{"op": "replace", "path": "/l/2", "value": 1}], 422),
    ("replace beyond the beginning", [{"op": "replace", "path": "/l/-3", "value": 1}], 422),
    ("replace without a value", [{"op": "replace", "path": "/a"}], 422),
    ("add below nothing", [{"op": "add", "path": "/x/y", "value": 1}], 422),
    ("insert beyond the end", [{"op": "add", "path": "/l/3", "value": 1}], 422),
    ("insert beyond the beginning", [{"op": "add", "path": "/l/-4", "value": 1}], 422),
    ("an index that is no number", [{"op": "add", "path": "/l/1e0", "value": 1}], 422),
    ("an index of thousands of digits", [{"op": "remove", "path": f"/l/{'9' * 5000}"}], 422),
    ("a path without a slash", [{"op": "add", "path": "a", "value": 1}], 422),
    ("a test that fails", [{"op": "test", "path": "/a", "value": 2}], 422),
    ("a test of what is not there", [{"op": "test", "path": "/x", "value": 2}], 422),
    ("a test below what is not there", [{"op": "test", "path": "/x/y", "value": None}], 422),
    ("one is not true", [{"op": "test", "path": "/a", "value": True}], 422),
    ("move into itself", [{"op": "move", "from": "/o", "path": "/o/p"}], 422),
    ("no object is left", [{"op": "replace", "path": "", "value": 3}], 422),
    ("the whole document is added", [{"op": "add", "path": "", "value": {"a": 1}}], 422),
    ("the whole document is removed", [{"op": "remove", "path": ""}], 422),
    ("the whole document is copied", [{"op": "copy", "from": "", "path": "/b"}], 422),
    ("a copy is the whole document", [{"op": "copy", "from": "/a", "path": ""}], 422),
    ("the whole document is moved", [{"op": "move", "from": "", "path": "/b"}], 422),
    ("what is moved is the whole document", [{"op": "move", "from": "/a", "path": ""}], 422),
    ("too many operations", [{"op": "remove", "path": "/a"}] * (MAX_OPERATIONS + 1), 413),
    ("copies of copies", [{"op": "copy", "from": "/l", "path": "/l/-"}] * 60, 413),
    ("copies in copies", [{"op": "copy", "from": "/o", "path": "/o/q"}] * 300, 422),
)
def test_a_json_patch_is_refused(operations: Any, status: int) -> None:
    doc = {"a": 1, "l": [1, 2], "o": {"q": 1}}
    with pytest.raises(PatchError) as refused:
        json_patch(doc, operations)
    assert refused.value.status == status
    assert doc == {"a": 1, "l": [1, 2], "o": {"q": 1}}


@given(objects, st.text("abc", min_size=1, max_size=2), values)
def test_an_added_member_can_be_tested_and_removed(doc: dict[str, Any], name: str, value: Any) -> None:
    path = f"/{name}"
    added = json_patch(doc, [{"op": "add", "path": path, "value": value}, {"op": "test", "path": path, "value": value}])
    without = {key: member for key, member in doc.items() if key != name}
    assert same(json_patch(added, [{"op": "remove", "path": path}]), without)
