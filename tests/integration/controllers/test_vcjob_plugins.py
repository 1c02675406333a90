"""What Volcano Jobs' plugins and volumes are for, with real processes on the embedded cluster: the examples run, and
what somebody deletes is made again."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.conditions import eventually
from tests.support.house import House
from tests.support.paths import ROOT
from workers.api.kinds import (
    CONFIG_MAP,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    SECRET,
    SERVICE,
    VC_JOB,
    Kind,
    Object,
    Ref,
    ref_of,
)
from workers.client.rest import Cluster
from workers.errors import NotFound

EXAMPLES = ROOT / "examples"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all pods share one address"),
]

HOUSE = {"volcano": "true", "pod_addresses": "true", "workloads": "true"}


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    """The cluster; Jobs that a test leaves behind are deleted, so that the next one has all places."""
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster
        for body in (await cluster.list(VC_JOB))[0]:
            await cluster.delete(ref_of(VC_JOB, body))
        await eventually(lambda: nothing(cluster, POD), 60)


async def nothing(cluster: Cluster, *kinds: Kind) -> bool:
    return not any([(await cluster.list(kind))[0] for kind in kinds])


async def start(cluster: Cluster, name: str, script: str, *, replicas: int = 1, **spec: Any) -> Object:
    """A Job of one task, whose pods run this script."""
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return await cluster.create(
        VC_JOB,
        {
            "apiVersion": VC_JOB.api_version,
            "kind": VC_JOB.kind,
            "metadata": {"namespace": "default", "name": name},
            "spec": {"tasks": [{"name": "main", "replicas": replicas, "template": template}], **spec},
        },
    )


async def state(cluster: Cluster, name: str) -> Object:
    return dict(((await cluster.get(Ref(VC_JOB, "default", name))).get("status") or {}).get("state") or {})


async def reaches(cluster: Cluster, name: str, phase: str) -> None:
    async def there() -> bool:
        return (await state(cluster, name)).get("phase") == phase

    await eventually(there, 60)


async def is_there(cluster: Cluster, kind: Kind, name: str) -> Object | None:
    try:
        return await cluster.get(Ref(kind, "default", name))
    except NotFound:
        return None


def printed(running: House, pod: Object) -> list[str]:
    """What the pod's container wrote."""
    metadata = pod["metadata"]
    folder = running.logs / f"default_{metadata['name']}_{metadata['uid']}" / "main"
    return [line.split(" ", 3)[3] for line in (folder / "0.log").read_text().splitlines()]


@pytest.mark.parametrize("name", ["", "-mpi", "-tensorflow", "-pytorch", "-depends-on", "-policies"])
async def test_an_example_runs_and_leaves_nothing_but_its_pods(cluster: Cluster, name: str) -> None:
    body = yaml.safe_load((EXAMPLES / f"volcano-job{name}.yaml").read_text())
    body["metadata"]["namespace"] = "default"
    await cluster.create(VC_JOB, body)
    await reaches(cluster, body["metadata"]["name"], "Completed")

    async def tidied_up() -> bool:
        seen = (await cluster.get(Ref(VC_JOB, "default", body["metadata"]["name"])))["status"]
        told = [key for key in seen.get("controlledResources") or () if key.startswith("plugin-")]
        maps = [each["metadata"]["name"] for each in (await cluster.list(CONFIG_MAP))[0]]
        left = told or [name for name in maps if name.endswith("-svc")]
        return not left and await nothing(cluster, POD_GROUP, SECRET, SERVICE, NETWORK_POLICY)

    await eventually(tidied_up, 60)


async def test_a_launcher_reaches_its_workers(running: House, cluster: Cluster) -> None:
    body = yaml.safe_load((EXAMPLES / "volcano-job-mpi.yaml").read_text())
    body["metadata"]["namespace"] = "default"
    await cluster.create(VC_JOB, body)
    await reaches(cluster, "mpi", "Completed")
    pod = await cluster.get(Ref(POD, "default", "mpi-launcher-0"))
    assert [line.partition(" ")[2] for line in printed(running, pod)] == ["rank 0", "rank 1", "rank 2"]


