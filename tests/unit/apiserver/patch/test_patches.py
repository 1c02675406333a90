"""JSON patch and JSON merge patch: the RFCs' own examples, what is refused, and laws."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver.patch import PatchError
from deploy.local.apiserver.patch.patches import MAX_OPERATIONS, json_patch, merge_patch, same

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
)
objects = st.dictionaries(st.text("abc", min_size=1, max_size=2), values, max_size=4)


@pytest.mark.parametrize(
    ("doc", "patch", "expected"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="a value replaces"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="a new member is added"),
        pytest.param({"a": "b", "c": 1}, {"a": None}, {"c": 1}, id="null removes"),
        pytest.param({}, {"a": None}, {}, id="null of nothing is nothing"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a list gives way to a value"),
        pytest.param({"a": [{"b": 1}]}, {"a": [1]}, {"a": [1]}, id="lists are replaced whole"),
        pytest.param({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}, id="objects merge"),
        pytest.param({"a": 3}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="an object over a value keeps no nulls"),
        pytest.param({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}, id="nulls vanish at any depth"),
    ],
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


@pytest.mark.parametrize(
    ("doc", "operations", "expected"),
    [
        pytest.param({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}, id="add a member"),
        pytest.param({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}, id="insert"),
        pytest.param({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}, id="append"),
        pytest.param({"a": 1}, [{"op": "add", "path": "/a", "value": None}], {"a": None}, id="add replaces a member"),
        pytest.param({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}, id="remove a member"),
        pytest.param({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}, id="remove an item"),
        pytest.param({"a": [1]}, [{"op": "replace", "path": "/a/0", "value": 5}], {"a": [5]}, id="replace an item"),
        pytest.param({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}, id="replace everything"),
        pytest.param({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}, id="move"),
        pytest.param({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}, id="move onto itself"),
        pytest.param({"a": [1, 2]}, [{"op": "move", "from": "/a/0", "path": "/a/1"}], {"a": [2, 1]}, id="move an item"),
        pytest.param(
            {"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}, id="copy"
        ),
        pytest.param({"a": [1]}, [{"op": "test", "path": "/a", "value": [1]}], {"a": [1]}, id="a test that holds"),
        pytest.param({"x/y": 1, "~": 2}, [{"op": "remove", "path": "/x~1y"}], {"~": 2}, id="an escaped slash"),
        pytest.param({"x/y": 1, "~1": 2}, [{"op": "remove", "path": "/~01"}], {"x/y": 1}, id="an escaped tilde"),
    ],
)
def test_a_json_patch_applies(doc: Any, operations: Any, expected: Any) -> None:
    before = copy.deepcopy(doc)
    assert json_patch(doc, operations) == expected
    assert doc == before


@pytest.mark.parametrize(
    ("operations", "status"),
    [
        pytest.param({"op": "add"}, 400, id="no list"),
        pytest.param(["add"], 400, id="no operations in the list"),
        pytest.param([{"op": "bad", "path": "/a"}], 422, id="unknown operation"),
        pytest.param([{"op": ["add"], "path": "/a"}], 422, id="an operation that is no text"),
        pytest.param([{"op": "remove", "path": "/x"}], 422, id="remove what is not there"),
        pytest.param([{"op": "replace", "path": "/x", "value": 1}], 422, id="replace what is not there"),
        pytest.param([{"op": "replace", "path": "/a"}], 422, id="replace without a value"),
        pytest.param([{"op": "add", "path": "/x/y", "value": 1}], 422, id="add below nothing"),
        pytest.param([{"op": "add", "path": "/l/3", "value": 1}], 422, id="insert beyond the end"),
        pytest.param([{"op": "add", "path": "/l/01", "value": 1}], 422, id="an index with a leading zero"),
        pytest.param([{"op": "add", "path": "a", "value": 1}], 422, id="a path without a slash"),
        pytest.param([{"op": "test", "path": "/a", "value": 2}], 422, id="a test that fails"),
        pytest.param([{"op": "test", "path": "/a", "value": True}], 422, id="one is not true"),
        pytest.param([{"op": "move", "from": "/o", "path": "/o/p"}], 422, id="move into itself"),
        pytest.param([{"op": "replace", "path": "", "value": 3}], 422, id="no object is left"),
        pytest.param([{"op": "remove", "path": "/a"}] * (MAX_OPERATIONS + 1), 413, id="too many operations"),
        pytest.param([{"op": "copy", "from": "/l", "path": "/l/-"}] * 60, 413, id="copies of copies"),
        pytest.param([{"op": "copy", "from": "/o", "path": "/o/q"}] * 300, 422, id="copies in copies"),
    ],
)
def test_a_json_patch_is_refused(operations: Any, status: int) -> None:
    doc = {"a": 1, "l": [1, 2], "o": {"q": 1}}
    with pytest.raises(PatchError) as refused:
        json_patch(doc, operations)
    assert refused.value.status == status
    assert doc == {"a": 1, "l": [1, 2], "o": {"q": 1}}


@given(objects, st.text("abc", min_size=1, max_size=2), values)
def test_what_was_added_can_be_tested_and_removed(doc: dict[str, Any], name: str, value: Any) -> None:
    path = f"/{name}"
    added = json_patch(doc, [{"op": "add", "path": path, "value": value}, {"op": "test", "path": path, "value": value}])
    without = {key: member for key, member in doc.items() if key != name}
    assert same(json_patch(added, [{"op": "remove", "path": path}]), without)
