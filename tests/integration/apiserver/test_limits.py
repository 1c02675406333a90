"""Who may talk to whom, who comes first, how much there is: kept, filled in and judged as a real API server does."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.apiserver.client import Api

POLICIES = "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
QUOTAS = "/api/v1/namespaces/{namespace}/resourcequotas"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def path(api: Api, template: str) -> str:
    return template.format(namespace=api.namespace)


def policy(**spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "one"}}
    return {**head, "spec": {"podSelector": {}, **spec}}


def priority(api: Api, **fields: Any) -> dict[str, Any]:
    """PriorityClasses have no namespace: each test has its own name."""
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"p-{api.namespace}"}}
    return {**head, "value": 5, **fields}


def quota(**hard: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one"}, "spec": {"hard": hard}}


@pytest.fixture
def classes(api: Api) -> Iterator[str]:
    yield CLASSES
    api("DELETE", f"{CLASSES}/p-{api.namespace}")


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({}, {"policyTypes": ["Ingress"]}),
        ({"egress": [{}]}, {"policyTypes": ["Ingress", "Egress"]}),
        ({"policyTypes": ["Egress"]}, {}),
        (
            {"ingress": [{"ports": [{"port": "http"}, {"port": 80, "protocol": "UDP"}]}]},
            {
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": "http", "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]}],
            },
        ),
    ],
)
def test_a_network_policy_is_filled_in(api: Api, given: Any, filled: Any) -> None:
    body = api.create(path(api, POLICIES), policy(**given))
    assert body["spec"] == {"podSelector": {}, **given, **filled}
    assert body["metadata"]["generation"] == 1


def test_a_priority_class_is_filled_in_and_stays_what_it_is(api: Api, classes: str) -> None:
    body = api.create(classes, priority(api, globalDefault=False))
    assert (body["value"], body["preemptionPolicy"], "globalDefault" in body) == (5, "PreemptLowerPriority", False)
    refused = api.patch(f"{classes}/{body['metadata']['name']}", {"value": 6})
    assert refused.code == 422
    assert "Value: Forbidden: may not be changed in an update." in refused.body["message"]


def test_a_quota_is_kept(api: Api) -> None:
    body = api.create(path(api, QUOTAS), quota(**{"pods": "4", "requests.cpu": "1500m"}))
    assert body["spec"] == {"hard": {"pods": "4", "requests.cpu": "1500m"}}
    assert body["status"] == {}


@pytest.mark.parametrize(
    ("where", "make", "field"),
    [
        (POLICIES, lambda api: policy(policyTypes=["Sideways"]), "spec.policyTypes"),
        (QUOTAS, lambda api: quota(pods="-1"), "spec.hard[pods]"),
        (CLASSES, lambda api: priority(api, value=1_000_000_001), "value"),
        (CLASSES, lambda api: priority(api, preemptionPolicy="Always"), "preemptionPolicy"),
        (CLASSES, lambda api: priority(api, metadata={"name": "system-mine"}), "metadata.name"),
    ],
)
def test_what_makes_no_sense_is_refused(api: Api, where: str, make: Any, field: str) -> None:
    refused = api("POST", path(api, where), make(api))
    assert refused.code == 422
    assert field in refused.body["message"]
