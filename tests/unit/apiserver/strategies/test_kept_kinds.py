"""Kinds that nothing acts on: typed, filled in, judged as far as their types say, shown, and in two versions."""

from typing import Any

import pytest

from deploy.local.apiserver.discovery import autoscaler_versions
from deploy.local.apiserver.printers import columns
from deploy.local.apiserver.strategies.kept import KEPT, KeptKind
from tests.support.tables import cases
from tests.unit.apiserver.examples import CONTAINER, NOW, created, problems, refused
from workers.api.kinds import Kind, Object

ROWS = {row.kind.kind if row.kind.version == "v1" else "v2": row for row in KEPT}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
WEBHOOK = {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "u"}}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
BOUND = {"roleRef": ROLE, "subjects": [{"kind": "User", "name": "me"}, {"kind": "Group", "name": "us"}]}
PATH = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}
SERVICE = {"name": "a", "namespace": "b"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}
#: By kind, an object without its metadata, and its row in a table after the name.
EXAMPLES: dict[str, tuple[Object, list[str]]] = {
    "LimitRange": ({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}}, ["2026-01-10T12:00:00Z"]),
    "PersistentVolume": (
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}},
        ["1Gi", "ReadWriteOnce", "Retain", "Pending", "<none>", "<none>", "0s"],
    ),
    "PodTemplate": ({"template": TEMPLATE}, ["c", "x"]),
    "ReplicationController": ({"spec": {"template": TEMPLATE}}, ["1", "0", "<none>", "0s", "c", "x"]),
    "DaemonSet": (
        {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
        ["0", "0", "0", "0s", "c", "x"],
    ),
    "v2": ({"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}}, ["Deployment/web", "1", "3", "0", "0s"]),
    "HorizontalPodAutoscaler": (
        {"spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 80}},
        ["Deployment/web", "1", "3", "0", "0s"],
    ),
    "PodDisruptionBudget": ({"spec": {"minAvailable": "50%"}}, ["50%", "<none>", "0", "0s"]),
    "Role": ({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}, ["2026-01-10T12:00:00Z"]),
    "RoleBinding": (BOUND, ["Role/r", "0s", "me", "us", "<none>"]),
    "ClusterRole": ({"rules": []}, ["2026-01-10T12:00:00Z"]),
    "ClusterRoleBinding": (
        {**BOUND, "roleRef": {**ROLE, "kind": "ClusterRole"}},
        ["ClusterRole/r", "0s", "me", "us", "<none>"],
    ),
    "Ingress": (
        {"spec": {"rules": [{"host": "a", "http": {"paths": [PATH]}}, {"host": "b"}]}},
        ["<none>", "a,b", "<none>", "0s"],
    ),
    "IngressClass": ({"spec": {"controller": "x/y"}}, ["x/y", "<none>", "0s"]),
    "EndpointSlice": (
        {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}], "ports": [{"port": 80}]},
        ["IPv4", "80", "1.2.3.4", "0s"],
    ),
    "StorageClass": ({"provisioner": "x/y"}, ["x/y", "Delete", "Immediate", "<none>", "0s"]),
    "RuntimeClass": ({"handler": "runc"}, ["runc", "0s"]),
    "MutatingWebhookConfiguration": ({"webhooks": [WEBHOOK]}, ["a.b.c", "0s"]),
    "ValidatingWebhookConfiguration": ({"webhooks": [WEBHOOK]}, ["a.b.c", "0s"]),
    "ValidatingAdmissionPolicy": ({"spec": {"validations": [{"expression": "true"}]}}, ["0s"]),
    "ValidatingAdmissionPolicyBinding": ({"spec": {"policyName": "p"}}, ["p", "0s"]),
    "APIService": ({"spec": {"groupPriorityMinimum": 1, "versionPriority": 1, "service": SERVICE}}, ["b/a", "0s"]),
}


def body_of(kind: Kind, fields: Object, name: str = "x") -> Object:
    return {"metadata": {"name": name, "uid": "u", **({"namespace": "default"} if kind.namespaced else {})}, **fields}


@pytest.mark.parametrize("name", ROWS)
def test_an_object_of_every_kind_is_accepted_and_shown(name: str) -> None:
    fields, shown = EXAMPLES[name]
    kind = ROWS[name].kind
    body = body_of(kind, fields)
    assert refused(kind, body) == []
    layout = columns.of(kind)
    cells = layout.cells(created(kind, body), NOW)
    assert cells == ["x", *shown]
    assert len(cells) == len(layout.definitions)


@cases(
    ("a field", "StorageClass", {}, "provisioner"),
    (
        "a field of a struct",
        "v2",
        {"spec": {"maxReplicas": 1, "scaleTargetRef": {"kind": "x"}}},
        "spec.scaleTargetRef.name",
    ),
    (
        "a field of an item",
        "Ingress",
        {"spec": {"rules": [{"http": {"paths": [{**PATH, "pathType": None}]}}]}},
        "spec.rules[0].http.paths[0].pathType",
    ),
    (
        "a pod's image",
        "DaemonSet",
        {"spec": {"selector": {}, "template": {"spec": {"containers": [{"name": "c"}]}}}},
        "spec.template.spec.containers[0].image",
    ),
)
def test_what_a_type_requires_must_be_there(name: str, fields: Object, found: str) -> None:
    kind = ROWS[name].kind
    assert [place for place, _ in problems(kind, body_of(kind, fields))] == [found]


@cases(
    ("a role's", ROWS["ClusterRole"], "system:Node", []),
    ("a path", ROWS["ClusterRole"], "a/b", ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
    ("this folder", ROWS["ClusterRole"], "..", ["metadata.name: Invalid value: \"..\": may not be '..'"]),
)
def test_a_role_is_called_whatever_a_path_can_hold(row: KeptKind, name: str, message: list[str]) -> None:
    assert refused(row.kind, body_of(row.kind, {}, name)) == message


PODS = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
URLS = {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}


@cases(
    ("resources", "Role", {"rules": [PODS]}, []),
    ("paths", "ClusterRole", {"rules": [URLS, PODS]}, []),
    ("no verbs", "Role", {"rules": [{**PODS, "verbs": []}]}, ["rules[0].verbs"]),
    ("no resources", "Role", {"rules": [PODS, {**PODS, "resources": []}]}, ["rules[1].resources"]),
    ("no groups", "ClusterRole", {"rules": [{**PODS, "apiGroups": None}]}, ["rules[0].apiGroups"]),
    ("paths in a namespace", "Role", {"rules": [URLS]}, ["rules[0].nonResourceURLs"]),
    ("both", "ClusterRole", {"rules": [{**PODS, **URLS}]}, ["rules[0].nonResourceURLs"]),
    ("another kind of role", "RoleBinding", {"roleRef": {**ROLE, "kind": "Group"}}, ["roleRef.kind"]),
    ("a role of one namespace", "ClusterRoleBinding", {"roleRef": ROLE}, ["roleRef.kind"]),
    ("a role of another group", "RoleBinding", {"roleRef": {**ROLE, "apiGroup": "x"}}, ["roleRef.apiGroup"]),
    ("a role without name", "RoleBinding", {"roleRef": {**ROLE, "name": ""}}, ["roleRef.name"]),
    ("nobody", "RoleBinding", {**BOUND, "subjects": [{"kind": "Robot", "name": "x"}]}, ["subjects[0].kind"]),
    ("no name", "RoleBinding", {**BOUND, "subjects": [{"kind": "User", "name": ""}]}, ["subjects[0].name"]),
    (
        "an account of another group",
        "RoleBinding",
        {**BOUND, "subjects": [{"kind": "ServiceAccount", "name": "a", "apiGroup": "x"}]},
        ["subjects[0].apiGroup"],
    ),
    (
        "an account of no namespace",
        "ClusterRoleBinding",
        {"roleRef": {**ROLE, "kind": "ClusterRole"}, "subjects": [{"kind": "ServiceAccount", "name": "a"}]},
        ["subjects[0].namespace"],
    ),
)
def test_rights_are_judged(name: str, fields: Object, found: list[str]) -> None:
    kind = ROWS[name].kind
    assert [place for place, _ in problems(kind, body_of(kind, fields))] == found


@cases(("none", []), ("cpu", [CPU]), ("memory", [MEMORY]), ("both", [CPU, MEMORY]))
def test_a_client_of_the_first_version_of_autoscalers_loses_nothing(metrics: list[Object]) -> None:
    spec: dict[str, Any] = {
        "maxReplicas": 3,
        **({"metrics": metrics, "behavior": {"scaleDown": {}}} if metrics else {}),
    }
    stored = {"metadata": {"name": "x", "annotations": {"a": "b"}}, "spec": spec, "status": {"currentReplicas": 1}}
    shown = autoscaler_versions.to_v1(stored)
    assert shown["spec"] == {"maxReplicas": 3, **({"targetCPUUtilizationPercentage": 80} if CPU in metrics else {})}
    assert autoscaler_versions.from_v1(shown) == stored
