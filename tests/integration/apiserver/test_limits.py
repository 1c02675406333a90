"""Who may talk to whom, who comes first, how much there is: kept, filled in and judged as a real API server does."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.integration.apiserver.client import Answer, Api, until
from tests.support.tables import for_each

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


@for_each(
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
)
def test_a_network_policy_is_filled_in(given: Any, filled: Any, api: Api) -> None:
    body = api.create(path(api, POLICIES), policy(**given))
    assert body["spec"] == {"podSelector": {}, **given, **filled}
    assert body["metadata"]["generation"] == 1


def test_a_priority_class_is_filled_in_and_stays_what_it_is(api: Api, classes: str) -> None:
    body = api.create(classes, priority(api, globalDefault=False))
    assert (body["value"], body["preemptionPolicy"], "globalDefault" in body) == (5, "PreemptLowerPriority", False)
    refused = api.patch(f"{classes}/{body['metadata']['name']}", {"value": 6})
    assert refused.code == 422
    # Kubernetes 1.20 spells the field `Value`.
    assert "value: forbidden: may not be changed in an update." in refused.body["message"].lower()


def test_a_quota_is_kept(api: Api) -> None:
    body = api.create(path(api, QUOTAS), quota(**{"pods": "4", "requests.cpu": "1500m"}))
    assert body["spec"] == {"hard": {"pods": "4", "requests.cpu": "1500m"}}
    assert body["status"] == {}


@for_each(
    (POLICIES, lambda api: policy(policyTypes=["Sideways"]), "spec.policyTypes"),
    (QUOTAS, lambda api: quota(pods="-1"), "spec.hard[pods]"),
    (CLASSES, lambda api: priority(api, value=1_000_000_001), "value"),
    (CLASSES, lambda api: priority(api, preemptionPolicy="Always"), "preemptionPolicy"),
    (CLASSES, lambda api: priority(api, metadata={"name": "system-mine"}), "metadata.name"),
)
def test_what_makes_no_sense_is_refused(where: str, make: Any, field: str, api: Api) -> None:
    refused = api("POST", path(api, where), make(api))
    assert refused.code == 422
    assert field in refused.body["message"]


PODS = "/api/v1/namespaces/{namespace}/pods"
SERVICES = "/api/v1/namespaces/{namespace}/services"


def pod(name: str, *, requests: Any = None, limits: Any = None, **spec: Any) -> dict[str, Any]:
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    container = {"name": "c", "image": "none", **({"resources": resources} if resources else {})}
    # Nothing runs it: it asks for a scheduler that is not there.
    body = {"containers": [container], "schedulerName": "nobody", "automountServiceAccountToken": False, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body}


@pytest.fixture
def limited(api: Api) -> Api:
    """A namespace in which pods may be made: a real API server waits for its service account."""
    api("POST", path(api, "/api/v1/namespaces/{namespace}/serviceaccounts"), _account())
    return api


def _account() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}


def bounded(api: Api, scopes: list[str] | None = None, **hard: str) -> None:
    """A quota, once somebody has counted what is used of it."""
    body = quota(**hard)
    body["spec"] |= {"scopes": scopes} if scopes else {}
    api.create(path(api, QUOTAS), body)
    until(lambda: (api.get(f"{path(api, QUOTAS)}/one").body.get("status") or {}).get("hard") == hard, "it is counted")


def used(api: Api) -> dict[str, str]:
    found: dict[str, str] = api.get(f"{path(api, QUOTAS)}/one").body["status"]["used"]
    return found


def test_a_pod_beyond_a_quota_is_refused(limited: Api) -> None:
    bounded(limited, **{"pods": "2", "requests.cpu": "1"})
    limited.create(path(limited, PODS), pod("a", requests={"cpu": "600m"}))
    until(lambda: used(limited) == {"pods": "1", "requests.cpu": "600m"}, "it is counted")
    refused = limited("POST", path(limited, PODS), pod("b", requests={"cpu": "500m"}))
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    told = "exceeded quota: one, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    assert refused.body["message"] == f'pods "b" is forbidden: {told}'
    limited.create(path(limited, PODS), pod("b", requests={"cpu": "400m"}))
    refused = limited("POST", path(limited, PODS), pod("c", limits={"cpu": "100m"}))
    told = "requested: pods=1,requests.cpu=100m, used: pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1"
    assert refused.body["message"].endswith(told)


@for_each(
    ({"cpu": "1"}, {}, "failed quota: one: must specify cpu"),
    ({"limits.memory": "1Gi"}, {"requests": {"memory": "1Mi"}}, "failed quota: one: must specify limits.memory"),
    ({"limits.cpu": "1"}, {"limits": {"cpu": "2"}}, "exceeded quota: one, requested: limits.cpu=2, used"),
    ({"memory": "1Gi"}, {"limits": {"memory": "2Gi"}}, "requested: memory=2Gi, used: memory=0, limited: memory=1Gi"),
    ({"count/pods": "0"}, {}, "requested: count/pods=1, used: count/pods=0, limited: count/pods=0"),
)
def test_what_a_quota_bounds_must_be_said_and_must_fit(hard: Any, given: Any, why: str, limited: Api) -> None:
    bounded(limited, **hard)
    refused = limited("POST", path(limited, PODS), pod("a", **given))
    assert (refused.code, why in refused.body["message"]) == (403, True), refused.body["message"]


def test_pods_that_have_ended_count_no_more(limited: Api) -> None:
    bounded(limited, pods="1")
    limited.create(path(limited, PODS), pod("a"))
    assert limited("POST", path(limited, PODS), pod("b")).code == 403
    limited.patch(f"{path(limited, PODS)}/a/status", {"status": {"phase": "Succeeded"}})
    until(lambda: used(limited) == {"pods": "0"}, "it is counted")
    limited.create(path(limited, PODS), pod("b"))


def test_other_objects_are_counted_too(api: Api) -> None:
    # Of services nobody makes any by himself, as a controller does with a new namespace's ConfigMap and Secret.
    bounded(api, services="1")
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    api.create(path(api, SERVICES), body)
    refused = api("POST", path(api, SERVICES), {**body, "metadata": {"name": "b"}})
    assert (refused.code, "exceeded quota: one, requested: services=1" in refused.body["message"]) == (403, True)
    api("DELETE", f"{path(api, SERVICES)}/a")
    until(lambda: used(api) == {"services": "0"}, "it is counted")


SHORT = {"activeDeadlineSeconds": 60}


@for_each(
    (["BestEffort"], {"requests": {"cpu": "1"}}, {}),
    (["NotBestEffort"], {}, {"requests": {"cpu": "1"}}),
    (["Terminating"], {}, SHORT),
    (["NotTerminating"], SHORT, {}),
    (["BestEffort", "Terminating"], {**SHORT, "limits": {"cpu": "1"}}, SHORT),
)
def test_a_quota_may_be_for_some_pods_only(scopes: list[str], fine: Any, beyond: Any, limited: Api) -> None:
    bounded(limited, scopes, pods="0")
    assert limited("POST", path(limited, PODS), pod("b", **beyond)).code == 403
    limited.create(path(limited, PODS), pod("a", **fine))


@for_each((["BestEffort", "NotBestEffort"], "pods"), (["BestEffort"], "cpu"), (["Sideways"], "pods"))
def test_scopes_that_make_no_sense_are_refused(scopes: list[str], hard: str, api: Api) -> None:
    body = quota(**{hard: "1"})
    body["spec"]["scopes"] = scopes
    refused = api("POST", path(api, QUOTAS), body)
    assert (refused.code, "spec.scopes" in refused.body["message"]) == (422, True)


def test_many_at_once_never_go_beyond_a_quota(limited: Api) -> None:
    bounded(limited, pods="5")
    with ThreadPoolExecutor(20) as pool:
        answers = pool.map(lambda index: limited("POST", path(limited, PODS), pod(f"p{index}")), range(20))
        codes = [answer.code for answer in answers]
    assert len(limited.get(path(limited, PODS)).body["items"]) == codes.count(201) == 5
    assert set(codes) <= {201, 403, 409}


def created_pod(api: Api, **spec: Any) -> Answer:
    """The answer to a pod that is not kept."""
    return api("POST", path(api, PODS), pod("a", **spec), dryRun="All")


@for_each(
    ({}, {"priorityClassName": "p-{namespace}", "priority": 5, "preemptionPolicy": "PreemptLowerPriority"}),
    ({"preemptionPolicy": "Never"}, {"priority": 5, "preemptionPolicy": "Never"}),
)
def test_a_pod_has_the_priority_of_its_class(given: Any, found: Any, api: Api, classes: str) -> None:
    name = api.create(classes, priority(api, **given))["metadata"]["name"]
    answer = until(
        lambda: (found := created_pod(api, priorityClassName=name)).code == 201 and found,
        "the class and an account are known",
    )
    assert {field: answer.body["spec"][field] for field in found} == {
        field: name if field == "priorityClassName" else value for field, value in found.items()
    }
    refused = created_pod(api, priorityClassName=name, priority=7)
    assert (refused.code, "computed 5 from the given PriorityClass name" in refused.message) == (403, True)


def test_a_pod_without_a_class_has_that_of_the_default_one(api: Api, classes: str) -> None:
    name = api.create(classes, priority(api, globalDefault=True))["metadata"]["name"]

    def has_default() -> bool:
        answer = created_pod(api)
        return answer.code == 201 and answer.body["spec"].get("priorityClassName") == name

    until(has_default, "the default class is known")
    second = api("POST", classes, {**priority(api, globalDefault=True), "metadata": {"name": "second"}})
    assert (second.code, "Only one default can exist" in second.message) == (403, True)


@for_each(
    ({"priorityClassName": "unknown"}, "no PriorityClass with name unknown was found"),
    ({"priority": 5}, "the integer value of priority (5) must not be provided in pod spec; "),
    ({"preemptionPolicy": "Never"}, "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "),
)
def test_a_pod_of_no_class_is_refused(given: Any, refusal: str, api: Api) -> None:
    until(lambda: created_pod(api).code == 201, "an account is there")
    answer = created_pod(api, **given)
    assert (answer.code, answer.message.startswith(f'pods "a" is forbidden: {refusal}')) == (403, True)


def test_the_classes_of_the_system_exist(api: Api) -> None:
    until(lambda: created_pod(api).code == 201, "an account is there")
    answer = created_pod(api, priorityClassName="system-node-critical")
    assert (answer.code, answer.body["spec"]["priority"]) == (201, 2_000_001_000)
    listed = {found["metadata"]["name"]: found["value"] for found in api.get(CLASSES).body["items"]}
    assert (listed["system-cluster-critical"], listed["system-node-critical"]) == (2_000_000_000, 2_000_001_000)
