"""A ScaledObject from its manifest to its target's replicas, with all our processes on both API servers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.controllers.keda_objects import (
    EMBEDDED_ONLY,
    LONG,
    KedaObject,
    manifest,
    remove,
    running_on_both,
)
from tests.support.conditions import eventually
from tests.support.valkeys import ValkeyServer
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, POD, SCALED_OBJECT, TRIGGER_AUTHENTICATION, Kind, Object, Ref
from workers.client.rest import Cluster
from workers.errors import Invalid, NotFound

pytestmark = pytest.mark.timeout(300)

running = running_on_both({"polling": "2"})

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
CRANE = Kind("example.com", "v1", "Crane", "cranes")


class Pool(KedaObject):
    """A ScaledObject and its target of the same name."""

    def __init__(self, cluster: Cluster, port: int) -> None:
        super().__init__(cluster, port, SCALED_OBJECT, "pool")
        self.target = Ref(DEPLOYMENT, "default", self.name)

    async def deploy(self, replicas: int = 0, **template: Any) -> None:
        """Creates the target: a Deployment whose pods do nothing."""
        labels = {"pool": self.name}
        container = {"name": "main", "image": "none", "command": ["sleep", "600"], **template}
        pods = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pods}
        await self.cluster.create(DEPLOYMENT, manifest(self.target, spec))

    async def apply(self, *, annotations: Object | None = None, trigger: Object | None = None, **spec: Any) -> None:
        """Creates the ScaledObject: one replica per item, polled every second, without a cooldown."""
        triggers = [{"type": "redis", "metadata": trigger} if trigger else self.trigger()]
        given = {"scaleTargetRef": {"name": self.name}, "pollingInterval": 1, "cooldownPeriod": 0, "triggers": triggers}
        await self.create({**given, **spec}, annotations=annotations or {})

    async def replicas(self) -> int:
        path = self.target.kind.path("default", self.name, "scale")
        scale = await self.cluster.request("GET", path)
        return int((scale.get("spec") or {}).get("replicas") or 0)

    async def has(self, replicas: int) -> None:
        """Waits for so many replicas."""

        async def so() -> bool:
            return await self.replicas() == replicas

        await eventually(so, LONG)


@pytest.fixture
async def pool(cluster: Cluster, source: ValkeyServer) -> AsyncIterator[Pool]:
    pool = Pool(cluster, source.port)
    yield pool
    await pool.remove()
    await remove(cluster, pool.target)


async def test_from_zero_to_what_is_needed_and_back(pool: Pool) -> None:
    await pool.deploy()
    await pool.apply(maxReplicaCount=3)
    await pool.becomes("Active", "False", "ScalerNotActive")
    assert await pool.replicas() == 0
    await pool.push(5)
    await pool.has(3)
    await pool.becomes("Active", "True", "ScalerActive")
    await pool.ask("LPOP", 5)
    await pool.has(0)
    await pool.becomes("Active", "False", "ScalerNotActive")
    await pool.has_told(
        "ScaledObjectReady", "KEDAScaleTargetActivated", "SuccessfulRescale", "KEDAScaleTargetDeactivated"
    )
    status = await pool.status()
    assert status["scaleTargetKind"] == "apps/v1.Deployment"
    assert (status["originalReplicaCount"], status["triggersTypes"]) == (0, "redis")


async def test_rules_of_speed_go_both_ways(pool: Pool) -> None:
    await pool.deploy(1)
    down = {"stabilizationWindowSeconds": 0}
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": down}}}
    await pool.apply(minReplicaCount=1, advanced=advanced)
    await pool.push(4)
    await pool.has(4)
    await pool.ask("LPOP", 2)
    await pool.has(2)


async def test_what_somebody_else_changed_is_put_right(pool: Pool) -> None:
    await pool.deploy()
    await pool.apply(minReplicaCount=2)
    await pool.has(2)
    await pool.cluster.patch(pool.target, {"spec": {"replicas": 0}}, subresource="scale")
    await pool.has(2)


async def test_anything_with_a_scale_subresource_is_scaled(pool: Pool) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema, "status": schema}}},
        "subresources": {"scale": {"specReplicasPath": ".spec.arms", "statusReplicasPath": ".status.arms"}},
    }
    names = {"kind": "Crane", "plural": "cranes", "singular": "crane"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    definition = Ref(CUSTOM_RESOURCE_DEFINITION, "", "cranes.example.com")
    await pool.cluster.create(CUSTOM_RESOURCE_DEFINITION, manifest(definition, spec))
    pool.target = Ref(CRANE, "default", pool.name)

    async def made() -> bool:
        try:
            await pool.cluster.create(CRANE, manifest(pool.target, {"arms": 0}))
        except NotFound:
            return False
        return True

    await eventually(made, LONG)
    await pool.apply(scaleTargetRef={"name": pool.name, "kind": "Crane", "apiVersion": "example.com/v1"})
    await pool.push(2)
    await pool.has(2)


async def test_paused_at_a_number_and_resumed(pool: Pool) -> None:
    await pool.deploy(1)
    await pool.apply(annotations={"autoscaling.keda.sh/paused-replicas": "3"})
    await pool.has(3)
    await pool.becomes("Paused", "True", "ScaledObjectPaused")
    assert (await pool.status())["pausedReplicaCount"] == 3
    await pool.annotate(paused_replicas=None)
    await pool.becomes("Paused", "False", "ScaledObjectUnpaused")
    await pool.has(0)


async def test_a_target_that_comes_later(pool: Pool) -> None:
    await pool.push(1)
    await pool.apply()
    message = await pool.becomes("Ready", "False", "ScaledObjectCheckFailed")
    assert f"Deployment default/{pool.name} does not exist" in message
    await pool.deploy()
    await pool.has(1)
    await pool.becomes("Ready", "True", "ScaledObjectReady")


async def test_the_environment_of_the_target_is_known(pool: Pool) -> None:
    await pool.deploy(env=[{"name": "SOURCE", "value": f"127.0.0.1:{pool.port}"}])
    await pool.push(1)
    await pool.apply(trigger={"addressFromEnv": "SOURCE", "listName": pool.name, "listLength": "1"})
    await pool.has(1)


async def test_unknown_is_not_zero(pool: Pool) -> None:
    await pool.deploy(2)
    await pool.apply(trigger={"address": "127.0.0.1:1", "listName": pool.name})
    await pool.becomes("Ready", "False", "TriggerError")
    assert await pool.replicas() == 2


async def test_a_fallback_stands_in_for_a_source_that_is_away(pool: Pool) -> None:
    await pool.deploy(1)
    await pool.apply(
        trigger={"address": "127.0.0.1:1", "listName": pool.name}, fallback={"failureThreshold": 1, "replicas": 3}
    )
    await pool.has(3)
    await pool.becomes("Fallback", "True", "FallbackExists")


async def test_at_its_end_the_target_gets_back_what_it_had(pool: Pool) -> None:
    await pool.deploy(2)
    await pool.push(4)
    await pool.apply(advanced={"restoreToOriginalReplicaCount": True})
    await pool.has(4)
    await pool.remove()
    assert await pool.replicas() == 2


@EMBEDDED_ONLY  # Deployments' pods, and their metrics
async def test_by_what_its_pods_consume(pool: Pool) -> None:
    """The target's controller is not there: a pod that its selector finds stands in for its pods."""
    await pool.deploy(1)
    spin = {
        "name": "main",
        "image": "none",
        "command": ["/bin/sh", "-c", "while :; do :; done"],
        "resources": {"requests": {"cpu": "10m"}},
    }
    pod = Ref(POD, "default", pool.name)
    await pool.cluster.create(POD, manifest(pod, {"containers": [spin]}, metadata={"labels": {"pool": pool.name}}))
    cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
    await pool.apply(triggers=[cpu], minReplicaCount=1, maxReplicaCount=3)
    await pool.has(3)
    await pool.becomes("Active", "True", "ScalerActive")
    assert (await pool.status())["resourceMetricNames"] == ["cpu"]
    await remove(pool.cluster, pod)


