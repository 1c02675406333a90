"""Server-side apply over HTTP: what is answered, right and wrong, and what clients do with it."""

from typing import Any

import yaml

from tests.integration.apiserver.client import (
    DEFINITIONS,
    MERGE,
    Answer,
    Api,
    config_map,
    custom,
    definition,
    job,
    pod,
    until,
)
from tests.integration.apiserver.conftest import Kubectl
from tests.support.tables import cases

APPLY = "application/apply-patch+yaml"


def apply(api: Api, path: str, body: Any, manager: str = "ant", **query: Any) -> Answer:
    return api("PATCH", path, body, type=APPLY, fieldManager=manager, **query)


def managers(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(entry["manager"], entry["operation"]) for entry in body["metadata"].get("managedFields", ())]


def named(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, **more}


def test_applies_create_conflict_force_and_take_back(api: Api) -> None:
    path = f"{api.maps}/one"
    assert (created := apply(api, path, named(data={"a": "1", "b": "1"}))).code == 201
    assert apply(api, path, named(data={"a": "1", "b": "1"})).version == created.version
    assert apply(api, path, named(data={"a": "1"}), "bee").code == 200
    refused = apply(api, path, named(data={"a": "2"}), "bee")
    assert (refused.code, refused.body["reason"]) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "ant": .data.a'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "ant"', "field": ".data.a"}
    assert refused.body["details"]["causes"] == [cause]
    assert apply(api, path, named(data={"a": "2"}), "bee", dryRun="All", force="true").body["data"] == {
        "a": "2",
        "b": "1",
    }
    assert apply(api, path, named(data={"a": "2"}), "bee", force="true").code == 200
    taken = api("PATCH", path, {"data": {"b": "3"}}, type=MERGE, fieldManager="dog").body
    assert managers(taken) == [("bee", "Apply"), ("dog", "Update")]
    assert apply(api, path, yaml.safe_dump(named()).encode(), "bee").body["data"] == {"b": "3"}


WRONG: dict[str, tuple[Any, dict[str, str], int, str]] = {
    "no manager": (
        *(named(), {}, 422),
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    ),
    "other version": (
        *(named(apiVersion="v2"), {"fieldManager": "ant"}, 400),
        "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
    ),
    "managedFields": (
        *(named(metadata={"name": "one", "managedFields": [{}]}), {"fieldManager": "ant"}, 400),
        "metadata.managedFields must be nil",
    ),
    "no name": (
        *(named(metadata={}), {"fieldManager": "ant"}, 400),
        "the name of the object (one based on URL) was undeterminable: name must be provided",
    ),
    "other name": (
        *(named(metadata={"name": "two"}), {"fieldManager": "ant"}, 400),
        "the name of the object (two) does not match the name on the URL (one)",
    ),
    "uid of a new object": (
        *(named(metadata={"name": "one", "uid": "x"}), {"fieldManager": "ant"}, 409),
        'Operation cannot be fulfilled on configmaps "one": uid mismatch: the provided object specified uid x, and no '
        "existing object was found",
    ),
    "no object": (b"[]", {"fieldManager": "ant"}, 400, ""),
}


@cases(WRONG)
def test_a_wrong_apply_is_refused(body: Any, query: dict[str, str], code: int, message: str, api: Api) -> None:
    answer = api("PATCH", f"{api.maps}/one", body, type=APPLY, **query)
    assert answer.code == code
    assert answer.message == (message or answer.message)


def test_force_is_for_applies(api: Api) -> None:
    api.create(api.maps, config_map())
    answer = api("PATCH", f"{api.maps}/one", {}, type=MERGE, force="true")
    assert (answer.code, answer.body["details"]["causes"][0]["field"]) == (422, "force")


def test_what_a_real_server_answers_with_500_is_the_clients_fault(ours: Api) -> None:
    for body in (named(kind=""), named(kind="Secret"), named(nothing={}), named(data=["a"])):
        assert apply(ours, f"{ours.maps}/one", body).code == 400, body


