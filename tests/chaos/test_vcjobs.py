"""Volcano Jobs under kill -9 of all that decides or remembers: each restarts once, its pods run once each time."""

import contextlib
import random
from pathlib import Path

import pytest

from tests.chaos.parts import PARTS, kill_each, run_installation
from tests.chaos.patience import beside, everything, insist, nothing_left, until
from workers.api.kinds import COMMAND, VC_JOB, Object, Ref, ref_of
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, NotFound

pytestmark = pytest.mark.timeout(420)

#: Each of two pods. A pod takes the first free number of its index; the first of index 1 fails.
SCRIPT = """
    n=0; while ! mkdir "{truth}/$VC_TASK_INDEX-$n" 2>/dev/null; do n=$((n+1)); done
    sleep 1
    case $VC_TASK_INDEX-$n in 1-0) exit 42;; esac
"""
JOBS = tuple(f"train-{number}" for number in range(8))
#: Aborted once, and resumed.
COMMANDED = "paused"
#: Held by every Command: one that was obeyed already is still there for whoever was not told that it was stored.
WITNESS = "chaos.penstock.dev/witness"


async def start(cluster: Cluster, name: str, script: str) -> None:
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    body = {
        "apiVersion": VC_JOB.api_version,
        "kind": VC_JOB.kind,
        "metadata": {"namespace": "default", "name": name},
        "spec": {
            "plugins": {"env": [], "svc": []},
            "policies": [{"exitCode": 42, "action": "RestartJob"}],
            "tasks": [{"name": "worker", "replicas": 2, "template": {"spec": pod}}],
        },
    }
    await cluster.create(VC_JOB, body)


async def command(cluster: Cluster, action: str) -> None:
    job = await insist(lambda: cluster.get(Ref(VC_JOB, "default", COMMANDED)))
    target = {"apiVersion": VC_JOB.api_version, "kind": "Job", "name": COMMANDED, "uid": job["metadata"]["uid"]}
    metadata = {"namespace": "default", "name": f"{COMMANDED}-{action.lower()}", "finalizers": [WITNESS]}
    body = {"apiVersion": COMMAND.api_version, "kind": "Command", "metadata": metadata}
    # A server that died may have stored it before it could say so.
    with contextlib.suppress(AlreadyExists):
        await cluster.create(COMMAND, {**body, "target": target, "action": action})


async def status(cluster: Cluster, name: str) -> Object:
    return (await insist(lambda: cluster.get(Ref(VC_JOB, "default", name)))).get("status") or {}


def phase(status_: Object) -> str | None:
    return (status_.get("state") or {}).get("phase")


async def happen(cluster: Cluster, truth: Path, seen: dict[str, Object]) -> None:
    for name in JOBS:
        (truth / name).mkdir(parents=True)
        await start(cluster, name, SCRIPT.replace("{truth}", str(truth / name)))
    await start(cluster, COMMANDED, "exec sleep 600")
    # Every part that decides or remembers. What pods run in is left alone.
    steps = (("AbortJob", "Aborted"), ("ResumeJob", "Running"), ("TerminateJob", "Terminated"))
    try:
        async with beside(kill_each(PARTS.keys() - {"scaler", "kubelet"}, 3, 1.5)) as [killing]:
            await until(lambda: _all_in(cluster, JOBS, "Completed"))
            await until(lambda: _all_in(cluster, (COMMANDED,), "Running"))
            for action, comes_to in steps:
                await insist(lambda action=action: command(cluster, action))
                await until(lambda comes_to=comes_to: _all_in(cluster, (COMMANDED,), comes_to))
            await killing
            await _let_go(cluster)
            await until(lambda: nothing_left(cluster))
    finally:
        for name in (*JOBS, COMMANDED):
            seen[name] = await status(cluster, name)


async def _let_go(cluster: Cluster) -> None:
    """Take the test's own finalizer off the Commands."""
    for ref in [ref_of(COMMAND, each) for each in await everything(cluster, COMMAND)]:
        with contextlib.suppress(NotFound):
            await insist(lambda ref=ref: cluster.patch(ref, {"metadata": {"finalizers": None}}))


async def _all_in(cluster: Cluster, names: tuple[str, ...], wanted: str) -> bool:
    return all([phase(await status(cluster, name)) == wanted for name in names])


def test_jobs_restart_once_whatever_dies(tmp_path: Path):
    random.seed(7)
    seen: dict[str, Object] = {}
    truth = tmp_path / "truth"
    run_installation(tmp_path / "home", lambda cluster, _: happen(cluster, truth, seen))
    assert set(seen) == {*JOBS, COMMANDED}, "the installation did not get as far as the Jobs"
    for name in JOBS:
        told = (name, seen[name])
        assert phase(seen[name]) == "Completed", told
        assert (seen[name]["retryCount"], seen[name]["version"], seen[name]["succeeded"]) == (1, 2, 2), told
        assert [one["exitCode"] for one in seen[name]["failures"]] == [42], told
        runs = sorted(folder.name for folder in (truth / name).iterdir())
        # Of the first start the pod that did not fail may have been killed before it began.
        assert runs in (["0-0", "0-1", "1-0", "1-1"], ["0-0", "1-0", "1-1"]), (runs, told)
    commanded = seen[COMMANDED]
    assert (phase(commanded), commanded["retryCount"], commanded["version"]) == ("Terminated", 1, 3), commanded
