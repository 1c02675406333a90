"""A batch/v1 Job from its creation to its end: every process of ours, on the embedded API server and a real one.

The real one has no Job controller running, so that ours may take care of every Job.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.conditions import eventually, until
from tests.support.house import House, house
from tests.support.tables import for_each
from workers.api.kinds import EVENT, JOB, POD, Object, Ref, ref_of
from workers.client.rest import Cluster
from workers.controllers.batch.job.pods import TRACKING
from workers.errors import NotFound

#: For what the real API server that we test with, an old one, drops from a Job.
embedded_only = pytest.mark.parametrize("running", ["embedded"], indirect=True)

pytestmark = pytest.mark.timeout(300)

_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.real_apiserver)])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(request.param, tmp_path_factory.mktemp(request.param)) as house_:
        yield house_


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
    await eventually(lambda: nothing_held(cluster, job), 60)
    return last


async def nothing_held(cluster: Cluster, job: Object) -> bool:
    """Returns True if no pod of the Job holds the tracking finalizer."""
    return not any(TRACKING in (pod["metadata"].get("finalizers") or ()) for pod in await pods_of(cluster, job))


async def at_work(cluster: Cluster, job: Object, number: int) -> list[Object]:
    """The Job's running pods, once there are so many."""
    found: list[Object] = []

    async def enough() -> bool:
        found[:] = [
            pod
            for pod in await pods_of(cluster, job)
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]
        return len(found) == number

    await eventually(enough, 60)
    return found


async def reaches(cluster: Cluster, job: Object, wanted: Callable[[Object], bool]) -> Object:
    """The Job's status once it is as wanted."""
    last: Object = {}

    async def there() -> bool:
        nonlocal last
        last = (await cluster.get(ref_of(JOB, job))).get("status") or {}
        return wanted(last)

    await eventually(there, 60)
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
    await until(
        lambda: told(cluster, job), lambda now: now == {("Normal", "SuccessfulCreate"), ("Normal", "Completed")}
    )


async def test_a_job_that_fails_too_often_is_failed_and_says_why(cluster: Cluster) -> None:
    job = await start(cluster, "exit 3", backoffLimit=0)
    last = await ended(cluster, job)
    assert condition(last, "Failed")["reason"] == "BackoffLimitExceeded"
    assert last["status"]["failed"] == 1
    (pod,) = await pods_of(cluster, job)
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    await until(lambda: told(cluster, job), lambda now: ("Warning", "BackoffLimitExceeded") in now)


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
    await until(lambda: works(), lambda now: now and running[0]["metadata"]["name"] != lost)
    await cluster.patch(ref_of(JOB, job), {"spec": {"parallelism": 0}})

    async def idle() -> bool:
        # The status follows the pods.
        active = (await cluster.get(ref_of(JOB, job)))["status"].get("active", 0)
        return await pods_of(cluster, job) == [] and active == 0

    await eventually(idle, 60)


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


@embedded_only
async def test_every_index_succeeds_once(running: House, cluster: Cluster) -> None:
    script = "echo index $JOB_COMPLETION_INDEX"
    job = await start(cluster, script, completionMode="Indexed", completions=4, parallelism=3)
    last = await ended(cluster, job)
    assert condition(last, "Complete")["reason"] == "CompletionsReached"
    assert (last["status"]["completedIndexes"], last["status"]["succeeded"]) == ("0-3", 4)
    found = {}
    for pod in await pods_of(cluster, job):
        metadata = pod["metadata"]
        log = running.logs / f"default_{metadata['name']}_{metadata['uid']}" / "main" / "0.log"
        found[pod["spec"]["hostname"]] = log.read_text().split()[-2:]
    name = job["metadata"]["name"]
    assert found == {f"{name}-{index}": ["index", str(index)] for index in range(4)}


@embedded_only
async def test_indexes_and_ignored_failures_are_tried_again_after_their_wait(cluster: Cluster, tmp_path: Path) -> None:
    """Side by side, as each waits ten seconds."""
    odd = "exit $((JOB_COMPLETION_INDEX % 2))"
    indexes = {"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 1}
    once = f"test -e {tmp_path}/been && exit 0; touch {tmp_path}/been; exit 43"
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [43]}}
    retried = await start(cluster, odd, **indexes)
    ignored = await start(cluster, once, backoffLimit=0, podFailurePolicy={"rules": [rule]})
    last, other = await asyncio.gather(ended(cluster, retried), ended(cluster, ignored))
    status = last["status"]
    assert condition(last, "Failed")["reason"] == "FailedIndexes"
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1,3")
    assert (status["failed"], status["succeeded"]) == (4, 2)
    assert condition(other, "Complete")
    assert (other["status"]["succeeded"], other["status"].get("failed", 0)) == (1, 0)


@embedded_only
async def test_a_failure_policy_ends_the_job_at_the_first_fatal_failure(cluster: Cluster) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    script = "test $JOB_COMPLETION_INDEX = 0 && exit 42; exec sleep 600"
    policy = {"podFailurePolicy": {"rules": [rule]}}
    job = await start(cluster, script, completionMode="Indexed", completions=2, parallelism=2, **policy)
    last = await ended(cluster, job)
    assert condition(last, "Failed")["reason"] == "PodFailurePolicy"
    assert "exit code 42 matching FailJob rule at index 0" in condition(last, "Failed")["message"]
    assert last["status"]["failed"] == 2
    assert [last["status"].get(field, 0) for field in ("active", "ready", "terminating")] == [0, 0, 0]


