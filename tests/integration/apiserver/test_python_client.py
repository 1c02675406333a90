"""The official Python client, typed and dynamic, works against the embedded server."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

from tests.integration.apiserver.client import DEFINITIONS, MERGE, Api, custom, definition, job
from tests.support.embedded import Embedded


@pytest.fixture
def python(embedded: Embedded) -> Iterator[client.ApiClient]:
    """A client configured by the server's kubeconfig."""
    with config.new_client_from_config(str(embedded.kubeconfig)) as made:
        yield made


def test_typed_objects_go_in_and_come_out(python: client.ApiClient, ours: Api) -> None:
    batch = client.BatchV1Api(python)
    container = client.V1Container(name="main", image="none")
    template = client.V1PodTemplateSpec(spec=client.V1PodSpec(containers=[container], restart_policy="Never"))
    body = client.V1Job(metadata=client.V1ObjectMeta(name="crunch"), spec=client.V1JobSpec(template=template))
    made = batch.create_namespaced_job(ours.namespace, body)
    assert (made.spec.parallelism, made.status.active) == (1, None)
    made.spec.suspend = True
    assert batch.replace_namespaced_job("crunch", ours.namespace, made).spec.suspend is True
    with pytest.raises(ApiException) as refused:
        batch.replace_namespaced_job("crunch", ours.namespace, made)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    patched = batch.patch_namespaced_job("crunch", ours.namespace, {"metadata": {"labels": {"a": "b"}}})
    assert patched.metadata.labels["a"] == "b"
    listed = batch.list_namespaced_job(ours.namespace, label_selector="a=b")
    assert [item.metadata.name for item in listed.items] == ["crunch"]
    batch.delete_namespaced_job("crunch", ours.namespace, propagation_policy="Background")
    with pytest.raises(ApiException) as gone:
        batch.read_namespaced_job("crunch", ours.namespace)
    assert gone.value.status == 404


def test_typed_watches_see_changes(python: client.ApiClient, ours: Api) -> None:
    core = client.CoreV1Api(python)
    version = core.list_namespaced_config_map(ours.namespace).metadata.resource_version
    stream = watch.Watch()
    seen: list[tuple[str, str]] = []

    def follow() -> None:
        for event in stream.stream(
            core.list_namespaced_config_map, ours.namespace, resource_version=version, timeout_seconds=20
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 2:
                stream.stop()

    follower = threading.Thread(target=follow)
    follower.start()
    core.create_namespaced_config_map(ours.namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one")))
    core.delete_namespaced_config_map("one", ours.namespace)
    follower.join(25)
    assert seen == [("ADDED", "one"), ("DELETED", "one")]


def test_dynamic_clients_find_custom_resources(python: client.ApiClient, ours: Api, tmp_path: Path) -> None:
    ours.create(DEFINITIONS, definition("pulleys"))
    found = dynamic.DynamicClient(python, cache_file=str(tmp_path / "discovery.json"))
    pulleys = found.resources.get(api_version="test.penstock.dev/v1", kind="Pulley")
    body = custom("Pulley", "p", spec={"turns": 2})
    assert pulleys.create(body=body, namespace=ours.namespace).spec.turns == 2
    patch = {"spec": {"turns": 3}}
    assert pulleys.patch(name="p", body=patch, namespace=ours.namespace, content_type=MERGE).spec.turns == 3
    applied = pulleys.server_side_apply(
        body=custom("Pulley", "p", spec={"turns": 4}),
        name="p",
        namespace=ours.namespace,
        field_manager="me",
        force_conflicts=True,
    )
    assert applied.spec.turns == 4
    events = pulleys.watch(namespace=ours.namespace, timeout=2)
    assert [(event["type"], event["object"].metadata.name) for event in events] == [("ADDED", "p")]
    jobs = found.resources.get(api_version="batch/v1", kind="Job")
    assert jobs.create(body=job(), namespace=ours.namespace).metadata.name == "crunch"
