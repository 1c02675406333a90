"""The sorts of work that people run on Volcano, with real processes: all that other tests show singly, at once."""

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.controllers.volcano_objects import (
    ENABLED,
    cluster_fixture,
    create,
    lines,
    none_left,
    reaches,
    task,
)
from tests.support.conditions import eventually
from workers.api.kinds import JOB_FLOW, JOB_TEMPLATE, POD, POD_GROUP, QUEUE, VC_JOB, Object
from workers.client.rest import Cluster

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all pods share one address"),
]

HOUSE = ENABLED

#: A shard of a parameter server: writes down what is pushed, and serves until somebody stops it.
SHARD = """
import os, pathlib, socket
with socket.create_server((os.environ["POD_IP"], 5022)) as server:
    while True:
        client, _ = server.accept()
        with client, client.makefile("rw") as stream:
            with open(os.environ["OUT"] + "/shard-" + os.environ["VC_TASK_INDEX"], "a") as log:
                log.write(stream.readline())
            stream.write("taken\\n")
"""
#: A worker: learns the shards from svc's file, pushes its number to each, and ends. One of them breaks down at first.
WORKER = """
import os, socket, sys, time
out, index = os.environ["OUT"], int(os.environ["VC_TASK_INDEX"])
if index == 1:
    try:
        os.mkdir(out + "/broke-down")
    except FileExistsError:
        pass
    else:
        sys.exit(9)
with open(os.environ["PENSTOCK_MOUNT_ETC_VOLCANO"] + "/ps.host") as listed:
    hosts = listed.read().split()
assert hosts == os.environ["VC_PS_HOSTS"].split(","), hosts
for host in hosts:
    while True:
        try:
            connection = socket.create_connection((host, 5022))
        except ConnectionRefusedError:
            time.sleep(0.02)
            continue
        with connection, connection.makefile("rw") as stream:
            stream.write(f"{10 + index}\\n")
            stream.flush()
            assert stream.readline() == "taken\\n"
        break
"""
#: Ten steps of work, of which each is done once, however often it is interrupted.
STEPS = """
cd {out}
n=$(cat checkpoint 2>/dev/null || echo 0)
echo "from $n" >> log
while [ $n -lt 10 ]; do
    n=$((n+1)); echo $n > new; mv new checkpoint
    echo "step $n" >> log
    while [ $n = 5 ] && ! [ -e resumed ]; do sleep 0.05; done
done
"""


cluster = cluster_fixture(JOB_FLOW, VC_JOB)


def shell(
    name: str, script: str, out: Path, replicas: int = 1, *, container: Object | None = None, **more: Any
) -> Object:
    """A task whose pods find the folder `out` and their address in the environment."""
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    environment = {"env": [address, {"name": "OUT", "value": str(out)}]}
    return task(name, script, replicas, container={**environment, **(container or {})}, **more)


def python(program: str) -> Object:
    return {"command": [sys.executable, "-c", program]}


def training(out: Path) -> Object:
    """Two shards that never end by themselves and two workers: done when both workers are."""
    again = [{"event": "PodFailed", "action": "RestartPod"}]
    return {
        "plugins": {"svc": [], "env": []},
        "minAvailable": 4,
        "minSuccess": 2,
        "tasks": [
            shell("ps", "", out, 2, container=python(SHARD)),
            shell("worker", "", out, 2, container=python(WORKER), policies=again),
        ],
    }


async def test_workers_push_to_a_parameter_server_and_one_breaks_down(cluster: Cluster, tmp_path: Path) -> None:
    job = await create(cluster, VC_JOB, training(tmp_path))
    status = await reaches(cluster, job, "Completed")
    assert [sorted(lines(tmp_path / f"shard-{shard}")) for shard in range(2)] == [["10", "11"]] * 2
    assert (tmp_path / "broke-down").exists()
    assert (status["retryCount"], [one["exitCode"] for one in status["failures"]]) == (1, [9])

    async def shards_are_stopped() -> bool:
        pods = [body["metadata"]["name"] for body in (await cluster.list(POD))[0]]
        return sorted(pods) == [f"{job.name}-worker-0", f"{job.name}-worker-1"]

    await eventually(shards_are_stopped, 60)


