"""The `kubernetes-workload` and `kubernetes-resource` triggers against API servers."""

import base64
from typing import Any

import orjson
from aiohttp import web

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import SourceError
from scalers.sources.http.metrics_api import MetricsAPI
from scalers.sources.kubernetes.resource import KubernetesResource
from scalers.sources.kubernetes.workload import KubernetesWorkload
from tests.support.ports import free_port
from workers.api.kinds import CONFIG_MAP, ENDPOINTS, POD, SECRET, Ref
from workers.client.rest import Cluster


def workload(namespace: str, selector: str, **metadata: str) -> KubernetesWorkload:
    metadata = {"podSelector": selector, "value": "2", **metadata}
    return KubernetesWorkload.parse(Trigger(0, "kubernetes-workload", metadata=metadata, namespace=namespace))


def resource(namespace: str, kind: str, key: str, **metadata: str) -> KubernetesResource:
    metadata = {"resourceKind": kind, "resourceName": "depth", "key": key, "targetValue": "2", **metadata}
    return KubernetesResource.parse(Trigger(0, "kubernetes-resource", metadata=metadata, namespace=namespace))


async def read(cluster: Cluster, *scalers: Any) -> list[Any]:
    return list(await type(scalers[0]).read(scalers, Connections(cluster=cluster)))


async def test_pods_that_have_not_ended_are_counted(cluster: Cluster, namespace: str) -> None:
    for name, app, node, phase in [
        ("a", "crunch", "n1", "Running"),
        ("b", "crunch", "n1", "Pending"),
        ("c", "crunch", "n2", "Running"),
        ("d", "crunch", "", "Pending"),
        ("e", "crunch", "n3", "Succeeded"),
        ("f", "crunch", "n4", "Failed"),
        ("g", "other", "n5", "Running"),
    ]:
        # Nodes of its own: a real cluster collects pods of a node that it has long known not to exist.
        place = {"nodeName": f"{node}-of-{namespace}"} if node else {}
        spec = {"containers": [{"name": "main", "image": "x"}], **place}
        metadata = {"name": name, "namespace": namespace, "labels": {"app": app}}
        await cluster.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        await cluster.patch(Ref(POD, namespace, name), {"status": {"phase": phase}}, subresource="status")
    answers = await read(
        cluster,
        workload(namespace, "app=crunch"),
        workload(namespace, "app in (crunch, other)"),
        workload(namespace, "app=crunch", groupByNode="true"),
        workload(namespace, "app=nobody"),
        workload(namespace, "app in crunch"),
    )
    assert answers[:4] == [4.0, 5.0, 2.0, 0.0]
    assert isinstance(answers[4], SourceError)
    assert "podSelector" in str(answers[4])


async def test_numbers_in_config_maps_and_secrets(cluster: Cluster, namespace: str) -> None:
    texts = {
        "plain": " 42.5\n",
        "whole": "7",
        "json": '{"a": {"b": "1k"}}',
        "yaml": "a: [3]",
        "size": "2Ki",
        "odd": "42abc",
    }
    metadata = {"name": "depth", "namespace": namespace}
    await cluster.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": texts})
    secret = {key: base64.b64encode(text.encode()).decode() for key, text in {**texts, "odd": "hush"}.items()}
    await cluster.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": secret})
    for kind in ("ConfigMap", "Secret"):
        answers = await read(
            cluster,
            resource(namespace, kind, "plain"),
            resource(namespace, kind, "whole", valueType="int64"),
            resource(namespace, kind, "json", format="json", valueLocation="a.b"),
            resource(namespace, kind, "yaml", format="yaml", valueLocation="a.0"),
            resource(namespace, kind, "size", valueType="quantity"),
            resource(namespace, kind, "odd"),
            resource(namespace, kind, "plain", valueType="int64"),
            resource(namespace, kind, "none"),
            resource(namespace, kind, "plain", resourceName="nothing"),
        )
        assert answers[:5] == [42.5, 7.0, 1000.0, 3.0, 2048.0]
        for answer, reason in zip(
            answers[5:], ["no number", "no number of type int64", "has no key none", "does not exist"], strict=True
        ):
            assert isinstance(answer, SourceError)
            assert reason in str(answer)
            assert "hush" not in str(answer)


async def test_the_metrics_of_every_endpoint_of_a_service(cluster: Cluster, namespace: str) -> None:
    port = free_port()
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        local = request.transport.get_extra_info("sockname")[0]  # type: ignore[union-attr]
        asked.append(local)
        return web.json_response({"n": int(local.rpartition(".")[2])}, status=500 if local == "127.0.0.9" else 200)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    for last in (2, 4, 9):
        await web.TCPSite(runner, f"127.0.0.{last}", port).start()

    async def endpoints(name: str, *addresses: str) -> None:
        subsets = [{"addresses": [{"ip": each} for each in addresses], "ports": [{"port": port}]}] if addresses else []
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}
        await cluster.create(ENDPOINTS, body)

    def asking(service: str, how: str = "average") -> MetricsAPI:
        metadata = {
            "url": f"http://{service}.{namespace}.svc:{port}/metrics",
            "valueLocation": "n",
            "targetValue": "1",
            "aggregateFromKubeServiceEndpoints": "true",
            "aggregationType": how,
        }
        return MetricsAPI.parse(Trigger(0, "metrics-api", metadata=metadata))

    # The API server takes no loopback address for an endpoint; a fake of one stands in for it.
    loopback = _Loopback(cluster)
    await endpoints("pair", "10.0.0.2", "10.0.0.4")
    await endpoints("broken", "10.0.0.2", "10.0.0.9")
    await endpoints("empty")
    connections = Connections(cluster=loopback)  # type: ignore[arg-type]
    scalers = [asking("pair", how) for how in ("average", "sum", "max", "min")]
    scalers += [asking("broken", "sum"), asking("empty"), asking("none")]
    partial = [each.model_copy(update={"quirks": ("partial-aggregation",)}) for each in scalers]
    answers: list[Any] = [(await MetricsAPI.read([scaler], connections))[0] for scaler in scalers]
    assert answers[:4] == [3.0, 6.0, 4.0, 2.0]
    for answer, reason in zip(answers[4:], ["127.0.0.9:", "no endpoint that is ready", "does not exist"], strict=True):
        assert isinstance(answer, SourceError)
        assert reason in str(answer)
    kedas: list[Any] = [(await MetricsAPI.read([scaler], connections))[0] for scaler in partial]
    assert kedas[:5] == [3.0, 6.0, 4.0, 2.0, 2.0], "KEDA leaves out what fails"
    assert all(isinstance(answer, SourceError) for answer in kedas[5:])
    await connections.close()
    await runner.cleanup()


class _Loopback:
    """The cluster, with addresses 10.0.0.x of endpoints read as 127.0.0.x."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def get(self, ref: Ref) -> Any:
        return orjson.loads(orjson.dumps(await self._cluster.get(ref)).replace(b'"10.0.0.', b'"127.0.0.'))
