"""Plugins and volumes of Volcano Jobs, with real processes on the embedded cluster: examples, and deleted objects."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.controllers.volcano_objects import (
    ENABLED,
    cluster_fixture,
    create,
    manifest,
    none_left,
    reaches,
    status,
    task,
)
from tests.support.conditions import eventually
from tests.support.house import House
from tests.support.paths import ROOT
from tests.support.tables import for_each
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

HOUSE = ENABLED


cluster = cluster_fixture(VC_JOB)


async def start(cluster: Cluster, name: str, script: str, *, replicas: int = 1, **spec: Any) -> Ref:
    """Starts a Job of one task, whose pods run this script."""
    return await create(cluster, VC_JOB, {"tasks": [task("main", script, replicas)], **spec}, name)


async def example(cluster: Cluster, name: str) -> Ref:
    """Starts a Job of the examples and returns it once it has completed."""
    body = yaml.safe_load((EXAMPLES / f"volcano-job{name}.yaml").read_text())
    body["metadata"]["namespace"] = "default"
    job = ref_of(VC_JOB, await cluster.create(VC_JOB, body))
    await reaches(cluster, job, "Completed")
    return job


async def is_there(cluster: Cluster, kind: Kind, name: str) -> Object | None:
    try:
        return await cluster.get(Ref(kind, "default", name))
    except NotFound:
        return None


def printed(running: House, pod: Object) -> list[str]:
    """Returns the lines that the pod's container wrote."""
    metadata = pod["metadata"]
    folder = running.logs / f"default_{metadata['name']}_{metadata['uid']}" / "main"
    return [line.split(" ", 3)[3] for line in (folder / "0.log").read_text().splitlines()]


@for_each("", "-mpi", "-tensorflow", "-pytorch", "-depends-on", "-policies")
async def test_an_example_runs_and_leaves_nothing_but_its_pods(name: str, cluster: Cluster) -> None:
    job = await example(cluster, name)

    async def tidied_up() -> bool:
        listed = (await status(cluster, job)).get("controlledResources") or ()
        maps = [each["metadata"]["name"] for each in (await cluster.list(CONFIG_MAP))[0]]
        left = [key for key in listed if key.startswith("plugin-")] + [name for name in maps if name.endswith("-svc")]
        return not left and await none_left(cluster, POD_GROUP, SECRET, SERVICE, NETWORK_POLICY)

    await eventually(tidied_up, 60)


async def test_a_launcher_reaches_its_workers(running: House, cluster: Cluster) -> None:
    await example(cluster, "-mpi")
    pod = await cluster.get(Ref(POD, "default", "mpi-launcher-0"))
    assert [line.partition(" ")[2] for line in printed(running, pod)] == ["rank 0", "rank 1", "rank 2"]


@for_each(CONFIG_MAP, SERVICE, NETWORK_POLICY)
async def test_what_a_plugin_made_comes_back_when_somebody_deletes_it(kind: Kind, cluster: Cluster) -> None:
    job = await start(cluster, "steady", "exec sleep 60", plugins={"svc": []})
    await reaches(cluster, job, "Running")
    name = "steady-svc" if kind == CONFIG_MAP else "steady"
    first = await cluster.get(Ref(kind, "default", name))
    await cluster.delete(ref_of(kind, first))

    async def again() -> bool:
        found = await is_there(cluster, kind, name)
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    await eventually(again)


async def test_a_service_that_the_author_made_beforehand_is_used_and_stays(cluster: Cluster) -> None:
    spec = {"clusterIP": "None", "selector": {"a": "b"}}
    service = await cluster.create(SERVICE, manifest(SERVICE, spec, "own"))
    job = await start(cluster, "own", "true", plugins={"svc": []})
    await reaches(cluster, job, "Completed")
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
    job = await start(cluster, "login", script, plugins={"ssh": []}, policies=policies)
    await eventually((tmp_path / "ready").exists, 60)
    await cluster.delete(Ref(SECRET, "default", "login-ssh"))
    (tmp_path / "go").touch()
    await reaches(cluster, job, "Completed")
    pod = await cluster.get(Ref(POD, "default", "login-main-0"))
    assert printed(running, pod) == ["-----BEGIN RSA PRIVATE KEY-----"]


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}


async def test_a_claim_that_is_missing_is_named_and_waited_for(cluster: Cluster) -> None:
    job = await start(cluster, "reader", "true", volumes=[{"mountPath": "in", "volumeClaimName": "data"}])

    await reaches(cluster, job, lambda found: "data" in found.get("state", {}).get("message", ""))
    assert await none_left(cluster, POD)
    claim = await create(cluster, PERSISTENT_VOLUME_CLAIM, CLAIM, "data")
    try:
        await reaches(cluster, job, "Completed")
    finally:
        await cluster.delete(claim)


async def test_pods_share_a_claim_that_is_made_once_and_goes_with_the_job(cluster: Cluster) -> None:
    volumes = [{"mountPath": "out", "volumeClaim": CLAIM}]
    script = 'touch "out/$VC_TASK_INDEX"; until [ -e out/0 ] && [ -e out/1 ]; do sleep 0.05; done'
    job = await start(cluster, "writer", script, replicas=2, volumes=volumes, plugins={"env": []})
    await reaches(cluster, job, "Completed")
    (claim,) = (await cluster.list(PERSISTENT_VOLUME_CLAIM))[0]
    name = claim["metadata"]["name"]
    assert claim["status"]["phase"] == "Bound"
    assert (await status(cluster, job))["controlledResources"] == {f"volume-pvc-{name}": name}
    await cluster.delete(job)
    await eventually(lambda: none_left(cluster, PERSISTENT_VOLUME_CLAIM))
