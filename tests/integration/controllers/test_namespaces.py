"""A namespace that is deleted goes with all that is at work in it."""

from collections.abc import AsyncIterator

import pytest

from tests.support.conditions import eventually
from tests.support.house import House
from workers.api.kinds import JOB, NAMESPACE, POD, SCHEDULED_JOB, Object, Ref
from workers.client.rest import Cluster
from workers.errors import NotFound

pytestmark = pytest.mark.timeout(300)

#: On the embedded API server: a real one needs a controller of namespaces, which is not ours.
HOUSE: dict[str, str] = {}

PLACE = "going"


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster


def job_spec(**more: object) -> Object:
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", "exec sleep 600"]}
    return {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}, **more}


def named(kind: str, version: str, name: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"namespace": PLACE, "name": name}, "spec": spec}


async def test_a_namespace_goes_with_its_jobs_at_work(running: House, cluster: Cluster) -> None:
    ref = Ref(NAMESPACE, "", PLACE)
    await cluster.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}})
    await cluster.create(JOB, named("Job", "batch/v1", "crunch", job_spec(parallelism=2, completions=5)))
    schedule = {"schedule": "* * * * * *", "concurrencyPolicy": "Replace", "jobTemplate": {"spec": job_spec()}}
    await cluster.create(SCHEDULED_JOB, named("ScheduledJob", "penstock.dev/v1alpha1", "tick", schedule))

    async def at_work() -> bool:
        # Of the schedule's pods each has a second: on a busy machine none of them may live to run.
        pods, _ = await cluster.list(POD, PLACE)
        phases = [(pod["metadata"]["labels"]["job-name"], pod["status"].get("phase")) for pod in pods]
        return phases.count(("crunch", "Running")) == 2 and any(name != "crunch" for name, _ in phases)

    await eventually(at_work, 60)
    await cluster.delete(ref)

    async def gone() -> bool:
        try:
            await cluster.get(ref)
        except NotFound:
            return True
        return False

    await eventually(gone, 60)
    assert (await cluster.list(POD, PLACE))[0] == []
    for log in (running.home / "logs").glob("*.log"):
        assert '"level":"ERROR"' not in log.read_text(), log.name
