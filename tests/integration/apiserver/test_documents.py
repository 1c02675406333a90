"""Documents of another type, numbers that do not fit, owners named twice: both servers read or refuse the same."""

import json
from typing import Any

import pytest

from tests.integration.apiserver.client import (
    DEFINITIONS,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Api,
    config_map,
    custom,
    definition,
    job,
    owned_by,
    until,
)
from tests.support.tables import cases

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "whole": {"type": "integer"},
                "small": {"type": "integer", "format": "int32"},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "port": {"x-kubernetes-int-or-string": True},
            },
        }
    },
}


@pytest.fixture
def washers(api: Api) -> str:
    """The path of custom resources with numbers, of which there is one."""
    answer = api("POST", DEFINITIONS, definition("washers", SCHEMA))
    assert answer.code in (201, 409), answer.text
    path = f"/apis/test.penstock.dev/v1/namespaces/{api.namespace}/washers"
    until(lambda: api.get(path).code == 200, "the definition is served")
    api.create(path, custom("Washer", "one", spec={"whole": 1}))
    return path


@cases(
    ("add", [{"op": "add", "path": "", "value": config_map()}]),
    ("remove", [{"op": "remove", "path": ""}]),
    ("copy from", [{"op": "copy", "from": "", "path": "/data"}]),
    ("copy to", [{"op": "copy", "from": "/metadata", "path": ""}]),
    ("move from", [{"op": "move", "from": "", "path": "/data"}]),
    ("move to", [{"op": "move", "from": "/metadata", "path": ""}]),
)
def test_a_json_patch_of_the_whole_document_is_refused(operations: Any, api: Api) -> None:
    api.create(api.maps, config_map())
    answer = api.patch(f"{api.maps}/one", operations, JSON_PATCH)
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")


UNNAMED = 400, "the name of the object (one based on URL) was undeterminable: name must be provided"


@cases(
    ("strategic, another kind", STRATEGIC, {"kind": "Secret"}, 200, ""),
    ("strategic, another version", STRATEGIC, {"apiVersion": "apps/v1"}, 200, ""),
    ("strategic, no version", STRATEGIC, {"apiVersion": "a/b/c"}, 200, ""),
    ("strategic, without either", STRATEGIC, {"apiVersion": None, "kind": None}, 200, ""),
    ("strategic, a number", STRATEGIC, {"kind": 7}, 422, ' "" is invalid: patch: '),
    ("merge, another kind", MERGE, {"kind": "Secret"}, 422, ' "" is invalid: patch: '),
    ("merge, another version", MERGE, {"apiVersion": "apps/v1"}, 422, ' "" is invalid: patch: '),
    ("merge, without a kind", MERGE, {"kind": None}, 200, ""),
    ("merge, without a version", MERGE, {"apiVersion": None}, *UNNAMED),
    (
        "JSON, another kind",
        JSON_PATCH,
        [{"op": "replace", "path": "/kind", "value": "Secret"}],
        422,
        ' "" is invalid: ',
    ),
    ("JSON, without a kind", JSON_PATCH, [{"op": "remove", "path": "/kind"}], 200, ""),
    ("JSON, without a version", JSON_PATCH, [{"op": "remove", "path": "/apiVersion"}], *UNNAMED),
)
def test_a_patch_may_name_another_kind(media: str, patch: Any, code: int, message: str, api: Api) -> None:
    api.create(api.maps, config_map())
    answer = api.patch(f"{api.maps}/one", patch, media)
    assert (answer.code, answer.body["kind"]) == (code, "ConfigMap" if code == 200 else "Status")
    if message:
        assert answer.message.startswith(message)


KIND = 'Pod.test.penstock.dev "one" is invalid: kind: Invalid value: "Pod": must be Washer'
OTHER_VERSION = 'Washer.apps "one" is invalid: apiVersion: Invalid value: "apps/v1": must be test.penstock.dev/v1'
UNEXPECTED = "the API version in the data (apps/v1) does not match the expected API version (test.penstock.dev/v1)"
BOTH = (
    'Pod "one" is invalid: [kind: Invalid value: "Pod": must be Washer, apiVersion: Invalid value: "v1": must be '
    "test.penstock.dev/v1]"
)


