"""The three-way merge: the patch from the last applied manifest, the new one and the live object."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deploy.cli.objects import last_applied
from tests.support.merging import merged
from tests.support.tables import cases, for_each


@cases(
    ("equal", {}, {"a": 1}, {"a": 1}, {}),
    ("what the manifest never had is left alone", {}, {"a": 1}, {"a": 1, "b": 2}, {}),
    ("applied once and gone from the manifest is removed", {"b": 2}, {}, {"b": 3}, {"b": None}),
    ("already removed on the server", {"b": 2}, {}, {}, {}),
    ("changed", {}, {"a": 2}, {"a": 1}, {"a": 2}),
    ("changed by another client is put back", {"a": 1}, {"a": 1}, {"a": 5}, {"a": 1}),
    ("true is not 1", {}, {"a": True}, {"a": 1}, {"a": True}),
    ("null removes", {}, {"a": None}, {"a": 1}, {"a": None}),
    ("null of nothing", {}, {"a": None}, {}, {}),
    ("removed inside", {"s": {"x": 1}}, {"s": {}}, {"s": {"x": 1, "y": 2}}, {"s": {"x": None}}),
    ("an empty mapping is a value", {}, {"s": {}}, {}, {"s": {}}),
    ("a list's order counts", {}, {"l": [1, 2]}, {"l": [2, 1]}, {"l": [1, 2]}),
    ("a list emptied", {}, {"l": []}, {"l": [1]}, {"l": []}),
    ("defaults inside list items", {}, {"c": [{"name": "m"}]}, {"c": [{"name": "m", "pull": "Always"}]}, {}),
    (
        "removed inside a list item",
        {"c": [{"name": "m", "tty": True}]},
        {"c": [{"name": "m"}]},
        {"c": [{"name": "m", "tty": True}]},
        {"c": [{"name": "m"}]},
    ),
    (
        "a list that became shorter is not trusted",
        {"c": [{"n": 1, "x": 1}, {"n": 2}]},
        {"c": [{"n": 1}]},
        {"c": [{"n": 1, "x": 1}]},
        {"c": [{"n": 1}]},
    ),
    (
        "nor one that lost its first item",
        {"c": [{"n": 0}, {"n": 1, "x": 1}]},
        {"c": [{"n": 1}]},
        {"c": [{"n": 1, "x": 1}]},
        {"c": [{"n": 1}]},
    ),
    ("nor one that became longer", {"c": [1]}, {"c": [1, 2]}, {"c": [1, 3]}, {"c": [1, 2]}),
)
def test_merge_sends_exactly_the_difference(last: Any, wanted: Any, live: Any, patch: Any) -> None:
    assert last_applied.merge(last, wanted, live) == patch


values = st.recursive(
    st.integers(0, 2) | st.booleans() | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@given(last=objects, wanted=objects, live=objects)
def test_after_the_patch_everything_wanted_is_there_and_nothing_is_left_to_send(
    last: Any, wanted: Any, live: Any
) -> None:
    after = merged(live, last_applied.merge(last, wanted, live))
    assert last_applied.merge(last, wanted, after) == {}
    assert not (set(last) - set(wanted)) & set(after)


@given(wanted=objects, additions=objects)
def test_fields_added_by_the_server_are_never_removed(wanted: Any, additions: Any) -> None:
    live = {**additions, **wanted}
    assert last_applied.merge(wanted, wanted, live) == {}


def manifest(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}, "data": {"k": "v"}}


def test_an_applied_object_remembers_its_manifest() -> None:
    live = last_applied.annotated(manifest(annotations={"mine": "1"}))
    assert live["metadata"]["annotations"]["mine"] == "1"
    assert last_applied.recorded(live) == manifest(annotations={"mine": "1"})


def test_the_annotation_is_spelt_as_kubectl_spells_it() -> None:
    text = last_applied.annotated(manifest(namespace="b") | {"data": {"k": "<&>"}})["metadata"]["annotations"]
    assert text[last_applied.ANNOTATION] == (
        '{"apiVersion":"v1","data":{"k":"\\u003c\\u0026\\u003e"},"kind":"ConfigMap",'
        '"metadata":{"annotations":{},"name":"a","namespace":"b"}}\n'
    )


def test_a_second_apply_sends_nothing() -> None:
    live = last_applied.annotated(manifest())
    assert last_applied.patch(last_applied.recorded(live), manifest(), live) == {}


def test_an_object_made_otherwise_gets_the_annotation_even_if_nothing_differs() -> None:
    patch = last_applied.patch({}, manifest(), manifest())
    assert list(patch) == ["metadata"]
    assert json.loads(patch["metadata"]["annotations"][last_applied.ANNOTATION])["data"] == {"k": "v"}


def test_a_change_carries_the_new_annotation_with_it() -> None:
    live = last_applied.annotated(manifest())
    wanted = {**manifest(), "data": {"j": "w"}}
    patch = last_applied.patch(last_applied.recorded(live), wanted, live)
    assert patch["data"] == {"k": None, "j": "w"}
    assert last_applied.recorded(merged(live, patch))["data"] == {"j": "w"}


@for_each("", "no json", "[]")
def test_a_broken_annotation_counts_as_none(text: str) -> None:
    assert last_applied.recorded(manifest(annotations={last_applied.ANNOTATION: text})) == {}
