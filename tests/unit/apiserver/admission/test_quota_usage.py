"""The usage of objects by the names of quotas, and the scopes of quotas."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver import strategies
from deploy.local.apiserver.admission import resource_quotas
from deploy.local.apiserver.admission.resource_quotas import QuotaUsage
from tests.support.tables import cases, for_each
from workers.api.kinds import CONFIG_MAP, JOB, POD, RESOURCE_QUOTA, Kind, Object

SERVICE = Kind("", "v1", "Service", "services")
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")


def pod(*, phase: str = "Running", requests: Object | None = None, limits: Object | None = None, **spec: Any) -> Object:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"spec": {"containers": [{"name": "c", "resources": resources}], **spec}, "status": {"phase": phase}}


#: Resources of a pod as a whole.
WHOLE = {"limits": {"cpu": "2"}}


def service(type_: str, ports: int) -> Object:
    return {"spec": {"type": type_, "ports": [{"port": number + 1} for number in range(ports)]}}


@cases(
    ("a pod that asks for nothing", POD, pod(), {"pods": "1", "count/pods": "1"}),
    (
        "a limit is a request",
        POD,
        pod(requests={"cpu": "1"}, limits={"memory": "2Gi"}),
        {"pods": "1", "count/pods": "1", "cpu": "1", "requests.cpu": "1"}
        | dict.fromkeys(("memory", "requests.memory", "limits.memory"), "2Gi"),
    ),
    ("a pod that has ended", POD, pod(phase="Failed", requests={"cpu": "1"}), {"count/pods": "1"}),
    ("a plain name of old", CONFIG_MAP, {}, {"configmaps": "1", "count/configmaps": "1"}),
    ("by kind and group", JOB, {}, {"count/jobs.batch": "1"}),
    (
        "node ports",
        SERVICE,
        service("NodePort", 2),
        {"services": "1", "count/services": "1", "services.nodeports": "2"},
    ),
    (
        "a load balancer",
        SERVICE,
        service("LoadBalancer", 1),
        dict.fromkeys(("services", "count/services", "services.nodeports", "services.loadbalancers"), "1"),
    ),
    ("no ports outside", SERVICE, service("ClusterIP", 3), {"services": "1", "count/services": "1"}),
    (
        "a claim",
        CLAIM,
        {"spec": {"resources": {"requests": {"storage": "5Gi"}}}},
        {"persistentvolumeclaims": "1", "count/persistentvolumeclaims": "1", "requests.storage": "5Gi"},
    ),
)
def test_the_usage_of_an_object_has_the_names_of_quotas(kind: Kind, body: Object, counted: dict[str, str]) -> None:
    found = resource_quotas.of(kind, body).amounts
    assert {name: str(amount) for name, amount in found.items() if amount.value} == counted
    assert all(map(resource_quotas.is_counted, found))


@for_each(
    (pod(), {"NotTerminating", "BestEffort"}),
    (pod(requests={"cpu": "0"}), {"NotTerminating", "BestEffort"}),
    (pod(requests={"example.com/gpu": "1"}), {"NotTerminating", "BestEffort"}),
    (pod(limits={"memory": "1"}), {"NotTerminating", "NotBestEffort"}),
    (pod(resources=WHOLE), {"NotTerminating", "NotBestEffort"}),
    (pod(activeDeadlineSeconds=5), {"Terminating", "BestEffort"}),
    (pod(priorityClassName="high"), {"NotTerminating", "BestEffort", "PriorityClass"}),
    (
        pod(initContainers=[{"name": "i", "resources": {"requests": {"cpu": "1"}}}]),
        {"NotTerminating", "NotBestEffort"},
    ),
)
def test_the_scopes_of_a_pod(body: Object, scopes: set[str]) -> None:
    assert resource_quotas.of(POD, body).scopes == scopes


def term(operator: str, *values: str) -> Object:
    one = {"scopeName": "PriorityClass", "operator": operator, **({"values": list(values)} if values else {})}
    return {"scopeSelector": {"matchExpressions": [one]}}


@cases(
    ("any", {}, True, True, True),
    ("pods only", {"scopes": ["NotTerminating"]}, True, True, False),
    ("any priority", term("Exists"), False, True, False),
    ("no priority", term("DoesNotExist"), True, False, False),
    ("one of these", term("In", "high", "low"), False, True, False),
    ("none of these", term("NotIn", "high"), True, False, False),
    ("both", {"scopes": ["BestEffort"], **term("Exists")}, False, True, False),
    ("one does not hold", {"scopes": ["Terminating"], **term("Exists")}, False, False, False),
)
def test_which_objects_a_quota_means(spec: Object, plain: bool, high: bool, other: bool) -> None:
    asked = (
        resource_quotas.of(POD, pod()),
        resource_quotas.of(POD, pod(priorityClassName="high")),
        resource_quotas.of(CONFIG_MAP, {}),
    )
    assert [resource_quotas.applies(spec, each) for each in asked] == [plain, high, other]


@for_each(
    (["pods"], pod(), ""),
    (["requests.cpu"], pod(limits={"cpu": "1"}), ""),
    (["limits.cpu"], pod(requests={"cpu": "1"}), "limits.cpu for: c"),
    (["memory", "cpu"], pod(requests={"cpu": "1"}), "memory for: c"),
    (["requests.memory"], pod(initContainers=[{"name": "i"}, {"name": "j"}]), "requests.memory for: i,j,c"),
    (["limits.cpu", "requests.cpu"], pod(resources=WHOLE), ""),
    (["limits.cpu", "memory"], pod(resources=WHOLE), "memory for: c"),
    (["limits.cpu", "limits.memory"], pod(), "limits.cpu for: c; limits.memory for: c"),
)
def test_a_container_must_declare_bounded_resources(hard: list[str], body: Object, missing: str) -> None:
    assert resource_quotas.undeclared(body["spec"], dict.fromkeys(hard, "9")) == missing


#: Names that no quota bounds, and amounts that must be whole; a quota with the former would bound nothing.
_UNKNOWN = ("pod", "request.cpu", "storage")
_WHOLE = ("pods", "count/jobs.batch")


@for_each(
    ({"hard": {"pods": "1", "cpu": "1"}, "scopes": ["NotBestEffort", "Terminating"]}, []),
    ({"hard": {"configmaps": "1"}}, []),
    ({"hard": {"pods": "1"}, "scopes": ["CrossNamespacePodAffinity"]}, ["spec.scopes[0]"]),
    ({"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]}, ["spec.scopes"]),
    ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}, ["spec.scopes"]),
    ({"hard": {"configmaps": "1"}, "scopes": ["Terminating"]}, ["spec.scopes"]),
    ({"hard": {"pods": "1"}, **term("In", "high")}, []),
    (
        {"scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "DoesNotExist"}]}},
        ["spec.scopeSelector.matchExpressions[0]"],
    ),
    ({"hard": dict.fromkeys(("pod", "request.cpu", "storage"), "1")}, [f"spec.hard[{n}]" for n in _UNKNOWN]),
    ({"hard": {"a b": "1", "count/jobs.batch": "1", "requests.nvidia.com/gpu": "1"}}, ["spec.hard[a b]"] * 2),
    ({"hard": {"hugepages-2Mi": "1Gi", "requests.hugepages-2Mi": "1Gi", "services.nodeports": "1"}}, []),
    ({"hard": {"pods": "1.5", "count/jobs.batch": "1500m", "cpu": "1.5"}}, [f"spec.hard[{n}]" for n in _WHOLE]),
)
def test_quotas_that_make_no_sense(spec: Object, fields: list[str]) -> None:
    assert [error.field for error in strategies.strategy(RESOURCE_QUOTA).validate({"spec": spec})] == fields


@given(st.sampled_from(["BestEffort", "Terminating"]), st.booleans(), st.integers(0, 2))
def test_a_pod_is_on_one_side_of_each_scope(scope: str, ends: bool, cpus: int) -> None:
    deadline = {"activeDeadlineSeconds": 1} if ends else {}
    one: QuotaUsage = resource_quotas.of(POD, pod(requests={"cpu": str(cpus)}, **deadline))
    assert resource_quotas.applies({"scopes": [scope]}, one) != resource_quotas.applies(
        {"scopes": [f"Not{scope}"]}, one
    )
