"""A batch/v1 Job from its creation to its end: every process of ours, on the embedded API server and a real one.

The real one has no Job controller running, so that ours may take care of every Job.
"""

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.support.conditions import eventually
from tests.support.house import House, house
from workers.api.kinds import EVENT, JOB, POD, Object, Ref, ref_of
from workers.cluster import Cluster
from workers.errors import NotFound

pytestmark = pytest.mark.timeout(300)

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.real_apiserver)])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(request.param, tmp_path_factory.mktemp(request.param)) as house_:
        yield house_


@pytest.fixture
async def cluster(running: House) -> AsyncIterator[Cluster]:
    async with await Cluster.connect(kubeconfig=running.kubeconfig) as cluster:
        yield cluster


def shell(script: str) -> Object:
    return {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}


async def start(cluster: Cluster, script: str, **spec: Any) -> Object:
    """A new Job whose pods run this script once each."""
    template = {"spec": {"restartPolicy": "Never", "containers": [shell(script)]}}
    metadata = {"namespace": "default", "name": f"crunch-{next(_numbers)}"}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}
    return await cluster.create(JOB, body)


def condition(body: Object, type_: str) -> Object:
    """A condition that holds; empty when it does not."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == type_ and one["status"] == "True"), {})


async def ended(cluster: Cluster, job: Object) -> Object:
    """The Job once it is Complete or Failed."""
    last: Object = {}

    async def over() -> bool:
        nonlocal last
        last = await cluster.get(ref_of(JOB, job))
        return bool(condition(last, "Complete") or condition(last, "Failed"))

    await eventually(over, 60)
    return last


async def pods_of(cluster: Cluster, job: Object) -> list[Object]:
    pods, _ = await cluster.list(POD, "default", label_selector=f"job-name={job['metadata']['name']}")
    return pods


async def told(cluster: Cluster, job: Object) -> set[tuple[str, str]]:
    """(type, reason) of the Events about this Job."""
    events, _ = await cluster.list(EVENT, "default", field_selector=f"involvedObject.uid={job['metadata']['uid']}")
    return {(event["type"], event["reason"]) for event in events}


async def test_a_job_runs_its_pods_and_is_complete(running: House, cluster: Cluster) -> None:
    job = await start(cluster, "echo done by $HOSTNAME", completions=3, parallelism=2)
    last = await ended(cluster, job)
    assert condition(last, "Complete")
    status = last["status"]
    assert (status["succeeded"], status.get("failed", 0), status.get("active", 0)) == (3, 0, 0)
    assert status["startTime"] <= status["completionTime"]
    pods = await pods_of(cluster, job)
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 3
    for pod in pods:
        metadata = pod["metadata"]
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == [job["metadata"]["uid"]]
        log = running.logs / f"default_{metadata['name']}_{metadata['uid']}" / "main" / "0.log"
        assert log.read_text().endswith(f"done by {metadata['name']}\n")

    async def all_told() -> bool:
        return await told(cluster, job) == {("Normal", "SuccessfulCreate"), ("Normal", "Completed")}

    await eventually(all_told)


async def test_a_job_that_fails_too_often_is_failed_and_says_why(cluster: Cluster) -> None:
    job = await start(cluster, "exit 3", backoffLimit=0)
    last = await ended(cluster, job)
    assert condition(last, "Failed")["reason"] == "BackoffLimitExceeded"
    assert last["status"]["failed"] == 1
    (pod,) = await pods_of(cluster, job)
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3

    async def warned() -> bool:
        return ("Warning", "BackoffLimitExceeded") in await told(cluster, job)

    await eventually(warned)


async def test_a_job_past_its_deadline_ends_its_pods(cluster: Cluster) -> None:
    job = await start(cluster, "exec sleep 600", activeDeadlineSeconds=2)
    last = await ended(cluster, job)
    assert condition(last, "Failed")["reason"] == "DeadlineExceeded"
    assert last["status"].get("active", 0) == 0
    assert [pod for pod in await pods_of(cluster, job) if pod["status"]["phase"] == "Running"] == []


async def test_a_lost_pod_is_replaced(cluster: Cluster) -> None:
    job = await start(cluster, "exec sleep 600")
    running: list[Object] = []

    async def works() -> bool:
        running[:] = [pod for pod in await pods_of(cluster, job) if pod["status"].get("phase") == "Running"]
        return len(running) == 1

    await eventually(works, 60)
    lost = running[0]["metadata"]["name"]
    await cluster.delete(Ref(POD, "default", lost), grace=0)

    async def replaced() -> bool:
        return await works() and running[0]["metadata"]["name"] != lost

    await eventually(replaced, 60)
    await cluster.patch(ref_of(JOB, job), {"spec": {"parallelism": 0}})

    async def idle() -> bool:
        return await pods_of(cluster, job) == []

    await eventually(idle, 60)
    assert (await cluster.get(ref_of(JOB, job)))["status"].get("active", 0) == 0


async def test_a_finished_job_is_deleted_when_its_time_to_live_is_over(cluster: Cluster) -> None:
    job = await start(cluster, "true", ttlSecondsAfterFinished=1)
    known = "ttlSecondsAfterFinished" in job["spec"]

    async def gone() -> bool:
        try:
            last = await cluster.get(ref_of(JOB, job))
        except NotFound:
            return True
        # A server of a version where the field was still being tried out drops it: the Job stays.
        return not known and bool(condition(last, "Complete"))

    await eventually(gone, 60)
