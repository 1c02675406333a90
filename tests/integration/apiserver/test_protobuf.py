"""What a real server encodes in protobuf is read here as the same server's JSON."""

from pathlib import Path
from typing import Any

import pytest

from deploy.local.apiserver.codec import protobuf_objects
from tests.integration.apiserver.client import Api

POD_SPEC: dict[str, Any] = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 0,
    "automountServiceAccountToken": False,
    "nodeSelector": {"disk": "fast"},
    "securityContext": {"runAsUser": 0, "supplementalGroups": [1, 2]},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
    "volumes": [
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "conf", "configMap": {"name": "c", "items": [{"key": "k", "path": "p", "mode": 256}]}},
    ],
    "containers": [
        {
            "name": "main",
            "image": "none",
            "command": ["a", ""],
            "ports": [{"containerPort": 80}],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}},
                {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "envFrom": [{"prefix": "X_", "configMapRef": {"name": "c"}}],
            "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}},
            "livenessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
            "readinessProbe": {"tcpSocket": {"port": 80}},
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp", "readOnly": True}],
        }
    ],
}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD_SPEC}
RUNNING = {"metadata": {"labels": {"app": "x"}}, "spec": POD_SPEC | {"restartPolicy": "Always"}}

OBJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "pods": ("api/v1", {"kind": "Pod", "spec": POD_SPEC}),
    "configmaps": ("api/v1", {"kind": "ConfigMap", "data": {"a": ""}, "binaryData": {"b": "/wA="}}),
    "secrets": ("api/v1", {"kind": "Secret", "stringData": {"a": "b"}, "immutable": False}),
    "services": ("api/v1", {"kind": "Service", "spec": {"ports": [{"port": 80, "targetPort": "http"}]}}),
    "jobs": ("apis/batch/v1", {"kind": "Job", "spec": {"parallelism": 0, "template": TEMPLATE}}),
    "deployments": (
        "apis/apps/v1",
        {"kind": "Deployment", "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": RUNNING}},
    ),
    "leases": (
        "apis/coordination.k8s.io/v1",
        {"kind": "Lease", "spec": {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.000005Z"}},
    ),
}


def _bare(value: Any, *, gone: tuple[Any, ...] = ("", 0, False, None, {}, [])) -> Any:
    """A value without what is empty, which protobuf cannot always tell from absent, and without managedFields."""
    if isinstance(value, dict):
        kept = {key: _bare(item) for key, item in value.items() if key not in ("managedFields", "selfLink")}
        return {key: item for key, item in kept.items() if item not in gone}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _same_version(api: Api, path: str) -> tuple[Any, Any]:
    """An object in both encodings: controllers of the cluster may write to it in between."""
    while True:
        decoded = protobuf_objects.decode(api("GET", path, accept=protobuf_objects.MEDIA_TYPE).text)
        plain = api.get(path).body
        if decoded["metadata"]["resourceVersion"] == plain["metadata"]["resourceVersion"]:
            return decoded, plain


@pytest.mark.real_apiserver
@pytest.mark.parametrize("plural", OBJECTS)
def test_both_encodings_of_an_object_are_the_same(real: Path, plural: str) -> None:
    api = Api(real)
    root, body = OBJECTS[plural]
    version = root.partition("/")[2]
    path = f"/{root}/namespaces/default/{plural}"
    api.create(path, {"apiVersion": version, "metadata": {"name": "encoded", "labels": {"a": "b"}}, **body})
    try:
        decoded, expected = _same_version(api, f"{path}/encoded")
    finally:
        api("DELETE", f"{path}/encoded", propagationPolicy="Background", gracePeriodSeconds=0)
    assert _bare(decoded) == _bare(expected)
    if plural == "jobs":
        assert (
            decoded["spec"]["parallelism"],
            decoded["spec"]["template"]["spec"]["securityContext"]["runAsUser"],
        ) == (0, 0)
