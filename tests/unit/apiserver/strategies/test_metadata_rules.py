"""The rules of metadata, in new objects and in updates."""

from typing import Any

from deploy.local.apiserver import strategies
from tests.support.tables import cases, for_each
from tests.unit.apiserver.examples import NOW, changed, created, problems, refused, spelled
from workers.api import names
from workers.api.kinds import CONFIG_MAP, NAMESPACE, SCALED_JOB, Kind

SERVICE = Kind("", "v1", "Service", "services")
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of"


def config(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c", "namespace": "default", "uid": "u", **metadata}}


NAME, LABELS, ANNOTATIONS = "metadata.name", "metadata.labels", "metadata.annotations"
OWNER = "metadata.ownerReferences"


@cases(
    ("no name", {"name": ""}, [f"{NAME}: Required value: name or generateName is required"]),
    ("upper case", {"name": "A_b"}, [f'{NAME}: Invalid value: "A_b": {SUBDOMAIN}']),
    (
        "a long name",
        {"name": "a" * 254},
        [f'{NAME}: Invalid value: "{"a" * 254}": must be no more than 253 characters'],
    ),
    ("a fine name", {"name": "a.b-1"}, []),
    ("a generated name", {"name": "a-b2c4d", "generateName": "a-"}, []),
    (
        "a prefix that ends in a dot",
        {"name": "a.b2c4d", "generateName": "a."},
        [f'metadata.generateName: Invalid value: "a.": {SUBDOMAIN}'],
    ),
    (
        "a label's key",
        {"labels": {"a b": "c"}},
        [f'{LABELS}: Invalid value: "a b": name part must consist of alphanumeric'],
    ),
    (
        "a label's value",
        {"labels": {"a": "c d"}},
        [f'{LABELS}: Invalid value: "c d": a valid label must be an empty string or consist of'],
    ),
    (
        "a long label",
        {"labels": {"a": "x" * 64}},
        [f'{LABELS}: Invalid value: "{"x" * 64}": must be no more than 63 characters'],
    ),
    ("an empty prefix", {"labels": {"/a": ""}}, [f'{LABELS}: Invalid value: "/a": prefix part must be non-empty']),
    (
        "two slashes",
        {"annotations": {"a/b/c": "x"}},
        [f'{ANNOTATIONS}: Invalid value: "a/b/c": a qualified name must consist of'],
    ),
    ("annotations may say anything", {"annotations": {"Example.com/X": "any thing"}}, []),
    (
        "annotations are limited",
        {"annotations": {"a": "x" * 256 * 1024}},
        [f"{ANNOTATIONS}: Too long: must have at most 262144 bytes"],
    ),
    (
        "an owner without a name",
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}]},
        [f'{OWNER}.{field}: Invalid value: "": {field} must not be empty' for field in ("name", "uid")],
    ),
    (
        "an owner of two groups",
        {"ownerReferences": [{"apiVersion": "a/b/v1", "kind": "Pod", "name": "p", "uid": "u"}]},
        [f'{OWNER}.apiVersion: Invalid value: "a/b/v1": version must not be empty'],
    ),
    ("finalizers with a domain, and a standard one", {"finalizers": ["example.com/x", "orphan"]}, []),
    (
        "contradicting finalizers",
        {"finalizers": ["orphan", "foregroundDeletion"]},
        [
            'metadata.finalizers: Invalid value: []string{"orphan", "foregroundDeletion"}: '
            "finalizer orphan and foregroundDeletion cannot be both set"
        ],
    ),
)
def test_metadata_is_judged(metadata: Any, found: list[str]) -> None:
    lines = refused(CONFIG_MAP, config(**metadata))
    assert len(lines) == len(found)
    assert all(map(str.startswith, lines, found))


def test_an_object_has_one_controller() -> None:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True} for name in "ab"]
    [(field, message)] = problems(CONFIG_MAP, config(ownerReferences=owners))
    assert field == "metadata.ownerReferences"
    assert message.endswith('Found "true" in references for a and b')


@cases(
    ("a namespace is one label", NAMESPACE, "a.b", False),
    ("a namespace may begin with a digit", NAMESPACE, "1a", True),
    ("a service may not", SERVICE, "1a", False),
    ("a service with a letter first", SERVICE, "a1", True),
)
def test_names_differ_by_kind(kind: Kind, name: str, fine: bool) -> None:
    body = {"metadata": {"name": name, "uid": "u"}}
    if kind is SERVICE:
        body["spec"] = {"ports": [{"port": 80}]}  # type: ignore[dict-item]
    assert ("metadata.name" not in [field for field, _ in problems(kind, body)]) is fine


