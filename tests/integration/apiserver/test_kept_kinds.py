"""Kinds of ordinary bundles that nothing acts on: kubectl applies and lists them, and learns what does not happen."""

import json
import re
import shutil

import pytest

from tests.integration.apiserver.client import Api, until
from tests.integration.apiserver.conftest import Kubectl
from tests.support.tables import cases

pytestmark = pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed: NOT tested with it")

BUNDLE = """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  ingressClassName: nginx
  rules:
    - host: example.org
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: main, image: none}]}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: sizes}
spec: {limits: [{type: Container, default: {cpu: 500m}}]}
"""
#: By command, the start of the line that tells of the object's row in a table.
CREATED = {
    "role reader --verb=get --resource=pods": "role.rbac.authorization.k8s.io/reader ",
    "rolebinding readers --role=reader --user=me": r"rolebinding.rbac.authorization.k8s.io/readers +Role/reader ",
    "poddisruptionbudget few --selector=app=web --min-available=50%": "poddisruptionbudget.policy/few +50% ",
    "ingress two --class=x --rule=example.org/*=web:80": "ingress.networking.k8s.io/two +x +example.org ",
}


def test_a_bundle_is_applied_shown_changed_and_taken_away(kubectl: Kubectl) -> None:
    said = kubectl("apply", "-f", "-", stdin=BUNDLE)
    assert "Warning: DaemonSet is stored and nothing acts on it here: no pods are made" in said
    assert "ingress.networking.k8s.io/web created" in said
    assert kubectl("diff", "-f", "-", stdin=BUNDLE) == ""
    # A warning belongs to the creation.
    assert "Warning" not in kubectl("apply", "-f", "-", stdin=BUNDLE.replace("example.org", "example.com"))
    shown = kubectl("get", "all,ing,limits")
    assert re.search(r"^daemonset.apps/agent +0 +0 +0 ", shown, re.MULTILINE)
    assert re.search(r"^ingress.networking.k8s.io/web +nginx +example.com ", shown, re.MULTILINE)
    assert "limitrange/sizes" in shown
    assert "pathType" in kubectl("explain", "ingress.spec.rules.http.paths")
    misspelt = BUNDLE.replace("ingressClassName", "ingressClass", 1)
    assert 'unknown field "spec.ingressClass"' in kubectl("apply", "-f", "-", stdin=misspelt, fails=True)
    assert kubectl("delete", "-f", "-", stdin=BUNDLE).count("deleted") == 3


def test_kubectl_creates_what_it_has_commands_for(kubectl: Kubectl, ours: Api) -> None:
    # These come as protobuf.
    for command in CREATED:
        # Roles and their bindings are obeyed.
        assert ("Warning: " in kubectl("create", *command.split())) is not command.startswith("role")
    kubectl("create", "deployment", "web", "--image=none")
    kubectl("autoscale", "deployment", "web", "--max=3", "--cpu-percent=50")
    shown = kubectl("get", "role,rolebinding,pdb,ing,hpa")
    for row in (*CREATED.values(), r"horizontalpodautoscaler.autoscaling/web +Deployment/web +1 +3 "):
        assert re.search(f"^{row}", shown, re.MULTILINE)
    [metric] = json.loads(kubectl("get", "hpa", "web", "-o", "json"))["spec"]["metrics"]
    assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 50}
    old = ours.get(f"/apis/autoscaling/v1/namespaces/{ours.namespace}/horizontalpodautoscalers/web").body
    assert old["spec"]["targetCPUUtilizationPercentage"] == 50
    assert kubectl("auth", "can-i", "delete", "ingresses") == "yes\n"


def test_an_event_says_what_does_not_happen_once_per_object_but_once_for_all_slices(
    kubectl: Kubectl, ours: Api
) -> None:
    for number in range(2):
        kubectl("create", "ingress", f"i{number}", "--rule=example.org/*=web:80")
        slice_ = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": f"s{number}"}}
        kubectl("create", "-f", "-", stdin=json.dumps({**slice_, "addressType": "IPv4", "endpoints": []}))
    path = f"/api/v1/namespaces/{ours.namespace}/events"

    def told(*about: str) -> bool:
        found = [event["involvedObject"] for event in ours.get(path).body["items"] if event["reason"] == "NotActedUpon"]
        return sorted(each["name"] for each in found) == list(about)

    until(lambda: told("i0", "i1", "s0"), "every Ingress and the first EndpointSlice have an Event")
    assert "NotActedUpon" in kubectl("describe", "ingress", "i1")
    kubectl("delete", "ingress", "i0", "i1")
    until(lambda: told("s0"), "Events go with their objects")


@cases(
    ("another version", "/apis/batch/v1beta1/namespaces/default/cronjobs", ": use batch/v1"),
    ("a former group", "/apis/extensions/v1beta1/ingresses", ": use networking.k8s.io/v1"),
    ("a group that is not there", "/apis/resource.k8s.io/v1/deviceclasses", ": it is not offered here"),
    ("only the path is wrong", "/api/v1/pods/x", ""),
)
def test_a_resource_that_is_not_served_is_refused_with_a_hint(path: str, hint: str, ours: Api) -> None:
    answer = ours("GET", path)
    assert answer.code == 404
    assert answer.body["message"] == f"the server could not find the requested resource{hint}"