def test_owners_are_recorded_from_the_first_apply_on_until_they_are_cleared(ours: Api) -> None:
    path = f"{ours.maps}/one"
    ours.create(ours.maps, config_map())
    assert managers(ours.patch(path, {"data": {"b": "1"}}).body) == []
    refused = apply(ours, path, named(data={"a": "2"}))
    assert refused.message == 'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a'
    known = [("ant", "Apply"), ("before-first-apply", "Update")]
    assert managers(apply(ours, path, named(data={"c": "1"})).body) == known
    whole = ours.get(path).body
    del whole["metadata"]["managedFields"]
    entries = ours("PUT", path, {**whole, "data": {"c": "1"}}).body["metadata"]["managedFields"]
    assert [entry["fieldsV1"] for entry in entries] == [{"f:data": {"f:c": {}}}, {"f:data": {}}]
    for nothing in ([], [{}]):
        assert managers(ours.patch(path, {"metadata": {"managedFields": nothing}}).body) == []
        assert managers(ours.patch(path, {"data": {"d": str(nothing)}}).body) == []
        assert apply(ours, path, named(data={"c": "1"})).code == 200


def test_status_and_scale_have_owners_of_their_own(ours: Api) -> None:
    path = f"/apis/apps/v1/namespaces/{ours.namespace}/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one"}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    apply(ours, f"{path}/one", {**head, "spec": spec, "status": {"replicas": 7}})
    told = apply(ours, f"{path}/one/status", {**head, "spec": {"replicas": 9}, "status": {"replicas": 1}}).body
    assert (told["spec"]["replicas"], told["status"]["replicas"]) == (1, 1)
    scaled = ours("PATCH", f"{path}/one/scale", {"spec": {"replicas": 2}}, type=MERGE, fieldManager="dog")
    assert scaled.code == 200
    entries = ours.get(f"{path}/one").body["metadata"]["managedFields"]
    assert [(e["manager"], e.get("subresource"), sorted(e["fieldsV1"])) for e in entries] == [
        ("ant", None, ["f:spec"]),
        ("ant", "status", ["f:status"]),
        ("dog", "scale", ["f:spec"]),
    ]
    assert "f:replicas" not in entries[0]["fieldsV1"]["f:spec"]
    refused = apply(ours, f"{path}/one", {**head, "spec": spec})
    assert refused.message == (
        'Apply failed with 1 conflict: conflict with "dog" with subresource "scale" using apps/v1: .spec.replicas'
    )
    assert apply(ours, f"{path}/two/status", {**head, "metadata": {"name": "two"}}).code == 404


def test_a_custom_resource_merges_by_its_schema(ours: Api) -> None:
    items = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}}
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "items": items}
    ours.create(
        DEFINITIONS,
        definition(
            "shrubs", {"type": "object", "properties": {"spec": {"type": "object", "properties": {"map": keyed}}}}
        ),
    )
    path = f"/apis/test.penstock.dev/v1/namespaces/{ours.namespace}/shrubs"
    until(lambda: ours.get(path).code == 200, "the definition is served")
    apply(ours, f"{path}/one", custom("Shrub", "one", spec={"map": [{"id": "a", "n": 1}]}))
    both = apply(ours, f"{path}/one", custom("Shrub", "one", spec={"map": [{"id": "b"}]}), "bee")
    assert both.body["spec"]["map"] == [{"id": "a", "n": 1}, {"id": "b"}]
    assert apply(ours, f"{path}/one", custom("Shrub", "one", spec={"map": [{"id": "a", "x": 1}]})).code == 400


def test_kubectl_applies_on_the_server_and_turns_from_one_apply_to_the_other(ours: Api, kubectl: Kubectl) -> None:
    manifest = job("crunch")
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(manifest))
    shown = kubectl("get", "job", "crunch", "-o", "yaml")
    assert "managedFields" not in shown
    conflict = named(data={"a": "1"})
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(conflict))
    changed = yaml.safe_dump(named(data={"a": "2"}))
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=changed)
    owned = ours.get(f"{ours.maps}/one").body
    assert owned["data"] == {"a": "2"}
    assert ("kubectl", "Apply") in managers(owned)
    refused = kubectl(
        "apply", "--server-side", "--field-manager=bee", "-f", "-", stdin=yaml.safe_dump(conflict), fails=True
    )
    assert 'conflict with "kubectl"' in refused
    forced = ("apply", "--server-side", "--field-manager=bee", "--force-conflicts", "-f", "-")
    assert "serverside-applied" in kubectl(*forced, stdin=yaml.safe_dump(conflict))
