"""API servers accept what the chart renders: no field is unknown to them, and none has a wrong type."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import helm, rendered
from tests.support.conditions import eventually
from workers.api import conditions, crds
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Object, Ref
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, NotFound

#: Kinds whose definitions come with the Prometheus operator.
ELSEWHERE = {"PodMonitor", "PrometheusRule"}
CHOICES: Mapping[str, Mapping[str, Any]] = {
    **rendered.OVERLAYS,
    "with an Ingress": {
        **rendered.EXTERNAL,
        "gateway": {
            "tls": {"existingSecret": "tls"},
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "hosts": [{"host": "penstock.example.com", "paths": ["/events"]}],
                "tls": [{"secretName": "tls", "hosts": ["penstock.example.com"]}],
            },
        },
        "rights": {"tokens": ["team-a/reader"], "secrets": ["team-a"]},
        "broker": {"url": "redis://redis:6379/0"},
    },
}


@pytest.fixture(scope="module")
def chart() -> Iterator[helm.Helm]:
    """Helm, for this module."""
    with helm.running() as running:
        yield running


@pytest.fixture
async def prepared(cluster_config: Path) -> AsyncIterator[Cluster]:
    """A cluster with our CRDs and the namespaces of the overlays."""
    async with await Cluster.connect(kubeconfig=cluster_config) as cluster:
        for name in ("penstock", "team-a", "team-b"):
            with contextlib.suppress(AlreadyExists):
                await cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for crd in crds.all_crds():
            ref = Ref(CUSTOM_RESOURCE_DEFINITION, "", crd["metadata"]["name"])
            with contextlib.suppress(AlreadyExists):
                await cluster.create(CUSTOM_RESOURCE_DEFINITION, crd)

            async def served(ref: Ref = ref) -> bool:
                return conditions.holds(await cluster.get(ref), "Established")

            await eventually(served)
        yield cluster


def unknown(body: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yields the fields that a schema of OpenAPI 2 does not have, or that have another type there."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    kinds: dict[str, type | tuple[type, ...]] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
    }
    wanted = schema.get("type", "object" if "properties" in schema else "")
    if schema.get("format") == "int-or-string":
        kinds["string"] = (int, str)
    if wanted in kinds and not isinstance(body, kinds[wanted]):
        yield f"{path}: {body!r} is no {wanted}"
    elif isinstance(body, dict):
        properties, further = schema.get("properties"), schema.get("additionalProperties")
        for name, value in body.items():
            if properties is not None and name in properties:
                yield from unknown(value, properties[name], definitions, f"{path}.{name}")
            elif isinstance(further, dict):
                yield from unknown(value, further, definitions, f"{path}.{name}")
            elif properties is not None and not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}.{name} is unknown"
    elif isinstance(body, list):
        for index, value in enumerate(body):
            yield from unknown(value, schema.get("items", {}), definitions, f"{path}[{index}]")


async def defined(cluster: Cluster) -> Mapping[str, Any]:
    """The definitions of the server's OpenAPI."""
    document = await cluster.request("GET", "/openapi/v2")
    # An old server does not say that this is JSON.
    found: Mapping[str, Any] = (json.loads(document) if isinstance(document, str) else document)["definitions"]
    return found


async def collection(cluster: Cluster, body: Object) -> str:
    """The path to which an object of this kind is posted. Raises NotFound for a version that the server lacks."""
    group = f"/apis/{body['apiVersion']}" if "/" in body["apiVersion"] else f"/api/{body['apiVersion']}"
    resources = (await cluster.request("GET", group))["resources"]
    (found,) = (each for each in resources if each["kind"] == body["kind"] and "/" not in each["name"])
    place = f"/namespaces/{body['metadata']['namespace']}" if found["namespaced"] else ""
    return f"{group}{place}/{found['name']}"


