"""Workloads, configuration, services, leases, events and definitions on the server."""

import base64
from typing import Any

from tests.support.tables import cases, for_each
from tests.unit.apiserver.examples import changed, created, problems, template
from workers.api.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, EVENT, LEASE, NAMESPACE, SECRET, Kind

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets")
REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
SERVICE = Kind("", "v1", "Service", "services")
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
METADATA = {"name": "x", "namespace": "default", "uid": "u"}


def of(**fields: Any) -> dict[str, Any]:
    return {"metadata": METADATA, **fields}


def workload(**spec: Any) -> dict[str, Any]:
    pods = template(labels={"a": "b"}, restartPolicy="Always")
    return of(spec={"selector": {"matchLabels": {"a": "b"}}, "template": pods, **spec})


def test_a_deployment_gets_its_defaults() -> None:
    body = created(DEPLOYMENT, workload())
    spec = body["spec"]
    assert {name: spec[name] for name in spec if name not in ("selector", "template")} == {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    }
    assert (body["status"], body["metadata"]["generation"]) == ({}, 1)


@cases(
    ("replicas", {"replicas": -1}, "spec.replicas"),
    ("no selector", {"selector": None}, "spec.selector"),
    ("an empty selector", {"selector": {}}, "spec.selector"),
    ("others' pods", {"selector": {"matchLabels": {"a": "c"}}}, "spec.template.metadata.labels"),
    (
        "an operator",
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
        "spec.selector.matchExpressions[0].operator",
    ),
    ("pods that end", {"template": template(labels={"a": "b"})}, "spec.template.spec.restartPolicy"),
    (
        "pods with a deadline",
        {"template": template(labels={"a": "b"}, restartPolicy="Always", activeDeadlineSeconds=5)},
        "spec.template.spec.activeDeadlineSeconds",
    ),
    ("strategy", {"strategy": {"type": "Hope"}}, "spec.strategy"),
    ("two strategies", {"strategy": {"type": "Recreate", "rollingUpdate": {}}}, "spec.strategy.rollingUpdate"),
)
def test_a_deployment_is_refused(spec: Any, field: str) -> None:
    assert [place for place, _ in problems(DEPLOYMENT, workload(**spec))] == [field]