async def test_a_flow_prepares_trains_and_evaluates(cluster: Cluster, tmp_path: Path) -> None:
    """The entries are Jobs of several pods, which hand their results on in files."""
    evaluate = 'echo $(cat "$OUT"/shard-* | awk "{s += \\$1} END {print s}") >> "$OUT/result"'
    for name, spec in {
        "prepare": {"tasks": [shell("split", 'sleep 0.2; touch "$OUT/part-$VC_TASK_INDEX"', tmp_path, replicas=3)]},
        "train": training(tmp_path),
        "evaluate": {"tasks": [shell("sum", f'ls "$OUT" | grep -c part- >> "$OUT/result"; {evaluate}', tmp_path)]},
    }.items():
        await create(cluster, JOB_TEMPLATE, {"plugins": {"env": []}, **spec}, name)
    order = ("prepare", "train", "evaluate")
    entries = [{"name": name} for name in order]
    for entry, before in zip(entries[1:], order, strict=False):
        entry["dependsOn"] = {"targets": [before]}  # type: ignore[assignment]
    flow = await create(cluster, JOB_FLOW, {"flows": entries})
    status = await reaches(cluster, flow, "Succeed")
    assert status["completedJobs"] == [f"{flow.name}-{name}" for name in order]
    assert lines(tmp_path / "result") == ["3", "42"]


async def test_work_goes_on_from_where_it_was_suspended(cluster: Cluster, tmp_path: Path) -> None:
    job = await create(cluster, VC_JOB, {"tasks": [shell("work", STEPS.replace("{out}", str(tmp_path)), tmp_path)]})
    await eventually(lambda: "step 5" in lines(tmp_path / "log"), 60)
    await cluster.patch(job, {"spec": {"suspend": True}})
    await reaches(cluster, job, "Aborted")
    await eventually(lambda: none_left(cluster, POD), 60)
    (tmp_path / "resumed").touch()
    assert lines(tmp_path / "log")[-1] == "step 5"
    await cluster.patch(job, {"spec": {"suspend": False}})
    status = await reaches(cluster, job, "Completed")
    numbers = [f"step {number}" for number in range(1, 11)]
    assert lines(tmp_path / "log") == ["from 0", *numbers[:5], "from 5", *numbers[5:]]
    assert "retryCount" not in status, "a Job that was suspended has not failed"


async def test_jobs_of_one_queue_run_one_after_the_other(cluster: Cluster, tmp_path: Path) -> None:
    """Each takes all that their queue may have; there is room for two of them on the node."""
    queue = await create(cluster, QUEUE, {"weight": 1, "capability": {"cpu": "200m"}})
    jobs = []
    for name in ("one", "two", "three"):
        container = {"resources": {"requests": {"cpu": "100m"}}, "workingDir": str(tmp_path)}
        script = f"echo {name} start >> log; sleep 0.5; echo {name} end >> log"
        work = shell("work", script, tmp_path, 2, container=container)
        jobs.append(await create(cluster, VC_JOB, {"queue": queue.name, "tasks": [work]}, name))
    for job in jobs:
        await reaches(cluster, job, "Completed")
    log = [line.split() for line in lines(tmp_path / "log")]
    runs = [list(group) for _, group in itertools.groupby(log, key=lambda line: line[0])]
    assert sorted(run[0][0] for run in runs) == sorted(job.name for job in jobs), "two of them ran at the same time"
    assert {tuple(sorted(what for _, what in run)) for run in runs} == {("end", "end", "start", "start")}
    await eventually(lambda: none_left(cluster, POD_GROUP), 60)
    counters = ("pending", "inqueue", "running", "unknown")
    await reaches(cluster, queue, lambda found: not any(found.get(name, 0) for name in counters))