@cases(
    ("create, kind", "POST", {"kind": "Pod"}, 422, KIND),
    ("create, version", "POST", {"apiVersion": "apps/v1"}, 400, UNEXPECTED),
    ("create, both", "POST", {"apiVersion": "apps/v1", "kind": "Pod"}, 400, UNEXPECTED),
    (
        "create, a number",
        "POST",
        {"kind": 7},
        400,
        "couldn't get version/kind; json parse error: json: cannot unmarshal",
    ),
    ("update, kind", "PUT", {"kind": "Pod"}, 422, KIND),
    ("update, version", "PUT", {"apiVersion": "apps/v1"}, 400, UNEXPECTED),
    ("patch, kind", "PATCH", {"kind": "Pod"}, 422, KIND),
    ("patch, version", "PATCH", {"apiVersion": "apps/v1"}, 422, OTHER_VERSION),
    ("patch, both", "PATCH", {"apiVersion": "v1", "kind": "Pod"}, 422, BOTH),
    (
        "patch, a number",
        "PATCH",
        {"kind": 7},
        422,
        "couldn't get version/kind; json parse error: json: cannot unmarshal",
    ),
)
def test_a_custom_resource_of_another_kind_is_refused(
    method: str, change: Any, code: int, message: str, api: Api, washers: str
) -> None:
    whole = api.get(f"{washers}/one").body
    path = washers if method == "POST" else f"{washers}/one"
    if method == "PATCH":
        answer = api.patch(path, change)
    else:
        metadata = {"name": "one"} | (
            {"resourceVersion": whole["metadata"]["resourceVersion"]} if method == "PUT" else {}
        )
        answer = api(method, path, {**whole, "metadata": metadata, **change})
    assert (answer.code, message in answer.message) == (code, True), answer.text


def test_a_custom_resource_without_a_version_is_refused(ours: Api) -> None:
    """A real server calls that its own fault: 500."""
    ours("POST", DEFINITIONS, definition("washers", SCHEMA))
    path = f"/apis/test.penstock.dev/v1/namespaces/{ours.namespace}/washers"
    body = custom("Washer", "one")
    ours.create(path, body)
    del body["apiVersion"]
    assert ours("POST", path, body).code == 400
    assert ours("PUT", f"{path}/one", body).code == 400
    assert ours.patch(f"{path}/one", {"apiVersion": None}).code == 422


@cases(
    ("a fraction of zero", '{"whole":2.0}', {"whole": 2}),
    ("an exponent", '{"whole":1e3}', {"whole": 1000}),
    ("in what is kept", '{"any":{"a":[2.0,2.5,-0.0]}}', {"any": {"a": [2, 2.5, 0]}}),
    ("a number or a text", '{"port":80.0}', {"port": 80}),
    ("the largest float", '{"whole":9007199254740991.0}', {"whole": 2**53 - 1}),
    ("the largest number", '{"whole":9223372036854775807}', {"whole": 2**63 - 1}),
    ("a format of numbers", '{"small":4294967296}', {"small": 2**32}),
    ("the smallest number", '{"whole":-9223372036854775808}', {"whole": -(2**63)}),
    ("a fraction", '{"whole":2.5}', None),
    ("a float beyond 53 bits", '{"whole":9007199254740992.0}', None),
    ("a large exponent", '{"whole":1e18}', None),
    ("beyond 64 bits", '{"whole":9223372036854775808}', None),
    ("far beyond 64 bits", '{"whole":123456789012345678901234567890}', None),
    ("below 64 bits", '{"port":-9223372036854775809}', None),
)
def test_numbers_of_custom_resources_are_read_as_go_reads_them(
    text: str, spec: dict[str, Any] | None, api: Api, washers: str
) -> None:
    body = json.dumps(custom("Washer", "two") | {"spec": "SPEC"})
    answer = api("POST", washers, body.replace('"SPEC"', text).encode())
    if spec is None:
        assert (answer.code, answer.body["reason"]) == (422, "Invalid"), answer.text
        assert 'Invalid value: "number": spec.' in answer.message
    else:
        # As texts: 2.0 is equal to 2.
        assert (answer.code, repr(answer.body["spec"])) == (201, repr(spec))