@cases(
    ("order", {"podManagementPolicy": "Backwards"}, "spec.podManagementPolicy"),
    ("update", {"updateStrategy": {"type": "Recreate"}}, "spec.updateStrategy"),
    (
        "partition",
        {"updateStrategy": {"rollingUpdate": {"partition": -1}}},
        "spec.updateStrategy.rollingUpdate.partition",
    ),
    (
        "a partition of no use",
        {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
        "spec.updateStrategy.rollingUpdate",
    ),
    (
        "pods with a deadline",
        {"template": template(labels={"a": "b"}, restartPolicy="Always", activeDeadlineSeconds=5)},
        "spec.template.spec.activeDeadlineSeconds",
    ),
)
def test_a_stateful_set_is_refused(spec: Any, field: str) -> None:
    assert [place for place, _ in problems(STATEFUL_SET, workload(serviceName="s", **spec))] == [field]


@cases(
    ("numbers", {"maxSurge": 1, "maxUnavailable": 0}, {}),
    ("shares", {"maxSurge": "0%", "maxUnavailable": "100%"}, {}),
    ("a large surge", {"maxSurge": "300%"}, {}),
    ("nothing", {"maxSurge": 0, "maxUnavailable": 0}, {"maxUnavailable": "when `maxSurge` is 0"}),
    ("no share", {"maxSurge": "0%", "maxUnavailable": 0}, {"maxUnavailable": "when `maxSurge` is 0"}),
    ("more than all", {"maxUnavailable": "101%"}, {"maxUnavailable": "greater than 100%"}),
    ("a word", {"maxUnavailable": "x"}, {"maxUnavailable": "valid percent string"}),
    ("a share without end", {"maxUnavailable": "1" * 5000 + "%"}, {"maxUnavailable": "valid percent string"}),
    ("a number as text", {"maxSurge": "5"}, {"maxSurge": "valid percent string"}),
    ("below zero", {"maxSurge": -1}, {"maxSurge": "greater than or equal to 0"}),
)
def test_the_limits_of_a_rolling_update(rolling: Any, found: dict[str, str]) -> None:
    body = workload(strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    told = dict(problems(DEPLOYMENT, body))
    assert list(told) == [f"spec.strategy.rollingUpdate.{field}" for field in found]
    assert all(part in message for part, message in zip(found.values(), told.values(), strict=True))


@for_each((0, 1, False), (599, None, False), (600, None, True), (5, 5, True), (0, 0, True), (5, 6, False))
def test_a_rollout_has_longer_than_its_pods_must_be_ready(least: int, deadline: int | None, refused: bool) -> None:
    spec = {"minReadySeconds": least, **({} if deadline is None else {"progressDeadlineSeconds": deadline})}
    places = [place for place, _ in problems(DEPLOYMENT, workload(**spec))]
    assert places == (["spec.progressDeadlineSeconds"] if refused else [])


def test_the_selector_of_a_deployment_is_fixed() -> None:
    stored = created(DEPLOYMENT, workload())
    spec = {"selector": {"matchLabels": {"a": "b", "c": "d"}}, "template": template(labels={"a": "b", "c": "d"})}
    spec["template"]["spec"]["restartPolicy"] = "Always"
    _new, found = changed(DEPLOYMENT, stored, of(spec=spec))
    assert [field for field, _ in found] == ["spec.selector"]


def test_a_stateful_set_mounts_the_claims_that_it_has_templates_of() -> None:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("data", "logs", "other")]
    pods = {**template(), "metadata": {"labels": {"a": "b"}}}
    pods["spec"] = {**pods["spec"], "restartPolicy": "Always", "volumes": [{"name": "logs"}]}
    pods["spec"]["containers"] = [{**pods["spec"]["containers"][0], "volumeMounts": mounts}]
    claims = [{"metadata": {"name": name}, "spec": {}} for name in ("data", "logs")]
    found = problems(STATEFUL_SET, workload(serviceName="s", template=pods, volumeClaimTemplates=claims))
    assert [field for field, _ in found] == ["spec.template.spec.containers[0].volumeMounts[2].name"]


def test_a_stateful_set_keeps_its_claims_unless_it_says_otherwise() -> None:
    path, given = "persistentVolumeClaimRetentionPolicy", {"whenScaled": "Delete"}
    stored = created(STATEFUL_SET, workload(**{path: given}))
    assert stored["spec"][path] == {"whenDeleted": "Retain", "whenScaled": "Delete"}
    found = problems(STATEFUL_SET, workload(**{path: {"whenScaled": "Forget"}}))
    assert [field for field, _ in found] == [f"spec.{path}.whenScaled"]


def test_little_of_a_stateful_set_may_change() -> None:
    stored = created(STATEFUL_SET, workload(serviceName="s"))
    assert changed(STATEFUL_SET, stored, {**stored, "spec": {**stored["spec"], "replicas": 3}})[1] == []
    _new, found = changed(STATEFUL_SET, stored, {**stored, "spec": {**stored["spec"], "serviceName": "t"}})
    assert [field for field, _ in found] == ["spec"]


def test_a_revision_may_be_renumbered_but_keeps_its_data() -> None:
    stored = created(REVISION, of(data={"a": 1}, revision=1))
    assert changed(REVISION, stored, {**stored, "revision": 2})[1] == []
    for other in ({"data": {"a": 2}}, {"revision": -1}):
        _new, found = changed(REVISION, stored, {**stored, **other})
        assert [field for field, _ in found] == list(other)


def test_texts_of_a_secret_become_data() -> None:
    body = created(SECRET, of(stringData={"a": "new"}, data={"a": "b2xk", "b": "Yg=="}))
    assert body["data"] == {"a": base64.b64encode(b"new").decode(), "b": "Yg=="}
    assert body["type"] == "Opaque"
    assert "stringData" not in body


@cases(
    ("a key with a blank", CONFIG_MAP, {"data": {"a b": ""}}, ["data[a b]"]),
    ("a key twice", CONFIG_MAP, {"data": {"a": ""}, "binaryData": {"a": ""}}, ["data[a]"]),
    ("too much text", CONFIG_MAP, {"data": {"a": "x" * (1024 * 1024 + 1)}}, ["[]"]),
    ("too large a secret", SECRET, {"stringData": {"a": "x" * (1024 * 1024 + 1)}}, ["data"]),
    ("just fits", SECRET, {"stringData": {"a": "x" * 1024 * 1024}}, []),
)
def test_data_is_limited(kind: Kind, body: Any, fields: list[str]) -> None:
    assert [field for field, _ in problems(kind, of(**body))] == fields


def test_a_config_map_that_is_immutable_cannot_change() -> None:
    stored = created(CONFIG_MAP, of(data={"a": "b"}, immutable=True))
    _new, found = changed(CONFIG_MAP, stored, of(data={"a": "c"}))
    frozen = "Forbidden: field is immutable when `immutable` is set"
    assert found == [("immutable", frozen), ("data", frozen)]


def test_the_type_of_a_secret_is_fixed() -> None:
    stored = created(SECRET, of(type="a.b/c"))
    assert [field for field, _ in changed(SECRET, stored, of(type="a.b/d"))[1]] == ["type"]


def test_a_namespace_is_active_and_keeps_its_finalizer() -> None:
    body = created(NAMESPACE, {"metadata": {"name": "n", "uid": "u"}})
    assert (body["spec"], body["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    assert body["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    new, _found = changed(NAMESPACE, body, {"metadata": {"name": "n"}})
    assert new["spec"] == {"finalizers": ["kubernetes"]}


def ports(*found: Any) -> Any:
    return {"spec": {"ports": list(found)}}


@cases(
    ("a service without ports", SERVICE, {"spec": {}}, ["spec.ports"]),
    ("a service without an address", SERVICE, {"spec": {"clusterIP": "None"}}, []),
    ("a service's type", SERVICE, {"spec": {"type": "x", "ports": [{"port": 1}]}}, ["spec.type"]),
    ("a service's port", SERVICE, {"spec": {"ports": [{"port": 0, "targetPort": "a"}]}}, ["spec.ports[0].port"]),
    ("which port", SERVICE, {"spec": {"ports": [{"port": 1, "name": "a"}, {"port": 2}]}}, ["spec.ports[1].name"]),
    ("a name twice", SERVICE, ports({"port": 1, "name": "a"}, {"port": 2, "name": "a"}), ["spec.ports[1].name"]),
    ("a port twice", SERVICE, ports({"port": 1, "name": "a"}, {"port": 1, "name": "b"}), ["spec.ports[1]"]),
    (
        "one port of two protocols",
        SERVICE,
        ports({"port": 1, "name": "a"}, {"port": 1, "name": "b", "protocol": "UDP"}),
        [],
    ),
    ("a name of a port of pods", SERVICE, ports({"port": 1, "targetPort": "A_"}), ["spec.ports[0].targetPort"] * 2),
    ("an external name", SERVICE, {"spec": {"type": "ExternalName", "externalName": "a.b."}}, []),
    ("no external name", SERVICE, {"spec": {"type": "ExternalName"}}, ["spec.externalName"]),
    ("an affinity", SERVICE, {"spec": {"sessionAffinity": "x", "ports": [{"port": 1}]}}, ["spec.sessionAffinity"]),
    ("no lease at all", LEASE, {"spec": {"leaseDurationSeconds": 0}}, ["spec.leaseDurationSeconds"]),
    ("transitions", LEASE, {"spec": {"leaseTransitions": -1}}, ["spec.leaseTransitions"]),
    ("a free lease", LEASE, {}, []),
    ("an event at home", EVENT, {"involvedObject": {"namespace": "default"}}, []),
    ("an event elsewhere", EVENT, {"involvedObject": {"namespace": "other"}}, ["involvedObject.namespace"]),
    ("an event of the cluster", EVENT, {"involvedObject": {"kind": "Node"}}, []),
    ("an empty claim", CLAIM, {"spec": {}}, ["spec.accessModes", "spec.resources[storage]"]),
)
def test_small_kinds_are_judged(kind: Kind, body: Any, fields: list[str]) -> None:
    assert [field for field, _ in problems(kind, of(**body))] == fields


def definition(
    *, name: str = "foos.ex.com", schema: Any = None, columns: Any = None, scale: Any = None, **spec: Any
) -> dict[str, Any]:
    form = {"type": "object"} if schema is None else schema
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": form}}
    version |= {"additionalPrinterColumns": columns, "subresources": {"scale": scale}}
    names = {"plural": "foos", "kind": "Foo"}
    whole = {"group": "ex.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": name, "uid": "u"}, "spec": {**whole, **spec}}


def test_a_definition_gets_its_other_names() -> None:
    spec = created(CUSTOM_RESOURCE_DEFINITION, definition())["spec"]
    assert spec["names"] == {"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"}
    assert spec["conversion"] == {"strategy": "None"}


def with_a(schema: Any) -> dict[str, Any]:
    """The schema of an object with a field `a`."""
    return {"schema": {"type": "object", "properties": {"a": schema}}}


FORM = "spec.versions[0].schema.openAPIV3Schema"
COLUMN, SCALE = "spec.versions[0].additionalPrinterColumns[0]", "spec.versions[0].subresources.scale"


@cases(
    ("fine", {}, []),
    ("a name of its own", {"name": "bars.ex.com"}, ["metadata.name"]),
    ("scope", {"scope": "Galaxy"}, ["spec.scope"]),
    ("a group without a dot", {"group": "ex", "name": "foos.ex"}, ["spec.group"]),
    ("nothing stored", {"versions": []}, ["spec.versions"]),
    ("no type", {"schema": {}}, [f"{FORM}.type", f"{FORM}.type"]),
    ("no type inside", with_a({}), [f"{FORM}.properties[a].type"]),
    ("a list of what", with_a({"type": "array"}), [f"{FORM}.properties[a].items"]),
    ("pattern", with_a({"type": "string", "pattern": "("}), [f"{FORM}.properties[a].pattern"]),
    ("pattern of another dialect", with_a({"type": "string", "pattern": "(?=a)"}), [f"{FORM}.properties[a].pattern"]),
    ("pattern of Go", with_a({"type": "string", "pattern": r"^\p{L}+\z"}), []),
    ("a column of nothing", {"columns": [{}]}, [f"{COLUMN}.name", f"{COLUMN}.type", f"{COLUMN}.JSONPath"]),
    (
        "a column nobody can show",
        {"columns": [{"name": "A", "type": "text", "jsonPath": "a", "format": "long"}]},
        [f"{COLUMN}.type", f"{COLUMN}.format", f"{COLUMN}.JSONPath"],
    ),
    ("a scale of nothing", {"scale": {}}, [f"{SCALE}.specReplicasPath", f"{SCALE}.statusReplicasPath"]),
    (
        "a scale elsewhere",
        {"scale": {"specReplicasPath": "a", "statusReplicasPath": ".spec.a", "labelSelectorPath": ".a"}},
        [f"{SCALE}.specReplicasPath", f"{SCALE}.statusReplicasPath", f"{SCALE}.labelSelectorPath"],
    ),
    ("int or string", with_a({"x-kubernetes-int-or-string": True}), []),
)
def test_a_definition_is_judged(fields: Any, refused: list[str]) -> None:
    assert [field for field, _ in problems(CUSTOM_RESOURCE_DEFINITION, definition(**fields))] == refused


def test_an_established_definition_keeps_its_scope() -> None:
    stored = created(CUSTOM_RESOURCE_DEFINITION, definition())
    assert changed(CUSTOM_RESOURCE_DEFINITION, stored, definition(scope="Cluster"))[1] == []
    established = {**stored, "status": {"conditions": [{"type": "Established", "status": "True"}]}}
    _new, found = changed(CUSTOM_RESOURCE_DEFINITION, established, definition(scope="Cluster"))
    assert found == [("spec.scope", 'Invalid value: "Cluster": field is immutable')]
