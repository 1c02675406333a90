"""Create, read, update, patch: what a client is answered, right and wrong."""

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
    pod,
    until,
)
from tests.support.tables import cases


def test_a_created_object_has_what_the_server_fills_in(api: Api) -> None:
    body = api.create(api.maps, config_map(labels={"a": "b"}))
    meta = body["metadata"]
    assert (meta["namespace"], meta["labels"]) == (api.namespace, {"a": "b"})
    assert meta["uid"]
    assert meta["creationTimestamp"].endswith("Z")
    read = api.get(f"{api.maps}/one").body
    assert (read["metadata"]["resourceVersion"], read["data"]) == (meta["resourceVersion"], {"a": "b"})


def test_a_generated_name_begins_as_asked(api: Api) -> None:
    body = api.create(api.maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}})
    assert len(body["metadata"]["name"]) == len("made-") + 5
    assert body["metadata"]["name"].startswith("made-")


REFUSALS: dict[str, tuple[str, str, Any, int, str, str]] = {
    "missing object": ("GET", "{jobs}/x", None, 404, "NotFound", 'jobs.batch "x" not found'),
    "missing object to delete": ("DELETE", "{maps}/x", None, 404, "NotFound", 'configmaps "x" not found'),
    "missing object to update": ("PUT", "{maps}/x", config_map("x"), 404, "NotFound", 'configmaps "x" not found'),
    "name that is taken": ("POST", "{maps}", config_map(), 409, "AlreadyExists", 'configmaps "one" already exists'),
    "no name": (
        *("POST", "{maps}", config_map(""), 422, "Invalid"),
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    "other namespace": (
        *("POST", "{maps}", config_map("x", namespace="other"), 400, "BadRequest"),
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "namespace that is not there": (
        *("POST", "/api/v1/namespaces/nowhere/configmaps", config_map(), 404, "NotFound"),
        'namespaces "nowhere" not found',
    ),
    "other name": (
        *("PUT", "{maps}/one", config_map("two"), 400, "BadRequest"),
        "the name of the object (two) does not match the name on the URL (one)",
    ),
    "old version": (
        *("PUT", "{maps}/one", config_map(resourceVersion="1"), 409, "Conflict"),
        'Operation cannot be fulfilled on configmaps "one": the object has been modified; please apply your changes to '
        "the latest version and try again",
    ),
    "wrong value": (
        *("POST", "{jobs}", job() | {"spec": {**job()["spec"], "backoffLimit": -1}}, 422, "Invalid"),
        'Job.batch "crunch" is invalid: spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0',
    ),
    "collection replaced": (
        *("PUT", "{maps}", config_map(), 405, "MethodNotAllowed"),
        "the server does not allow this method on the requested resource",
    ),
    "subresource that is not there": (
        *("GET", "{maps}/one/nothing", None, 404, "NotFound"),
        "the server could not find the requested resource",
    ),
    "label selector": ("GET", "{maps}?labelSelector=a%3Db%3Dc", None, 400, "BadRequest", ""),
    "another object to delete": (
        *("DELETE", "{maps}/one", {"preconditions": {"uid": "other"}}, 409, "Conflict"),
        'Operation cannot be fulfilled on ConfigMap "one": the UID in the precondition (other) does not match the UID '
        "in record ({uid}). The object might have been deleted and then recreated",
    ),
    "propagation policy": (
        *("DELETE", "{maps}/one", {"propagationPolicy": "Maybe"}, 422, "Invalid"),
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Maybe": supported values: '
        '"Foreground", "Background", "Orphan", "nil"',
    ),
    "dry run": ("POST", "{maps}?dryRun=Some", config_map("x"), 422, "Invalid", ""),
    "permanent namespace": (
        *("DELETE", "/api/v1/namespaces/default", None, 403, "Forbidden"),
        'namespaces "default" is forbidden: this namespace may not be deleted',
    ),
}


@cases(REFUSALS)
def test_a_refusal_says_what_is_wrong(
    method: str, path: str, body: Any, code: int, reason: str, message: str, api: Api
) -> None:
    uid = api.create(api.maps, config_map())["metadata"]["uid"]
    answer = api(method, path.format(maps=api.maps, jobs=api.jobs), body)
    status = answer.body
    assert (answer.code, status["kind"], status["status"]) == (code, "Status", "Failure")
    assert (status["code"], status["reason"]) == (code, reason)
    if message:
        assert status["message"] == message.format(uid=uid)


def test_a_refusal_names_the_object_and_the_fields(api: Api) -> None:
    wrong = job()
    wrong["spec"] |= {"parallelism": -1, "completions": -2}
    details = api("POST", api.jobs, wrong).body["details"]
    assert (details["name"], details["group"], details["kind"]) == ("crunch", "batch", "Job")
    assert [(cause["field"], cause["reason"]) for cause in details["causes"]] == [
        ("spec.parallelism", "FieldValueInvalid"),
        ("spec.completions", "FieldValueInvalid"),
    ]


@cases(
    ("broken JSON", b"{broken", "application/json", 400),
    ("no object", b"[]", "application/json", 400),
    ("broken YAML", b"a: [", "application/yaml", 400),
    ("unknown type", b"anything", "text/plain", 415),
    ("broken protobuf", b"no magic", "application/vnd.kubernetes.protobuf", 400),
)
def test_a_body_that_is_no_object_is_refused(body: bytes, type: str, code: int, api: Api) -> None:
    answer = api("POST", api.maps, body, type=type)
    assert (answer.code, answer.body["kind"]) == (code, "Status")


def test_yaml_is_understood(ours: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: written\ndata:\n  day: '2026-01-01'\n"
    assert ours("POST", ours.maps, text, type="application/yaml").body["data"] == {"day": "2026-01-01"}
    assert b"day: " in ours("GET", f"{ours.maps}/written", accept="application/yaml").text


def test_another_kind_is_refused(api: Api) -> None:
    answer = api("POST", api.jobs, config_map())
    assert answer.code == 400
    assert answer.message.startswith('ConfigMap in version "v1" cannot be handled as a Job: ')


def test_an_answer_in_an_unknown_form_is_refused(api: Api) -> None:
    assert api("GET", api.maps, accept="text/html").code == 406


def test_an_update_without_version_is_unconditional(api: Api) -> None:
    old = api.create(api.maps, config_map())
    new = api("PUT", f"{api.maps}/one", config_map() | {"data": {"c": "d"}})
    assert (new.code, new.body["data"]) == (200, {"c": "d"})
    assert new.body["metadata"]["uid"] == old["metadata"]["uid"]
    assert new.version != old["metadata"]["resourceVersion"]


@cases(
    ("another name", {"name": "two"}, "the name of the object (two) does not match the name on the URL (one)"),
    ("no name", {"name": ""}, "the name of the object (one based on URL) was undeterminable: name must be provided"),
    ("another namespace", {"namespace": "none"}, "does not match the namespace on the request"),
)
def test_an_update_of_another_object_is_refused_where_there_is_none(metadata: Any, refusal: str, api: Api) -> None:
    body = config_map()
    answer = api("PUT", f"{api.maps}/one", {**body, "metadata": {**body["metadata"], **metadata}})
    assert (answer.code, refusal in answer.message) == (400, True)


@cases(
    ("merge", MERGE, {"data": {"c": "d", "a": None}}),
    ("strategic", STRATEGIC, {"data": {"c": "d", "a": None}}),
    (
        "JSON",
        JSON_PATCH,
        [{"op": "move", "from": "/data/a", "path": "/data/c"}, {"op": "replace", "path": "/data/c", "value": "d"}],
    ),
    (
        "JSON, a member that is not there",
        JSON_PATCH,
        [{"op": "remove", "path": "/data/a"}, {"op": "replace", "path": "/data/c", "value": "d"}],
    ),
)
def test_every_kind_of_patch_changes_the_object(type: str, patch: Any, api: Api) -> None:
    api.create(api.maps, config_map())
    answer = api.patch(f"{api.maps}/one", patch, type)
    assert (answer.code, answer.body["data"]) == (200, {"c": "d"})


def test_a_json_patch_counts_from_the_end_of_a_list(api: Api) -> None:
    api.create(api.maps, config_map(finalizers=["x.io/a", "x.io/b"]))
    answer = api.patch(f"{api.maps}/one", [{"op": "remove", "path": "/metadata/finalizers/-1"}], JSON_PATCH)
    assert (answer.code, answer.body["metadata"]["finalizers"]) == (200, ["x.io/a"])


def test_a_strategic_patch_merges_containers_by_name(api: Api) -> None:
    api.create(api.pods, pod())
    patch = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    answer = api.patch(f"{api.pods}/worker", patch, STRATEGIC)
    assert [(c["name"], c["image"]) for c in answer.body["spec"]["containers"]] == [("main", "other")]


@cases(
    ("unknown type", "application/json", {}, 415),
    ("failed test", JSON_PATCH, [{"op": "test", "path": "/data/a", "value": "other"}], 422),
    ("nothing there", JSON_PATCH, [{"op": "remove", "path": "/data/nothing"}], 422),
    ("no list", JSON_PATCH, {"data": {}}, 400),
    ("old version", MERGE, {"metadata": {"resourceVersion": "1"}}, 409),
    ("other name", MERGE, {"metadata": {"name": "other"}}, 400),
    ("wrong JSON type", MERGE, {"data": {"a": 5}}, 422),
)
def test_a_patch_that_does_not_fit_changes_nothing(type: str, patch: Any, code: int, api: Api) -> None:
    old = api.create(api.maps, config_map())
    answer = api.patch(f"{api.maps}/one", patch, type)
    assert (answer.code, answer.body["kind"]) == (code, "Status")
    assert api.get(f"{api.maps}/one").version == old["metadata"]["resourceVersion"]


def test_writing_the_same_again_is_no_new_version(api: Api) -> None:
    old = api.create(api.maps, config_map())["metadata"]["resourceVersion"]
    assert api.patch(f"{api.maps}/one", {"data": {"a": "b"}}).version == old
    assert api("PUT", f"{api.maps}/one", config_map()).version == old


def test_a_dry_run_is_judged_but_not_kept(api: Api) -> None:
    assert api("POST", api.maps, config_map(), dryRun="All").code == 201
    assert api.get(f"{api.maps}/one").code == 404
    assert api("POST", api.maps, config_map("Wrong!"), dryRun="All").code == 422
    api.create(api.maps, config_map())
    assert api("DELETE", f"{api.maps}/one", dryRun="All").code == 200
    assert api.get(f"{api.maps}/one").code == 200


def test_the_status_is_written_on_its_own(api: Api) -> None:
    api.create(api.pods, pod())
    changed = api.patch(
        f"{api.pods}/worker/status", {"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}}
    )
    assert (changed.code, changed.body["status"]["phase"]) == (200, "Running")
    both = api.patch(f"{api.pods}/worker", {"status": {"phase": "Failed"}, "metadata": {"labels": {"c": "d"}}})
    assert (both.body["status"]["phase"], both.body["metadata"]["labels"]["c"]) == ("Running", "d")


def test_tables_have_the_columns_of_the_kind(api: Api) -> None:
    api.create(api.jobs, job())
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
    table = api("GET", api.jobs, accept=accept).body
    assert table["kind"] == "Table"
    assert {"Name", "Completions", "Age"} <= {column["name"] for column in table["columnDefinitions"]}
    assert table["rows"][0]["cells"][0] == "crunch"
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_rows_of_tables_include_what_there_is(api: Api) -> None:
    answer = api("GET", api.maps, accept="application/json;as=Table;g=meta.k8s.io;v=v1", includeObject="Everything")
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")


def test_unknown_fields_are_dropped_warned_about_or_refused(ours: Api) -> None:
    body = config_map() | {"nonsense": 1}
    made = ours("POST", ours.maps, body)
    assert "nonsense" not in made.body
    assert (made.code, made.headers["warning"]) == (201, '299 - "unknown field \\"nonsense\\""')
    ignored = ours("POST", ours.maps, body | {"metadata": {"name": "four"}}, fieldValidation="Ignore")
    assert (ignored.code, "warning" in ignored.headers) == (201, False)
    warned = ours("POST", ours.maps, body | {"metadata": {"name": "two"}}, fieldValidation="Warn")
    assert (warned.code, warned.headers["warning"]) == (201, '299 - "unknown field \\"nonsense\\""')
    strict = ours("POST", ours.maps, body | {"metadata": {"name": "three"}}, fieldValidation="Strict")
    assert strict.code == 400
    assert 'strict decoding error: unknown field "nonsense"' in strict.message


@pytest.mark.parametrize("name", ["a\x07\r\nSet-Cookie: b", "\x00", "ß\u2028", "x" * 100_000], ids=ascii)
def test_an_unknown_field_may_have_any_name(ours: Api, name: str) -> None:
    made = ours("POST", ours.maps, config_map() | {name: 1})
    assert (made.code, made.headers["warning"].startswith('299 - "unknown field')) == (201, True)
    assert "set-cookie" not in made.headers
    assert ours.get(f"{ours.maps}/one").code == 200


@cases(
    ("JSON", '{"metadata":{"name":"%s"},"data":{"a":"1","a":"2"}}', "application/json", 'duplicate field \\"data.a\\"'),
    (
        "YAML",
        "metadata: {name: %s}\ndata: {a: '1', a: '2'}",
        "application/yaml",
        'line 2: key \\"a\\" already set in map',
    ),
)
def test_repeated_keys_are_warned_about_or_refused(text: str, media: str, remark: str, ours: Api) -> None:
    def post(name: str, **query: str) -> Any:
        return ours("POST", ours.maps, (text % name).encode(), type=media, **query)

    made = post("one")
    assert (made.code, made.headers["warning"], made.body["data"]) == (201, f'299 - "{remark}"', {"a": "2"})
    assert "warning" not in post("two", fieldValidation="Ignore").headers
    strict = post("three", fieldValidation="Strict")
    assert (strict.code, remark.replace("\\", "") in strict.message) == (400, True)


def test_both_event_apis_show_the_same_events(api: Api) -> None:
    about = {"kind": "Job", "namespace": api.namespace, "name": "crunch"}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": about}
    events = f"/api/v1/namespaces/{api.namespace}/events"
    api.create(events, event | {"reason": "Made", "message": "text", "type": "Normal"})
    new = api.get(f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events/e").body
    assert (new["apiVersion"], new["regarding"]["name"], new["note"]) == ("events.k8s.io/v1", "crunch", "text")
    chosen = api.get(events, fieldSelector="involvedObject.name=crunch,reason=Made")
    assert [item["metadata"]["name"] for item in chosen.body["items"]] == ["e"]


def test_a_definition_is_served_at_once_and_its_schema_holds(ours: Api) -> None:
    spec = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 0, "default": 3}}}
    status = {"type": "object", "properties": {"seen": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    made = ours.create(DEFINITIONS, definition("widgets", schema))
    conditions = {c["type"]: c["status"] for c in made["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    path = f"/apis/test.penstock.dev/v1/namespaces/{ours.namespace}/widgets"
    body = custom("Widget", "w", spec={"other": 1})
    widget = ours.create(path, body)
    assert (widget["spec"], widget["metadata"]["generation"]) == ({"size": 3}, 1)
    wrong = ours.patch(f"{path}/w", {"spec": {"size": -1}})
    assert (wrong.code, wrong.body["details"]["causes"][0]["field"]) == (422, "spec.size")
    status = ours.patch(f"{path}/w/status", {"status": {"seen": 1}, "spec": {"size": 9}}).body
    assert (status["status"], status["spec"]["size"], status["metadata"]["generation"]) == ({"seen": 1}, 3, 1)
    assert ours.patch(f"{path}/w", {"spec": {"size": 5}}).body["metadata"]["generation"] == 2
    assert ours.patch(f"{path}/w", {}, STRATEGIC).code == 415
    assert ours("PUT", f"{path}/w", body).code == 422


def test_a_custom_resource_without_metadata_is_refused(api: Api) -> None:
    api.create(DEFINITIONS, definition("nails"))
    path = f"/apis/test.penstock.dev/v1/namespaces/{api.namespace}/nails"
    until(lambda: api.get(path).code == 200, "the definition is served")
    body = custom("Nail", "n")
    api.create(path, body)
    codes = {"POST": (422, 400), "PUT": (400, 400), "PATCH": (400, 422)}
    for method, expected in codes.items():
        where = path if method == "POST" else f"{path}/n"
        media = MERGE if method == "PATCH" else "application/json"
        for metadata, code in zip((None, []), expected, strict=True):
            assert api(method, where, {**body, "metadata": metadata}, type=media).code == code, (method, metadata)
    api("DELETE", f"{DEFINITIONS}/nails.test.penstock.dev")


def test_a_deprecated_version_of_a_definition_is_warned_of(api: Api) -> None:
    body = definition("rivets")
    first = body["spec"]["versions"][0]
    said = {"deprecated": True, "deprecationWarning": "ask for v1"}
    more = {"v1beta1": {"deprecated": True}, "v2": said}
    body["spec"]["versions"] += [{**first, "name": name, "storage": False, **fields} for name, fields in more.items()]
    api.create(DEFINITIONS, body)
    paths = {name: f"/apis/test.penstock.dev/{name}/namespaces/{api.namespace}/rivets" for name in ("v1", *more)}
    for path in paths.values():
        until(lambda path=path: api.get(path).code == 200, "the version is served")
    stated = "test.penstock.dev/v1beta1 Rivet is deprecated; use test.penstock.dev/v1 Rivet"
    warned = {"v1": None, "v1beta1": f'299 - "{stated}"', "v2": '299 - "ask for v1"'}
    for version, path in paths.items():
        rivet = custom("Rivet", "r") | {"apiVersion": f"test.penstock.dev/{version}"}
        answers = [api("POST", path, rivet), api.get(path), api.patch(f"{path}/r", {}), api("DELETE", f"{path}/r")]
        assert [answer.headers.get("warning") for answer in answers] == [warned[version]] * 4
    api("DELETE", f"{DEFINITIONS}/rivets.test.penstock.dev")


def test_the_scale_of_a_custom_resource_follows_its_paths(ours: Api) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.seen"}
    scale["labelSelectorPath"] = ".status.selector"
    ours.create(DEFINITIONS, definition("gauges", subresources={"status": {}, "scale": scale}))
    path = f"/apis/test.penstock.dev/v1/namespaces/{ours.namespace}/gauges"
    ours.create(path, custom("Gauge", "g", spec={"size": 2}))
    ours.patch(f"{path}/g/status", {"status": {"seen": 1, "selector": "a=b"}})
    found = ours.get(f"{path}/g/scale").body
    assert (found["kind"], found["spec"]) == ("Scale", {"replicas": 2})
    assert found["status"] == {"replicas": 1, "selector": "a=b"}
    assert ours.patch(f"{path}/g/scale", {"spec": {"replicas": 7}}).body["spec"] == {"replicas": 7}
    assert ours.get(f"{path}/g").body["spec"] == {"size": 7}
    assert ours.patch(f"{path}/g/scale", {"spec": {"replicas": -7}}).code == 422


def test_a_definition_without_served_versions_goes_too(ours: Api) -> None:
    ours.create(DEFINITIONS, definition("nuts"))
    ours.create(f"/apis/test.penstock.dev/v1/namespaces/{ours.namespace}/nuts", custom("Nut", "n"))
    at = f"{DEFINITIONS}/nuts.test.penstock.dev"
    versions = ours.get(at).body["spec"]["versions"]
    assert ours.patch(at, {"spec": {"versions": [{**versions[0], "served": False}]}}).code == 200
    assert ours("DELETE", at).code == 200
    until(lambda: ours.get(at).code == 404, "the definition is gone")


def test_a_definition_that_goes_takes_its_objects_along(ours: Api) -> None:
    ours.create(DEFINITIONS, definition("bolts"))
    path = f"/apis/test.penstock.dev/v1/namespaces/{ours.namespace}/bolts"
    ours.create(path, custom("Bolt", "b", finalizers=["a.b/c"]))
    assert ours("DELETE", f"{DEFINITIONS}/bolts.test.penstock.dev").code == 200
    assert ours("POST", path, custom("Bolt", "c")).code == 405
    until(lambda: "deletionTimestamp" in ours.get(f"{path}/b").body["metadata"], "the object is being deleted")
    ours.patch(f"{path}/b", {"metadata": {"finalizers": None}})
    until(lambda: ours.get(f"{DEFINITIONS}/bolts.test.penstock.dev").code == 404, "the definition is gone")
    assert ours.get(path).code == 404


@cases(
    ("another name", {"metadata": {"name": "other"}}),
    ("another version", {"apiVersion": "autoscaling/v2"}),
    ("another kind", {"kind": "Deployment"}),
)
def test_a_scale_is_of_the_object_that_is_meant(change: Any, api: Api) -> None:
    sets = f"/apis/apps/v1/namespaces/{api.namespace}/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    api.create(sets, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "one"}, "spec": spec})
    found = api.get(f"{sets}/one/scale").body
    metadata = {**found["metadata"], **change.get("metadata", {})}
    answer = api("PUT", f"{sets}/one/scale", {**found, **change, "metadata": metadata})
    assert answer.code == 400, answer.text
    # A controller may have written the set's status meanwhile.
    until(lambda: api("PUT", f"{sets}/one/scale", api.get(f"{sets}/one/scale").body).code == 200, "it is taken")


@cases(
    ("a name twice", [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}], ["spec.ports[1].name"]),
    ("a port twice", [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}], ["spec.ports[1]"]),
    ("a name of a port of pods", [{"port": 1, "targetPort": "-"}], ["spec.ports[0].targetPort"]),
    ("two protocols", [{"port": 1, "name": "a"}, {"port": 1, "name": "b", "protocol": "UDP"}], []),
)
def test_ports_of_a_service_differ(ports: Any, fields: list[str], api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "one"}, "spec": {"ports": ports}}
    answer = api("POST", f"/api/v1/namespaces/{api.namespace}/services", body)
    assert answer.code == (422 if fields else 201), answer.text
    assert {cause["field"] for cause in answer.body.get("details", {}).get("causes", ())} == {*fields}