@cases(
    ("a fraction of zero", "parallelism", "2.0"),
    ("an exponent", "parallelism", "2e0"),
    ("beyond 32 bits", "parallelism", "2147483648"),
    ("beyond 64 bits", "activeDeadlineSeconds", "9223372036854775808"),
    ("far beyond 64 bits", "activeDeadlineSeconds", "123456789012345678901234567890"),
)
def test_numbers_of_built_in_kinds_that_do_not_fit_are_refused(field: str, number: str, api: Api) -> None:
    text = json.dumps({**job(), "spec": {**job()["spec"], field: "NUMBER"}})
    answer = api("POST", api.jobs, text.replace('"NUMBER"', number).encode())
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    assert answer.message.startswith('Job in version "v1" cannot be handled as a Job: ')


@cases(
    ("strategic, a fraction of zero", STRATEGIC, "2.0", 200),
    ("strategic, an exponent", STRATEGIC, "2e0", 200),
    ("strategic, a fraction", STRATEGIC, "2.5", 422),
    ("strategic, beyond 32 bits", STRATEGIC, "2147483648", 422),
    ("merge, a fraction of zero", MERGE, "2.0", 422),
    ("merge, beyond 64 bits", MERGE, "9223372036854775808", 422),
)
def test_strategic_patches_alone_may_have_fractions_of_zero(media: str, number: str, code: int, api: Api) -> None:
    body = job()
    api.create(api.jobs, {**body, "spec": {**body["spec"], "parallelism": 0}})
    answer = api("PATCH", f"{api.jobs}/crunch", f'{{"spec":{{"backoffLimit":{number}}}}}'.encode(), type=media)
    assert answer.code == code, answer.text
    if code == 200:
        assert repr(answer.body["spec"]["backoffLimit"]) == "2"


@cases(
    ("created", "POST", "entries;"),
    ("replaced", "PUT", "entries;"),
    ("merged", MERGE, "entries after mutating admission happens;"),
    ("merged by keys", STRATEGIC, "entries after mutating admission happens;"),
)
def test_an_owner_that_is_named_twice_is_kept_once_and_warned_of(method: str, words: str, api: Api) -> None:
    owner = api.create(api.maps, config_map("owner"))
    metadata = owned_by(owner)
    metadata["ownerReferences"] *= 3
    path = f"{api.maps}/one"
    if method != "POST":
        api.create(api.maps, config_map())
    match method:
        case "POST":
            answer = api("POST", api.maps, config_map(**metadata))
        case "PUT":
            answer = api("PUT", path, config_map(**metadata))
        case _:
            answer = api.patch(path, {"metadata": metadata}, method)
    assert answer.body["metadata"]["ownerReferences"] == owned_by(owner)["ownerReferences"]
    uid = owner["metadata"]["uid"]
    assert f"contains duplicate {words}" in answer.headers["warning"]
    assert answer.headers["warning"].endswith(f'duplicate UID(s) observed: {uid}, {uid}"')


@cases(
    ("another name", {"name": "other"}, 201, 2),
    ("a controller or not", {"controller": False}, 201, 2),
    ("two controllers", {"uid": "other"}, 422, 0),
)
def test_owners_that_differ_are_kept(change: Any, code: int, kept: int, api: Api) -> None:
    owner = api.create(api.maps, config_map("owner"))
    (reference,) = owned_by(owner)["ownerReferences"]
    other = {**reference, "controller": change.get("uid") is not None, **change}
    answer = api("POST", api.maps, config_map(ownerReferences=[reference, other]))
    assert (answer.code, "warning" in answer.headers) == (code, False)
    if kept:
        assert len(answer.body["metadata"]["ownerReferences"]) == kept
    else:
        (cause,) = {cause["field"] for cause in answer.body["details"]["causes"]}
        assert (cause, "Only one reference can have Controller set to true" in answer.message) == (
            "metadata.ownerReferences",
            True,
        )
