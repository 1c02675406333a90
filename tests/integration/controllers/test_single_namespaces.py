"""Two namespaces are served with Roles in them alone: no account has a right in the cluster, or elsewhere."""

from collections.abc import Iterator

import pytest
import redis

from deploy.manifests import rbac
from tests.integration.controllers import role_scenario as scenario
from tests.support import audit
from tests.support.role_rig import PASSWORD, Running, role_rig
from tests.support.terminal import until
from workers.api.kinds import JOB, SCALED_JOB, Object

pytestmark = [pytest.mark.real_apiserver, pytest.mark.timeout(300)]

PLACEMENT = rbac.Placement(namespaces=("first", "second"))
GRANTS = rbac.Grants(secrets=("*",))
SETTINGS = {"NAMESPACES": "first,second", "CLUSTER_SCOPED": "false", "OWN_NAMESPACE": "penstock", "STALE": "60"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Watch, worker, scaler and beat with these roles."""
    with role_rig(
        tmp_path_factory.mktemp("namespaces"),
        rbac.documents(GRANTS, PLACEMENT),
        settings=SETTINGS,
        processes=("watch", "worker", "scaler", "beat"),
        namespaces=("penstock", *PLACEMENT.namespaces),
    ) as found:
        yield found


def scaled_job(running: Running, namespace: str, name: str, **reference: str) -> list[Object]:
    made = scenario.redis_trigger(running, name)
    trigger = {**scenario.trigger(running, name), "authenticationRef": {"name": name, **reference}}
    spec = {"pollingInterval": 1, "maxReplicaCount": 1, "triggers": [trigger]}
    spec["jobTargetRef"] = {"template": scenario.template()}
    made.append(scenario.body("ScaledJob", "keda.sh/v1alpha1", name, spec=spec))
    return [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in made]


def test_objects_of_each_namespace_are_served_and_no_others(running: Running) -> None:
    for namespace in (*PLACEMENT.namespaces, "default"):
        running.apply(*scaled_job(running, namespace, "work"))

    def jobs(namespace: str) -> list[Object]:
        return list(running.ask(JOB.path(namespace))["items"])

    for namespace in PLACEMENT.namespaces:
        until(lambda namespace=namespace: jobs(namespace), f"a Job in {namespace}")  # type: ignore[misc]
    assert jobs("default") == []
    assert audit.refused(running.home) == {}


def test_an_authentication_of_the_cluster_is_refused_with_its_reason(running: Running) -> None:
    running.apply(*scaled_job(running, "first", "wide", kind="ClusterTriggerAuthentication"))
    with redis.Redis(port=running.source.port, password=PASSWORD) as link:
        assert link.llen("wide") == 2

    def reason() -> str:
        found = running.ask(SCALED_JOB.path("first", "wide")).get("status", {}).get("conditions") or ()
        return str(next((one.get("message") for one in found if one["type"] == "Ready"), ""))

    until(lambda: "PENSTOCK_CLUSTER_SCOPED=false" in reason(), "the condition says why")


def test_no_role_reaches_beyond_the_namespaces() -> None:
    documents = list(rbac.documents(GRANTS, PLACEMENT))
    assert not [one["kind"] for one in documents if one["kind"].startswith("Cluster") or one["kind"] == "Namespace"]
    assert {one["metadata"]["namespace"] for one in documents} == {"penstock", "first", "second"}
