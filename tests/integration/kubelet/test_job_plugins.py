"""Objects that Volcano Jobs' plugins make, in use: processes of one machine find each other by them."""

import sys
import uuid

import pytest

from tests.integration.kubelet.lab import Lab, phase
from tests.unit.controllers.volcano.job.vcjobs import parsed, task
from workers.api.kinds import POD, SERVICE, Object, Ref
from workers.controllers.volcano.job import plugins, pods
from workers.controllers.volcano.job.names import Site
from workers.reconcile.step_handlers import ssh_key_pair

SITE = Site(addresses=True)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all pods share one address")

#: A worker that answers one question, on its own address; a launcher that asks every worker of MPI_HOST.
MPI_WORKER = """
import os, socket
with socket.create_server((os.environ["POD_IP"], 5022)) as server:
    client, _ = server.accept()
    with client:
        client.sendall(f"rank {os.environ['VC_TASK_INDEX']}".encode())
"""
MPI_LAUNCHER = """
import os, socket, time
for host in os.environ["MPI_HOST"].split(","):
    while True:
        try:
            with socket.create_connection((host, 5022)) as worker:
                print(worker.recv(99).decode(), flush=True)
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
"""
#: A parameter server that adds up what so many workers send, and workers that find it by svc's variables or file.
SERVER = """
import os, socket
total = 0
with socket.create_server((os.environ["VC_PS_HOSTS"], 5022)) as server:
    for _ in range(int(os.environ["VC_WORKER_NUM"])):
        client, _ = server.accept()
        with client:
            total += int(client.recv(99))
print("total", total, flush=True)
"""
WORKER = """
import os, socket, time
folder = os.environ["PENSTOCK_MOUNT_ETC_VOLCANO"]
host = open(folder + "/ps.host").read().strip()
assert host == os.environ["VC_PS_HOSTS"], host
while True:
    try:
        with socket.create_connection((host, 5022)) as server:
            server.sendall(str(10 + int(os.environ["VC_TASK_INDEX"])).encode())
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
"""


def role(name: str, replicas: int, script: str) -> Object:
    own = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container = {"name": "main", "image": "none", "command": [sys.executable, "-c", script], "env": [own]}
    return task(name, replicas, template={"spec": {"containers": [container]}})


def unique(name: str) -> str:
    """A job's name of this test alone: pods' addresses follow from it, and other tests run on this machine."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


async def run(lab: Lab, name: str, *tasks: Object, **given: list[str]) -> None:
    """Makes everything a job would, by hand."""
    job = parsed(*tasks, metadata={"name": name}, plugins=given)
    for step in plugins.objects(job, SITE):
        minted = {"stringData": {**step.body["stringData"], **ssh_key_pair()}} if step.generate else {}
        await lab.cluster.create(step.kind, unowned({**step.body, **minted}))
    for each in job.spec.tasks:
        for index in range(each.replicas):
            await lab.cluster.create(POD, unowned(pods.build(job, each, index, version=0, retries=0, site=SITE)))


def unowned(body: Object) -> Object:
    """There is no job in the cluster that the object could belong to."""
    return {**body, "metadata": {key: value for key, value in body["metadata"].items() if key != "ownerReferences"}}


async def test_a_launcher_reaches_every_worker_on_the_same_port(lab: Lab) -> None:
    tasks = (role("master", 1, MPI_LAUNCHER), role("worker", 3, MPI_WORKER))
    mpi = unique("mpi")
    await run(lab, mpi, *tasks, mpi=["--port=5022"], svc=[], ssh=[], env=[])
    launcher = await lab.ended(f"{mpi}-master-0")
    assert lab.log(launcher) == ["stdout rank 0", "stdout rank 1", "stdout rank 2"]
    workers = [await lab.ended(f"{mpi}-worker-{index}") for index in range(3)]
    assert [phase(pod) for pod in (launcher, *workers)] == ["Succeeded"] * 4
    addresses = {pod["status"]["podIP"] for pod in (launcher, *workers)}
    assert len(addresses) == 4


async def test_workers_find_their_parameter_server(lab: Lab) -> None:
    train = unique("train")
    await run(lab, train, role("ps", 1, SERVER), role("worker", 2, WORKER), svc=[], env=[])
    server = await lab.ended(f"{train}-ps-0")
    assert lab.log(server) == ["stdout total 21"]


async def test_every_pod_can_use_the_key_of_its_job(lab: Lab) -> None:
    """The files of the Secret, in the folder that stands for /root/.ssh."""
    script = """
import os, pathlib, stat
for path in sorted(pathlib.Path(os.environ["PENSTOCK_MOUNT_ROOT__SSH"]).iterdir()):
    print(path.name, oct(stat.S_IMODE(path.stat().st_mode)), len(path.read_text()) > 99, flush=True)
"""
    await run(lab, "login", role("worker", 1, script), ssh=[])
    pod = await lab.ended("login-worker-0")
    assert lab.log(pod) == [
        f"stdout {name} 0o600 True" for name in ("authorized_keys", "config", "id_rsa", "id_rsa.pub")
    ]


async def test_an_api_server_takes_what_all_plugins_make(bench: Lab) -> None:
    """No kubelet runs these pods: there is no ray here."""
    given = {name: [] for name in plugins.KNOWN - {"ray"}}
    await run(bench, "all", role("head", 1, ""), role("master", 1, ""), role("worker", 1, ""), ray=[], **given)
    service = await bench.cluster.get(Ref(SERVICE, "default", "all-head-svc"))
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["gcs", "dashboard", "client-server"]
    pod = await bench.get("all-worker-0")
    assert pod["spec"]["subdomain"] == "all"
    assert pod["metadata"]["annotations"]["hccl/rankIndex"] == "1"
