"""Deployments and StatefulSets as kubectl handles them, on the embedded cluster: pods are local processes."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.support.conditions import eventually, until
from tests.support.house import House
from tests.support.tables import for_each
from workers.api.kinds import DEPLOYMENT, PERSISTENT_VOLUME_CLAIM, POD, REPLICA_SET, STATEFUL_SET, Object, Ref
from workers.client.rest import STRATEGIC_MERGE_PATCH, Cluster
from workers.errors import NotFound

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed: NOT tested with it"),
]

HOUSE = {"volcano": "true", "pod_addresses": "true", "workloads": "true"}

Kubectl = Callable[..., str]

#: The end of a spec, whose pods run until they are told to end. APP: the value of their label.
TEMPLATE = """  template:
    metadata: {labels: {app: APP}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
        - name: main
          image: none
          command: ["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
          env: [{name: COLOUR, value: blue}]
"""

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
""" + TEMPLATE.replace("APP", "web")

DB = """
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
""" + TEMPLATE.replace("APP", "db")
CLAIMS = """
  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete, whenDeleted: Delete}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
BOXES = ("data-box-0", "data-box-1")


@pytest.fixture
def kubectl(running: House, tmp_path: Path) -> Kubectl:
    """Runs kubectl and answers what it prints."""
    environment = {**os.environ, "KUBECONFIG": str(running.kubeconfig), "KUBECACHEDIR": str(tmp_path / "cache")}

    def run(*arguments: str, stdin: str | None = None, code: int = 0) -> str:
        done = subprocess.run(
            ["kubectl", *arguments],
            check=False,
            input=stdin,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    return run


async def pods_of(cluster: Cluster, app: str) -> list[Object]:
    found, _ = await cluster.list(POD, "default", label_selector=f"app={app}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


async def serves(cluster: Cluster, web: Ref, number: int) -> bool:
    """Returns True if the Deployment has exactly so many pods, all available."""
    status = (await cluster.get(web))["status"]
    return (status.get("replicas", 0), status.get("availableReplicas", 0)) == (number, number)


def colour(pod: Object) -> str:
    return next(str(one["value"]) for one in pod["spec"]["containers"][0]["env"] if one["name"] == "COLOUR")


@pytest.fixture
async def web(kubectl: Kubectl, cluster: Cluster) -> AsyncIterator[Ref]:
    """A Deployment of two pods that has been rolled out."""
    await asyncio.to_thread(kubectl, "apply", "-f", "-", stdin=WEB)
    await asyncio.to_thread(kubectl, "rollout", "status", "deployment/web", "--timeout=60s")
    yield Ref(DEPLOYMENT, "default", "web")
    await asyncio.to_thread(kubectl, "delete", "deployment", "web", "--ignore-not-found", "--cascade=foreground")


async def test_a_rollout_is_followed_remembered_and_undone(kubectl: Kubectl, cluster: Cluster, web: Ref) -> None:
    assert "deployment.apps/web" in kubectl("get", "deployments", "-o", "name")
    kubectl("set", "env", "deployment/web", "COLOUR=green")
    output = await asyncio.to_thread(kubectl, "rollout", "status", "deployment/web", "--timeout=60s")
    assert output.endswith('deployment "web" successfully rolled out\n')
    assert {colour(pod) for pod in await pods_of(cluster, "web")} == {"green"}
    history = kubectl("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
    assert "COLOUR:\tblue" in kubectl("rollout", "history", "deployment/web", "--revision=1")
    kubectl("rollout", "undo", "deployment/web")
    await asyncio.to_thread(kubectl, "rollout", "status", "deployment/web", "--timeout=60s")
    assert {colour(pod) for pod in await pods_of(cluster, "web")} == {"blue"}
    history = kubectl("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["2", "3"]

    async def told() -> bool:
        return "Scaled up replica set" in await asyncio.to_thread(kubectl, "describe", "deployment", "web")

    await eventually(told)


async def test_the_scale_subresource_moves_the_pods(kubectl: Kubectl, cluster: Cluster, web: Ref) -> None:
    for number in (3, 0, 1):
        kubectl("scale", "deployment/web", f"--replicas={number}")
        await eventually(lambda number=number: serves(cluster, web, number), 60)
        assert len(await pods_of(cluster, "web")) == number
    row = kubectl("get", "deployment", "web").splitlines()[1].split()
    assert row[:4] == ["web", "1/1", "1", "1"]


async def test_what_is_paused_waits_until_it_is_resumed(kubectl: Kubectl, cluster: Cluster, web: Ref) -> None:
    kubectl("rollout", "pause", "deployment/web")
    kubectl("set", "env", "deployment/web", "COLOUR=red")
    generation = (await cluster.get(web))["metadata"]["generation"]
    await until(lambda: cluster.get(web), lambda now: now["status"].get("observedGeneration") == generation, 30)
    assert {colour(pod) for pod in await pods_of(cluster, "web")} == {"blue"}
    kubectl("rollout", "resume", "deployment/web")
    await asyncio.to_thread(kubectl, "rollout", "status", "deployment/web", "--timeout=60s")
    assert {colour(pod) for pod in await pods_of(cluster, "web")} == {"red"}


async def test_a_rollout_that_cannot_work_stops_and_says_so(kubectl: Kubectl, cluster: Cluster, web: Ref) -> None:
    probe = {"exec": {"command": ["/bin/false"]}, "periodSeconds": 1}
    main = {"name": "main", "readinessProbe": probe}
    patch = {"progressDeadlineSeconds": 2, "template": {"spec": {"containers": [main]}}}
    await cluster.patch(web, {"spec": patch}, type=STRATEGIC_MERGE_PATCH)
    told = await asyncio.to_thread(kubectl, "rollout", "status", "deployment/web", "--timeout=60s", code=1)
    assert 'deployment "web" exceeded its progress deadline' in told
    status = (await cluster.get(web))["status"]
    assert status["availableReplicas"] == 2


async def test_a_lost_pod_is_replaced_and_a_container_that_ends_begins_again(cluster: Cluster, web: Ref) -> None:
    lost, other = await pods_of(cluster, "web")
    await cluster.delete(Ref(POD, "default", lost["metadata"]["name"]), grace=0)

    async def replaced() -> bool:
        names = {pod["metadata"]["name"] for pod in await pods_of(cluster, "web")}
        return len(names) == 2 and lost["metadata"]["name"] not in names

    await eventually(replaced, 60)
    spec = {"template": {"spec": {"containers": [{"name": "main", "command": ["/bin/true"]}]}}}
    await cluster.patch(web, {"spec": spec}, type=STRATEGIC_MERGE_PATCH)

    async def restarted() -> bool:
        statuses = [
            one for pod in await pods_of(cluster, "web") for one in pod["status"].get("containerStatuses") or ()
        ]
        return any(one["restartCount"] > 0 for one in statuses)

    await eventually(restarted, 60)
    assert other["metadata"]["uid"]


@for_each("background", "foreground")
async def test_sets_and_pods_go_with_their_deployment(
    cascade: str, kubectl: Kubectl, cluster: Cluster, web: Ref
) -> None:
    await asyncio.to_thread(kubectl, "delete", "deployment", "web", f"--cascade={cascade}")

    async def empty() -> bool:
        sets, _ = await cluster.list(REPLICA_SET, "default", label_selector="app=web")
        pods, _ = await cluster.list(POD, "default", label_selector="app=web")
        return not sets and not pods

    await eventually(empty, 60)
    with pytest.raises(NotFound):
        await cluster.get(web)


async def test_what_was_left_behind_is_taken_on_again(kubectl: Kubectl, cluster: Cluster, web: Ref) -> None:
    before = {pod["metadata"]["uid"] for pod in await pods_of(cluster, "web")}
    await asyncio.to_thread(kubectl, "delete", "deployment", "web", "--cascade=orphan")
    await asyncio.to_thread(kubectl, "apply", "-f", "-", stdin=WEB)
    await asyncio.to_thread(kubectl, "rollout", "status", "deployment/web", "--timeout=60s")
    assert {pod["metadata"]["uid"] for pod in await pods_of(cluster, "web")} == before
    assert len((await cluster.list(REPLICA_SET, "default", label_selector="app=web"))[0]) == 1


async def test_a_stateful_set_is_rolled_out_undone_scaled_and_deleted(kubectl: Kubectl, cluster: Cluster) -> None:
    async def rolled_out() -> dict[str, str]:
        told = await asyncio.to_thread(kubectl, "rollout", "status", "statefulset/db", "--timeout=60s")
        assert "complete" in told
        return {pod["metadata"]["name"]: colour(pod) for pod in await pods_of(cluster, "db")}

    db = Ref(STATEFUL_SET, "default", "db")
    await asyncio.to_thread(kubectl, "apply", "-f", "-", stdin=DB)
    assert await rolled_out() == {"db-0": "blue", "db-1": "blue"}
    kubectl("set", "env", "statefulset/db", "COLOUR=green")
    assert await rolled_out() == {"db-0": "green", "db-1": "green"}
    history = kubectl("rollout", "history", "statefulset/db")
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
    kubectl("rollout", "undo", "statefulset/db")
    assert await rolled_out() == {"db-0": "blue", "db-1": "blue"}
    for number in (3, 1):
        kubectl("scale", "statefulset/db", f"--replicas={number}")
        await eventually(lambda number=number: serves(cluster, db, number), 60)
    assert [pod["metadata"]["name"] for pod in await pods_of(cluster, "db")] == ["db-0"]
    await asyncio.to_thread(kubectl, "delete", "statefulset", "db")

    async def empty() -> bool:
        revisions = kubectl("get", "controllerrevisions", "-l", "app=db", "-o", "name")
        return not await pods_of(cluster, "db") and not revisions

    await eventually(empty, 60)


async def test_pods_of_a_stateful_set_find_their_files_again_until_their_claims_go(
    running: House, kubectl: Kubectl, cluster: Cluster
) -> None:
    box = DB.replace("db", "box").replace("trap", "echo began >> $PENSTOCK_MOUNT_DATA/starts; trap")
    box = box.replace("env:", "volumeMounts: [{name: data, mountPath: /data}]\n          env:") + CLAIMS
    ref = Ref(STATEFUL_SET, "default", "box")
    await asyncio.to_thread(kubectl, "apply", "-f", "-", stdin=box)
    await eventually(lambda: serves(cluster, ref, 2), 60)

    async def claims() -> dict[str, Object]:
        found, _ = await cluster.list(PERSISTENT_VOLUME_CLAIM, "default", label_selector="app=box")
        return {claim["metadata"]["name"]: claim for claim in found}

    before = await claims()
    assert {name: claim["status"]["phase"] for name, claim in before.items()} == dict.fromkeys(BOXES, "Bound")
    pod = next(pod for pod in await pods_of(cluster, "box") if pod["metadata"]["name"] == "box-0")
    await asyncio.to_thread(kubectl, "delete", "pod", "box-0")

    async def begun_again() -> bool:
        found = [one["metadata"]["uid"] for one in await pods_of(cluster, "box")]
        return pod["metadata"]["uid"] not in found and await serves(cluster, ref, 2)

    await eventually(begun_again, 60)
    uid = (await claims())["data-box-0"]["metadata"]["uid"]
    assert uid == before["data-box-0"]["metadata"]["uid"]
    starts = running.home.parent / "pods" / "claims" / uid / "starts"
    await eventually(lambda: starts.read_text() == "began\n" * 2, 60)
    kubectl("scale", "statefulset/box", "--replicas=1")

    await until(claims, lambda found: list(found) == ["data-box-0"])
    await asyncio.to_thread(kubectl, "delete", "statefulset", "box")
    await until(claims, lambda found: not found)
