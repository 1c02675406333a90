"""The manifests of an installation, as the chart and as the kustomization render them, in one comparable form."""

import base64
import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

KUSTOMIZE = ROOT / "deploy" / "kustomize"
EXTERNAL = {"broker": {"existingSecret": "penstock-broker"}, "crds": {"install": False}}
#: The chart's values that ask for the same as each overlay.
OVERLAYS: Mapping[str, Mapping[str, Any]] = {
    "in-cluster": EXTERNAL,
    "try": {"redis": {"enabled": True}, "crds": {"install": False}},
    "standalone": {**EXTERNAL, "mode": "standalone"},
    "beside": {**EXTERNAL, "kubeconfig": {"existingSecret": "penstock-kubeconfig"}},
    "namespaces": {**EXTERNAL, "namespaces": ["team-a", "team-b"]},
    "everything": {
        "broker": {"existingSecret": "penstock-broker", "ca": {"existingSecret": "penstock-broker-ca"}},
        "crds": {"install": False},
        "volcano": {"enabled": True},
        "autoscaling": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "monitoring": {
            "podMonitor": {"enabled": True},
            "rules": {"enabled": True},
            "dashboards": {"enabled": True},
        },
    },
}
#: Labels that tell of Helm, not of Penstock.
_HELMS = {"helm.sh/chart", *(f"app.kubernetes.io/{each}" for each in ("managed-by", "instance", "version"))}
_DIGEST = re.compile(r"penstock-settings-[a-z0-9]{10}\b")

Identity = tuple[str, str, str]


def kustomized(folder: Path) -> list[dict[str, Any]]:
    """Returns the objects of a kustomization. Skips the test without kubectl."""
    if not shutil.which("kubectl"):
        pytest.skip("there is no kubectl")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def overlay(name: str) -> list[dict[str, Any]]:
    """Returns the objects of an overlay."""
    return kustomized(KUSTOMIZE / "overlays" / name)


def comparable(objects: Iterable[Mapping[str, Any]]) -> dict[Identity, dict[str, Any]]:
    """Returns objects by kind, namespace and name, without what the two tools alone put there.

    That is: Helm's labels, the checksums with which its pods start anew, the digest in the name of a ConfigMap that
    does the same for a kustomization, and the namespace, which Helm is told on its command line. A role is compared by
    what it allows; volumes and variables have no order.
    """
    found = {}
    for each in objects:
        if each["kind"] == "Namespace":
            continue
        body = json.loads(_DIGEST.sub("penstock-settings", json.dumps(each)))
        metadata = body["metadata"]
        left = {name: value for name, value in metadata.pop("labels", {}).items() if name not in _HELMS}
        if body["kind"] in ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"):
            left = {name: value for name, value in left.items() if not name.startswith("app.kubernetes.io/")}
        if left:
            metadata["labels"] = left
        pod = body.get("spec", {}).get("template", {}).get("metadata", {})
        for annotated in (metadata, pod):
            notes = {key: value for key, value in annotated.pop("annotations", {}).items() if "checksum/" not in key}
            if notes:
                annotated["annotations"] = notes
        for container in body.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            for part in ("env", "volumeMounts"):
                container.get(part, []).sort(key=lambda each: each["name"])
            body["spec"]["template"]["spec"].get("volumes", []).sort(key=lambda each: each["name"])
        if "stringData" in body:
            plain = body.pop("stringData")
            body["data"] = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        if "rules" in body:
            body["rules"] = allowed(body["rules"])
        identity = (body["kind"], metadata.get("namespace", ""), metadata["name"])
        assert identity not in found, f"two objects are {identity}"
        found[identity] = body
    return found


def allowed(rules: Iterable[Mapping[str, Any]]) -> set[tuple[str, ...]]:
    """Returns what rules of a role allow, one entry per group, resource, name and verb."""
    return {
        (group, resource, ",".join(each.get("resourceNames", ())), verb)
        for each in rules
        for group in each["apiGroups"]
        for resource in each["resources"]
        for verb in each["verbs"]
    }


def pods(objects: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the pod templates by the name of what creates the pods."""
    return {
        each["metadata"]["name"]: copy.deepcopy(each["spec"]["template"])
        for each in objects
        if each["kind"] in ("Deployment", "StatefulSet")
    }
