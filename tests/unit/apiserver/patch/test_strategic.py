"""Strategic merge patches: rows that a real API server answered the same way, and a slow model of keyed lists."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver.patch import PatchError
from deploy.local.apiserver.patch.strategic import strategic_merge_patch
from tests.support.tables import cases, for_each
from workers.api.kinds import JOB, POD, SCALED_JOB, Kind

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": spec}


def env(*names: str) -> list[dict[str, str]]:
    return [{"name": name[0], "value": name[1:] or "1"} for name in names]


@cases(
    ("an item merges by its key", env("A", "B"), env("B2"), env("A", "B2")),
    ("new items come first, as they follow nothing", env("A"), env("B2"), env("B2", "A")),
    ("the patch decides the order of its items", env("A", "B", "C"), env("C2", "A2"), env("B", "C2", "A2")),
    ("delete by key", env("A", "B"), [{"name": "A", "$patch": "delete"}], env("B")),
    ("replace the whole list", env("A"), [{"$patch": "replace"}, *env("B2")], env("B2")),
    ("an empty list changes nothing", env("A", "B"), [], env("A", "B")),
)
def test_a_keyed_list_merges(old: Any, patch: Any, expected: Any) -> None:
    doc = pod(containers=[{"name": "c", "image": "x", "env": old}])
    change = {"spec": {"containers": [{"name": "c", "env": patch}]}}
    before = copy.deepcopy(doc)
    result = strategic_merge_patch(POD, doc, change)
    assert result["spec"]["containers"] == [{"name": "c", "image": "x", "env": expected}]
    assert doc == before


NODES = pod(nodeSelector={"a": "b"})


@cases(
    ("null removes a member", pod(hostname="a", subdomain="b"), {"spec": {"hostname": None}}, pod(subdomain="b")),
    ("maps merge", NODES, {"spec": {"nodeSelector": {"c": "d"}}}, pod(nodeSelector={"a": "b", "c": "d"})),
    (
        "a map is replaced on demand",
        *(NODES, {"spec": {"nodeSelector": {"$patch": "replace", "c": "d"}}}),
        pod(nodeSelector={"c": "d"}),
    ),
    ("a map is emptied on demand", NODES, {"spec": {"nodeSelector": {"$patch": "delete"}}}, pod(nodeSelector={})),
    (
        "a list without a key is replaced",
        pod(tolerations=[{"key": "a"}]),
        *({"spec": {"tolerations": [{"key": "b"}]}}, pod(tolerations=[{"key": "b"}])),
    ),
    (
        "retained keys drop the other alternative",
        pod(volumes=[{"name": "v", "emptyDir": {}}]),
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}},
        pod(volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
    ),
    (
        "the element order is as the client says",
        pod(containers=[{"name": "a"}, {"name": "b"}, {"name": "c"}]),
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
                "containers": [{"name": "a", "image": "x"}],
            }
        },
        pod(containers=[{"name": "b"}, {"name": "c"}, {"name": "a", "image": "x"}]),
    ),
)
def test_a_pod_is_patched(old: Any, patch: Any, expected: Any) -> None:
    assert strategic_merge_patch(POD, old, patch) == expected


@cases(
    ("a set takes in", {"finalizers": ["b", "c"]}, ["a", "b", "c"]),
    ("a set gives away", {"$deleteFromPrimitiveList/finalizers": ["a"]}, ["b"]),
    ("a set is removed", {"finalizers": None}, None),
    ("a set is ordered", {"$setElementOrder/finalizers": ["b", "a"]}, ["b", "a"]),
)
def test_finalizers_are_a_set(patch: Any, expected: Any) -> None:
    result = strategic_merge_patch(JOB, {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": patch})
    assert result["metadata"].get("finalizers") == expected


def test_conditions_of_a_job_merge_by_type() -> None:
    old = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "Suspended", "status": "False"}, {"type": "Failed", "status": "True"}]}}
    assert strategic_merge_patch(JOB, old, patch) == patch


def test_a_deployment_strategy_retains_keys() -> None:
    old = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_merge_patch(DEPLOYMENT, old, patch) == {"spec": {"strategy": {"type": "Recreate"}}}


@cases(
    ("no object", [1], 400, "cannot unmarshal array"),
    (
        "an item without its key",
        {"spec": {"containers": [{"image": "y"}]}},
        422,
        "map: map[image:y] does not contain declared merge key: name",
    ),
    ("a directive", {"spec": {"$patch": "foo"}}, 422, "unknown patch type: foo in map: map[$patch:foo]"),
    ("retained keys", {"spec": {"$retainKeys": ["a"], "hostname": "x"}}, 400, "invalid patch format of retainKeys"),
    ("lists in lists", {"spec": {"containers": [["a"]]}}, 422, "lists of lists"),
    ("a key that is none", {"spec": {"containers": [{"name": {"a": "b"}}]}}, 422, "map[a:b] is no plain value"),
    ("a list of nothing", {"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}, 400, "primitive list"),
    ("an order of no list", {"spec": {"$setElementOrder/nodeSelector": ["a"]}}, 400, "setElementOrder"),
    (
        "an order without a patched item",
        {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}},
        422,
        "doesn't match",
    ),
)
def test_a_patch_is_refused(patch: Any, status: int, message: str) -> None:
    with pytest.raises(PatchError) as refused:
        strategic_merge_patch(POD, pod(containers=[{"name": "a"}]), patch)
    assert refused.value.status == status
    assert message in str(refused.value)


def test_custom_resources_have_no_keys() -> None:
    with pytest.raises(LookupError):
        strategic_merge_patch(SCALED_JOB, {}, {})


MANY = [{"name": str(number), "value": "1"} for number in range(60_000)]


@cases(
    ("items", {"spec": {"containers": [{"name": "c", "env": MANY}]}}, 60_000),
    ("deletions", {"spec": {"containers": [{"name": "c", "env": [{**each, "$patch": "delete"} for each in MANY]}]}}, 0),
    (
        "an order",
        {"spec": {"containers": [{"name": "c", "$setElementOrder/env": MANY[::-1], "env": MANY[::-1]}]}},
        60_000,
    ),
)
def test_a_large_patch_takes_no_longer_than_its_length(patch: Any, count: int) -> None:
    """Its items are found by their keys: with the square of their number it would take minutes and time out."""
    doc = pod(containers=[{"name": "c", "env": MANY}])
    assert len(strategic_merge_patch(POD, doc, patch)["spec"]["containers"][0]["env"]) == count


@for_each("finalizers", "$deleteFromPrimitiveList/finalizers")
def test_a_large_set_takes_no_longer_than_its_length(field: str) -> None:
    names = [str(number) for number in range(60_000)]
    result = strategic_merge_patch(POD, {"metadata": {"finalizers": names}}, {"metadata": {field: names}})
    assert result["metadata"]["finalizers"] == ([] if field.startswith("$") else names)


letters = st.lists(st.sampled_from("ABCDEFG"), unique=True, max_size=6)


@given(letters, st.lists(st.tuples(st.sampled_from("ABCDEFGH"), st.booleans()), unique_by=lambda p: p[0], max_size=6))
def test_keyed_lists_merge_as_a_dictionary_does(live: list[str], changes: list[tuple[str, bool]]) -> None:
    """In any order: deleted items are gone, patched items have the new value, the others are unchanged."""
    patch = [{"name": name, "$patch": "delete"} if gone else {"name": name, "value": "2"} for name, gone in changes]
    doc = pod(containers=[{"name": "c", "env": env(*live)}])
    result = strategic_merge_patch(POD, doc, {"spec": {"containers": [{"name": "c", "env": patch}]}})
    found = result["spec"]["containers"][0]["env"]
    model = dict.fromkeys(live, "1")
    for name, gone in changes:
        model.pop(name, None)
        if not gone:
            model[name] = "2"
    assert {item["name"]: item["value"] for item in found} == model
    assert len(found) == len(model)
    order = [item["name"] for item in found]
    named = [name for name, gone in changes if not gone]
    assert [name for name in order if name in named] == named
    others = [name for name in live if name in model and name not in named]
    assert [name for name in order if name in others] == others


def test_items_of_a_list_that_was_not_there_are_taken_as_they_are() -> None:
    patch = {"status": {"conditions": [{"status": "True"}, {"$patch": "delete", "type": "Ready"}]}}
    assert strategic_merge_patch(POD, {}, patch) == {"status": {"conditions": [{"status": "True"}]}}


def test_a_set_takes_plain_values_only() -> None:
    with pytest.raises(PatchError, match="is no plain value") as refused:
        strategic_merge_patch(POD, {"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": [{"b": "c"}]}})
    assert refused.value.status == 422