@EMBEDDED_ONLY  # admission without a webhook
async def test_one_target_is_not_given_to_two(pool: Pool) -> None:
    await pool.deploy(1)
    await pool.apply()
    second = manifest(Ref(SCALED_OBJECT, "default", f"{pool.name}-too"), (await pool.body())["spec"])
    with pytest.raises(Invalid, match=f"the target is scaled by ScaledObject {pool.name} already"):
        await pool.cluster.create(SCALED_OBJECT, second)


async def test_an_authentication_tells_who_uses_it_and_goes_when_it_is_deleted(pool: Pool) -> None:
    login = Ref(TRIGGER_AUTHENTICATION, "default", pool.name)
    entry = {"parameter": "password", "name": pool.name, "key": "password"}
    await pool.cluster.create(TRIGGER_AUTHENTICATION, manifest(login, {"secretTargetRef": [entry]}))
    await pool.deploy(1)
    await pool.apply(triggers=[{**pool.trigger(), "authenticationRef": {"name": pool.name}}])

    async def lists(names: str) -> bool:
        body = await pool.cluster.get(login)
        held = "finalizer.keda.sh" in (body["metadata"].get("finalizers") or [])
        return held and (body.get("status") or {}).get("scaledobjects", "") == names

    await eventually(lambda: lists(pool.name), LONG)
    assert "does not exist" in await pool.becomes("Ready", "False", "ScaledObjectCheckFailed")
    await pool.remove()
    await eventually(lambda: lists(""), LONG)
    await remove(pool.cluster, login)
