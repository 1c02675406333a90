"""The OpenAPI documents: complete, and with the extensions that clients rely on."""

from collections.abc import Iterator
from typing import Any

from deploy.local.apiserver.codec import protobuf_objects, protobuf_openapi
from deploy.local.apiserver.discovery import openapi
from tests.support.tables import for_each
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, JOB, LEASE, POD, SCALED_JOB, Object

KINDS = (JOB, POD, LEASE, CUSTOM_RESOURCE_DEFINITION, SCALED_JOB)
SPEC = {"type": "object", "properties": {"max": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}]}}}
CUSTOM = {SCALED_JOB: {"type": "object", "description": "Scales.", "properties": {"spec": SPEC}}}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@for_each("swagger 2", *(kind.api_version for kind in KINDS))
def test_a_document_refers_to_nothing_outside(version: str) -> None:
    if version == "swagger 2":
        document = openapi.v2_document(KINDS, CUSTOM)
        prefix, schemas = "#/definitions/", document["definitions"]
    else:
        document = openapi.v3_document(version, KINDS, CUSTOM)
        prefix, schemas = "#/components/schemas/", document["components"]["schemas"]
    names = {reference.removeprefix(prefix) for reference in references(document)}
    assert names
    assert names <= schemas.keys()


def test_a_document_tells_how_to_merge_lists() -> None:
    schemas = openapi.v3_document("v1", KINDS, CUSTOM)["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert (containers["x-kubernetes-patch-merge-key"], containers["x-kubernetes-patch-strategy"]) == ("name", "merge")
    volumes = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["volumes"]
    assert volumes["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert schemas["io.k8s.api.core.v1.Container"]["required"] == ["name"]


def test_a_document_offers_field_validation_in_the_parameters_of_a_patch() -> None:
    paths = openapi.v3_document("batch/v1", KINDS, CUSTOM)["paths"]
    assert paths.keys() == {
        "/apis/batch/v1/namespaces/{namespace}/jobs",
        "/apis/batch/v1/namespaces/{namespace}/jobs/{name}",
    }
    patch = paths["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "batch", "version": "v1", "kind": "Job"}
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]


def test_a_custom_resource_is_described_by_its_own_schema() -> None:
    third = openapi.v3_document("keda.sh/v1alpha1", KINDS, CUSTOM)["components"]["schemas"]
    described = third["sh.keda.v1alpha1.ScaledJob"]
    assert described["description"] == "Scales."
    assert described["properties"]["spec"] == SPEC
    gvk = {"group": "keda.sh", "version": "v1alpha1", "kind": "ScaledJob"}
    assert described["x-kubernetes-group-version-kind"] == [gvk]
    second = openapi.v2_document(KINDS, CUSTOM)["definitions"]["sh.keda.v1alpha1.ScaledJob"]
    assert second["properties"]["spec"]["properties"]["max"] == {"x-kubernetes-int-or-string": True}


def test_the_index_changes_with_the_documents() -> None:
    document = openapi.v3_document("batch/v1", KINDS, CUSTOM)
    index = openapi.v3_index({"batch/v1": document, "v1": document})["paths"]
    assert index.keys() == {"apis/batch/v1", "api/v1"}
    url = index["apis/batch/v1"]["serverRelativeURL"]
    assert url.startswith("/openapi/v3/apis/batch/v1?hash=")
    assert openapi.v3_index({"batch/v1": {}})["paths"]["apis/batch/v1"]["serverRelativeURL"] != url


def decoded(data: bytes) -> dict[int, Any]:
    """The fields of a protobuf message by number, the last of those that are repeated."""
    return dict(protobuf_objects._parts(data))


def test_the_protobuf_form_has_the_published_field_numbers() -> None:
    form: Object = {
        "type": "object",
        "description": "d",
        "required": ["a"],
        "properties": {"a": {"type": "array", "items": {"$ref": "#/definitions/x"}}},
        "additionalProperties": {"type": "string"},
        "minimum": 1,
        "x-kubernetes-patch-strategy": "merge",
    }
    body = {"swagger": "2.0", "info": {"title": "K", "version": "1"}, "paths": {}, "definitions": {"X": form}}
    document = decoded(protobuf_openapi.document(body))
    assert document[1] == b"2.0"
    assert decoded(document[2]) == {1: b"K", 2: b"1"}
    named = decoded(decoded(document[9])[1])
    assert named[1] == b"X"
    schema = decoded(named[2])
    assert (schema[4], schema[19], decoded(schema[22])) == (b"d", b"a", {1: b"object"})
    assert schema[9] == b"\x00\x00\x00\x00\x00\x00\xf0\x3f"
    assert decoded(decoded(schema[21])[1]) == {22: b"\x0a\x06string"}
    member = decoded(decoded(schema[25])[1])
    assert member[1] == b"a"
    assert decoded(decoded(decoded(member[2])[23])[1]) == {1: b"#/definitions/x"}
    extension = decoded(schema[31])
    assert (extension[1], decoded(extension[2])) == (b"x-kubernetes-patch-strategy", {2: b"merge"})


def test_every_document_can_be_encoded() -> None:
    document = openapi.v2_document(KINDS, CUSTOM)
    encoded = decoded(protobuf_openapi.document(document))
    assert len(list(protobuf_objects._parts(encoded[9]))) == len(document["definitions"])