async def disruption_version(cluster: Cluster) -> str:
    """The version of PodDisruptionBudget that the server has: 1.20 has no policy/v1."""
    version = await cluster.request("GET", "/version")
    minor = int(version["minor"].rstrip("+") or 20)
    return "policy/v1beta1" if minor < 21 else "policy/v1"


@pytest.mark.parametrize("choice", CHOICES)
async def test_every_object_is_accepted(choice: str, prepared: Cluster, chart: helm.Helm) -> None:
    budget = {"podDisruptionBudget": {"apiVersion": await disruption_version(prepared)}}
    objects = chart.template({**CHOICES[choice], **budget})
    for body in objects:
        if body["kind"] in ELSEWHERE:
            continue
        # A dry run of a strict server refuses an unknown field; 1.20 knows no strictness, but its OpenAPI tells.
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        await prepared.request("POST", await collection(prepared, body), body=body, query=query)
    definitions = await defined(prepared)
    by_kind = {
        (gvk["group"], gvk["version"], gvk["kind"]): schema
        for schema in definitions.values()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
    }
    judged = set()
    for body in objects:
        group, _, version = body["apiVersion"].rpartition("/")
        if schema := by_kind.get((group, version, body["kind"])):
            judged.add(body["kind"])
            assert not list(unknown(body, schema, definitions, body["kind"]))
    assert judged >= {"Deployment", "PodDisruptionBudget", "ConfigMap", "ServiceAccount", "Service"}


async def test_a_field_that_is_misspelt_is_found(prepared: Cluster, chart: helm.Helm) -> None:
    definitions = await defined(prepared)
    (schema,) = (
        each
        for each in definitions.values()
        if {"group": "apps", "version": "v1", "kind": "Deployment"} in each.get("x-kubernetes-group-version-kind", ())
    )
    text = json.dumps(next(each for each in chart.template(rendered.EXTERNAL) if each["kind"] == "Deployment"))
    wrong = json.loads(text.replace('"livenessProbe"', '"livenesProbe"').replace('"replicas": 2', '"replicas": "2"'))
    assert list(unknown(wrong, schema, definitions)) == [
        ".spec.replicas: '2' is no integer",
        ".spec.template.spec.containers[0].livenesProbe is unknown",
    ]


async def test_a_release_is_installed_upgraded_and_removed(cluster_config: Path, chart: helm.Helm) -> None:
    async with await Cluster.connect(kubeconfig=cluster_config) as cluster:
        budgets = await disruption_version(cluster)
        request = {"kubeconfig": str(cluster_config), "chart": str(helm.CHART)}
        values = {"broker": {"url": "redis://redis:6379/0"}}
        with contextlib.suppress(AlreadyExists):
            await cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "penstock"}})
        # Definitions that others have installed are not Helm's.
        for crd in crds.all_crds():
            with contextlib.suppress(NotFound):
                await cluster.delete(Ref(CUSTOM_RESOURCE_DEFINITION, "", crd["metadata"]["name"]))
        chart.ask(do="install", values=values, **request)
        budget = f"/apis/{budgets}/namespaces/penstock/poddisruptionbudgets/penstock-worker"
        assert (await cluster.request("GET", budget))["spec"]["maxUnavailable"] == 1
        chart.ask(do="upgrade", values={**values, "worker": {"replicas": 3}}, **request)
        deployment = "/apis/apps/v1/namespaces/penstock/deployments/penstock-worker"
        assert (await cluster.request("GET", deployment))["spec"]["replicas"] == 3
        # A Deployment without a number has one pod: it keeps those it has until the ScaledObject counts.
        chart.ask(do="upgrade", values={**values, "autoscaling": {"enabled": True}}, **request)
        assert (await cluster.request("GET", deployment))["spec"]["replicas"] == 3
        chart.ask(do="uninstall", **request)
        with pytest.raises(NotFound):
            await cluster.request("GET", deployment)
        assert await cluster.get(Ref(CUSTOM_RESOURCE_DEFINITION, "", "scaledjobs.keda.sh"))