@embedded_only
async def test_a_success_policy_ends_the_job_and_its_lingering_pods(cluster: Cluster) -> None:
    script = "test $JOB_COMPLETION_INDEX = 1 && exit 0; exec sleep 600"
    policy = {"successPolicy": {"rules": [{"succeededIndexes": "1"}]}}
    job = await start(cluster, script, completionMode="Indexed", completions=3, parallelism=3, **policy)
    last = await ended(cluster, job)
    assert condition(last, "SuccessCriteriaMet")["reason"] == "SuccessPolicy"
    assert condition(last, "Complete")["reason"] == "SuccessPolicy"
    assert (last["status"]["completedIndexes"], last["status"].get("failed", 0)) == ("1", 0)
    await until(lambda: pods_of(cluster, job), lambda now: [pod["status"]["phase"] for pod in now] == ["Succeeded"])


@embedded_only
async def test_a_job_is_suspended_and_resumed(cluster: Cluster, tmp_path: Path) -> None:
    job = await start(cluster, f"until test -e {tmp_path}/go; do sleep 0.1; done", suspend=True, backoffLimit=0)
    ref = ref_of(JOB, job)

    def suspended(status: Object) -> bool:
        at_rest = not status.get("active") and not status.get("terminating")
        return at_rest and bool(condition({"status": status}, "Suspended"))

    assert "startTime" not in await reaches(cluster, job, suspended)
    assert await pods_of(cluster, job) == []
    await cluster.patch(ref, {"spec": {"suspend": False}})
    await at_work(cluster, job, 1)
    await cluster.patch(ref, {"spec": {"suspend": True}})
    status = await reaches(cluster, job, suspended)
    assert status.get("failed", 0) == 0
    await until(lambda: pods_of(cluster, job), lambda now: now == [])
    (tmp_path / "go").touch()
    await cluster.patch(ref, {"spec": {"suspend": False}})
    last = await ended(cluster, job)
    assert condition(last, "Complete")
    assert last["status"].get("failed", 0) == 0


@embedded_only
async def test_only_failed_pods_are_replaced_if_the_job_says_so(cluster: Cluster, tmp_path: Path) -> None:
    end = f"until test -e {tmp_path}/go; do sleep 0.1; done; exit 1"
    script = f"trap '{end}' TERM; touch {tmp_path}/ready; sleep 600 & wait"
    job = await start(cluster, script, podReplacementPolicy="Failed")
    (pod,) = await at_work(cluster, job, 1)
    # A pod runs before its process has said what a signal does.
    await eventually((tmp_path / "ready").exists, 60)
    await cluster.delete(ref_of(POD, pod))
    status = await reaches(cluster, job, lambda status: status.get("terminating") == 1)
    assert (status.get("active", 0), status.get("failed", 0)) == (0, 0)
    assert len(await pods_of(cluster, job)) == 1
    (tmp_path / "go").touch()
    (other,) = await at_work(cluster, job, 1)
    assert other["metadata"]["uid"] != pod["metadata"]["uid"]
    await reaches(
        cluster, job, lambda status: [status.get(key, 0) for key in ("active", "failed", "terminating")] == [1, 1, 0]
    )
    await cluster.delete(ref_of(JOB, job), propagation="Background")


async def test_a_pod_that_lost_its_job_is_taken_back_and_one_that_changed_is_let_go(cluster: Cluster) -> None:
    job = await start(cluster, "exec sleep 600")
    (pod,) = await at_work(cluster, job, 1)
    ref = ref_of(POD, pod)
    await cluster.patch(ref, {"metadata": {"ownerReferences": None}})

    async def adopted() -> bool:
        owners = (await cluster.get(ref))["metadata"].get("ownerReferences") or ()
        return [owner["uid"] for owner in owners] == [job["metadata"]["uid"]]

    await eventually(adopted, 60)
    selector = (await cluster.get(ref_of(JOB, job)))["spec"]["selector"]["matchLabels"]
    await cluster.patch(ref, {"metadata": {"labels": dict.fromkeys(selector, "another")}})

    async def released() -> bool:
        metadata = (await cluster.get(ref))["metadata"]
        return not metadata.get("ownerReferences") and not metadata.get("finalizers")

    await eventually(released, 60)

    async def replaced() -> bool:
        names = {found["metadata"]["name"] for found in await pods_of(cluster, job)}
        return len(names - {ref.name}) == 1

    await eventually(replaced, 60)
    await cluster.delete(ref, grace=0)
    await cluster.delete(ref_of(JOB, job), propagation="Background")


@for_each("Orphan", "Background", "Foreground")
async def test_no_pod_of_a_deleted_job_is_held(propagation: Any, running: House, cluster: Cluster) -> None:
    """A real API server alone collects no garbage: there the pods stay, but nothing of ours holds them."""
    collects = "embedded" in str(running.kubeconfig)
    job = await start(cluster, "test $HOSTNAME && exec sleep 600", parallelism=2, completions=2)
    (one, _) = await at_work(cluster, job, 2)
    assert TRACKING in one["metadata"]["finalizers"]
    await cluster.delete(ref_of(JOB, job), propagation=propagation)
    await eventually(lambda: nothing_held(cluster, job), 60)
    if propagation == "Orphan" or not collects:
        assert [pod["status"]["phase"] for pod in await pods_of(cluster, job)] == ["Running"] * 2
        for pod in await pods_of(cluster, job):
            await cluster.delete(ref_of(POD, pod), grace=0)
    await until(lambda: pods_of(cluster, job), lambda now: now == [])