@pytest.mark.parametrize("kind", [CONFIG_MAP, SERVICE, NETWORK_POLICY])
async def test_what_a_plugin_made_comes_back_when_somebody_deletes_it(cluster: Cluster, kind: Kind) -> None:
    await start(cluster, "steady", "exec sleep 60", plugins={"svc": []})
    await reaches(cluster, "steady", "Running")
    name = "steady-svc" if kind == CONFIG_MAP else "steady"
    first = await cluster.get(Ref(kind, "default", name))
    await cluster.delete(ref_of(kind, first))

    async def again() -> bool:
        found = await is_there(cluster, kind, name)
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await eventually(again)


async def test_a_service_that_the_author_made_beforehand_is_used_and_stays(cluster: Cluster) -> None:
    head = {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "default", "name": "own"}}
    service = await cluster.create(SERVICE, {**head, "spec": {"clusterIP": "None", "selector": {"a": "b"}}})
    await start(cluster, "own", "true", plugins={"svc": []})
    await reaches(cluster, "own", "Completed")
    assert await cluster.get(ref_of(SERVICE, service)) == service
    await cluster.delete(ref_of(SERVICE, service))


async def test_keys_that_somebody_deleted_are_there_when_the_job_starts_again(
    running: House, cluster: Cluster, tmp_path: Path
) -> None:
    script = f"""
        if mkdir {tmp_path}/first 2>/dev/null; then
            touch {tmp_path}/ready
            until [ -e {tmp_path}/go ]; do sleep 0.05; done
            exit 3
        fi
        head -n 1 $PENSTOCK_MOUNT_ROOT__SSH/id_rsa
    """
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    await start(cluster, "login", script, plugins={"ssh": []}, policies=policies)
    await eventually((tmp_path / "ready").exists, 60)
    await cluster.delete(Ref(SECRET, "default", "login-ssh"))
    (tmp_path / "go").touch()
    await reaches(cluster, "login", "Completed")
    pod = await cluster.get(Ref(POD, "default", "login-main-0"))
    assert printed(running, pod) == ["-----BEGIN RSA PRIVATE KEY-----"]


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}


async def test_a_claim_that_is_missing_is_named_and_waited_for(cluster: Cluster) -> None:
    await start(cluster, "reader", "true", volumes=[{"mountPath": "in", "volumeClaimName": "data"}])

    async def named() -> bool:
        return "data" in (await state(cluster, "reader")).get("message", "")

    await eventually(named)
    assert await nothing(cluster, POD)
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": "data"}}
    made = await cluster.create(PERSISTENT_VOLUME_CLAIM, {**claim, "spec": CLAIM})
    try:
        await reaches(cluster, "reader", "Completed")
    finally:
        await cluster.delete(ref_of(PERSISTENT_VOLUME_CLAIM, made))


async def test_pods_share_a_claim_that_is_made_once_and_goes_with_the_job(cluster: Cluster) -> None:
    volumes = [{"mountPath": "out", "volumeClaim": CLAIM}]
    script = 'touch "out/$VC_TASK_INDEX"; until [ -e out/0 ] && [ -e out/1 ]; do sleep 0.05; done'
    job = await start(cluster, "writer", script, replicas=2, volumes=volumes, plugins={"env": []})
    await reaches(cluster, "writer", "Completed")
    (claim,) = (await cluster.list(PERSISTENT_VOLUME_CLAIM))[0]
    name = claim["metadata"]["name"]
    assert claim["status"]["phase"] == "Bound"
    seen = (await cluster.get(ref_of(VC_JOB, job)))["status"]
    assert seen["controlledResources"] == {f"volume-pvc-{name}": name}
    await cluster.delete(ref_of(VC_JOB, job))
    await eventually(lambda: nothing(cluster, PERSISTENT_VOLUME_CLAIM))