STORED = created(CONFIG_MAP, {**config(labels={"a": "b"}), "data": {"k": "v"}})


def test_metadata_set_by_the_server_is_carried_over() -> None:
    new, found = changed(CONFIG_MAP, STORED, {"metadata": {"name": "c"}, "data": {"k": "w"}})
    assert found == []
    expected = {name: value for name, value in STORED["metadata"].items() if name != "labels"}
    assert new == {"metadata": expected, "data": {"k": "w"}}


@for_each(
    *(("name", "d"), ("namespace", "other"), ("uid", "v")),
    *((field, "2020-01-01T00:00:00Z") for field in ("creationTimestamp", "deletionTimestamp")),
)
def test_metadata_set_by_the_server_is_immutable(field: str, value: str) -> None:
    _new, found = changed(CONFIG_MAP, STORED, {**STORED, "metadata": {**STORED["metadata"], field: value}})
    assert found == [(f"metadata.{field}", f'Invalid value: "{value}": field is immutable')]


def test_an_object_being_deleted_takes_no_new_finalizers() -> None:
    old = {"metadata": {**STORED["metadata"], "deletionTimestamp": "2026-01-10T12:00:00Z", "finalizers": ["a.b/c"]}}
    assert changed(CONFIG_MAP, old, {"metadata": {**old["metadata"], "finalizers": []}})[1] == []
    _new, found = changed(CONFIG_MAP, old, {"metadata": {**old["metadata"], "finalizers": ["a.b/c", "a.b/d"]}})
    assert [field for field, _ in found] == ["metadata.finalizers"]


CRD = {"spec": {"versions": [{"name": "v1alpha1", "subresources": {"status": {}}}]}}


def scaled(status: Any = None, **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"metadata": {"name": "s", "uid": "u"}, "spec": spec}
    return body if status is None else {**body, "status": status}


def test_a_custom_resource_with_a_status_subresource() -> None:
    rules = strategies.strategy(SCALED_JOB, CRD)
    stored = rules.prepare_create(scaled({"x": 1}, a=1), NOW)
    assert "status" not in stored
    assert stored["metadata"]["generation"] == 1
    told = rules.prepare_status(scaled({"x": 2}, a=9), stored)
    assert (told["status"], told["spec"], told["metadata"]["generation"]) == ({"x": 2}, {"a": 1}, 1)
    new = rules.prepare_update(scaled({"x": 3}, a=2), told)
    assert (new["status"], new["spec"], new["metadata"]["generation"]) == ({"x": 2}, {"a": 2}, 2)
    labelled = {**new, "metadata": {**new["metadata"], "labels": {"a": "b"}}}
    assert rules.prepare_update(labelled, new)["metadata"]["generation"] == 2


def test_a_custom_resource_without_one() -> None:
    rules = strategies.strategy(SCALED_JOB, {"spec": {"versions": [{"name": "v1alpha1"}]}})
    stored = rules.prepare_create(scaled({"x": 1}, a=1), NOW)
    assert stored["status"] == {"x": 1}
    assert rules.prepare_update(scaled({"x": 2}, a=1), stored)["metadata"]["generation"] == 2
    assert spelled(rules.validate_create(stored)) == []


@for_each(
    (names.dns_label, ["a-1"], ["a.1", "-a"]),
    (names.dns_subdomain, ["a.b"], ["a..b"]),
    (names.port_name, ["http-2"], ["a--b", "a" * 16, "-a"]),
    (names.env_name, ["A.b-c_1", "1-", "..", " ", "a b{}~"], ["a=b", "ß", "a\n", "\x7f", ""]),
    (names.config_key, ["a.b", ".a"], ["a/b", ".", "..", "..a"]),
    (names.domain_path, ["example.com/a/b"], ["example.com", "Example.com/a", "example.com/a b"]),
    (names.qualified_name, ["x.y/z"], ["a" * 64, "x.y/"]),
)
def test_formats(rule: Any, fine: list[str], wrong: list[str]) -> None:
    assert not any(map(rule, fine))
    assert all(map(rule, wrong))
