"""A Volcano Job from its creation to its end: every process of ours and real pods, on the embedded cluster.

On a real API server its kind is reconciled in test_roles.py.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.controllers.volcano_objects import (
    ENABLED,
    cluster_fixture,
    command,
    create,
    is_gone,
    none_left,
    open_queue,
    reaches,
    reports,
    task,
)
from tests.support.conditions import eventually
from workers.api.kinds import POD, POD_GROUP, VC_JOB, Object, Ref
from workers.client.rest import Cluster

pytestmark = pytest.mark.timeout(300)

HOUSE = ENABLED


cluster = cluster_fixture(VC_JOB)


async def start(cluster: Cluster, *tasks: Object, **spec: Any) -> Ref:
    return await create(cluster, VC_JOB, {**spec, "tasks": list(tasks)})


async def pods_of(cluster: Cluster, job: Ref) -> dict[str, Object]:
    pods, _ = await cluster.list(POD, "default", label_selector=f"volcano.sh/job-name={job.name}")
    return {pod["metadata"]["name"]: pod for pod in pods}


def history(status: Object) -> list[str]:
    return [one["status"] for one in status["conditions"]]


async def test_a_healthy_job(cluster: Cluster) -> None:
    job = await start(cluster, task("worker", "exit 0", 3), plugins={"env": [], "svc": []})
    status = await reaches(cluster, job, "Completed")
    assert history(status) == ["Pending", "Running", "Completed"]
    settled = await reaches(cluster, job, lambda one: one.get("succeeded") == 3 and "controlledResources" not in one)
    assert settled["taskStatusCount"] == {"worker": {"phase": {"Succeeded": 3}}}
    assert (settled["version"], settled["minAvailable"]) == (1, 3)
    uid = (await cluster.get(job))["metadata"]["uid"]
    await eventually(lambda: is_gone(cluster, Ref(POD_GROUP, "default", f"{job.name}-{uid}")))
    pods = await pods_of(cluster, job)
    assert sorted(pods) == [f"{job.name}-worker-{index}" for index in range(3)]
    assert {pod["status"]["phase"] for pod in pods.values()} == {"Succeeded"}


async def test_a_job_is_aborted_and_resumed_and_each_command_is_consumed(cluster: Cluster) -> None:
    job = await start(cluster, task("worker", "exec sleep 300", 2))
    await reaches(cluster, job, "Running")
    before = {pod["metadata"]["uid"] for pod in (await pods_of(cluster, job)).values()}
    issued = await command(cluster, await cluster.get(job), "AbortJob")
    await reaches(cluster, job, "Aborted")
    await eventually(lambda: is_gone(cluster, issued))
    await eventually(lambda: none_left(cluster, POD), 60)
    await command(cluster, await cluster.get(job), "ResumeJob")
    status = await reaches(cluster, job, "Running")
    assert history(status)[1:] == ["Running", "Aborting", "Aborted", "Restarting", "Pending", "Running"]
    assert (status["retryCount"], status["version"]) == (1, 2)
    assert not before & {pod["metadata"]["uid"] for pod in (await pods_of(cluster, job)).values()}


async def test_a_job_is_suspended_and_resumed_by_its_spec(cluster: Cluster) -> None:
    job = await start(cluster, task("worker", "exec sleep 300", 2), suspend=True)
    await reaches(cluster, job, "Aborted")
    assert await pods_of(cluster, job) == {}
    await cluster.patch(job, {"spec": {"suspend": False}})
    status = await reaches(cluster, job, "Running")
    assert "retryCount" not in status
    await cluster.patch(job, {"spec": {"suspend": True}})
    await reaches(cluster, job, "Aborted")
    await eventually(lambda: none_left(cluster, POD), 60)


async def test_an_exit_code_restarts_the_job_and_the_status_says_why(cluster: Cluster, tmp_path: Path) -> None:
    script = f"[ $VC_TASK_INDEX = 1 ] && mkdir {tmp_path}/once 2>/dev/null && exit 42; sleep 2"
    policies = [{"exitCode": 42, "action": "RestartJob"}]
    job = await start(cluster, task("worker", script, 2), policies=policies, plugins={"env": []})
    status = await reaches(cluster, job, "Completed")
    assert (status["retryCount"], history(status).count("Restarting")) == (1, 1)
    (failure,) = status["failures"]
    assert (failure["pod"], failure["container"], failure["exitCode"]) == (f"{job.name}-worker-1", "main", 42)
    await reports(cluster, job.name, "ExecuteAction", "Start to execute action RestartJob")
    await reports(cluster, job.name, "PodFailed", "exited with 42")


async def test_a_job_that_fails_too_often_is_failed_and_says_which_pod(cluster: Cluster) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    job = await start(cluster, task("worker", "exit 7", 2), policies=policies, maxRetry=2)
    status = await reaches(cluster, job, "Failed")
    assert (status["retryCount"], status["state"]["reason"]) == (2, "MaxRetryReached")
    assert "exited with 7" in status["state"]["message"]
    assert await pods_of(cluster, job), "those of the last attempt stay, for their logs"


async def test_one_pod_is_restarted_and_the_others_go_on(cluster: Cluster, tmp_path: Path) -> None:
    script = f"[ $VC_TASK_INDEX = 1 ] && mkdir {tmp_path}/once 2>/dev/null && exit 1; exec sleep 300"
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    job = await start(cluster, task("worker", script, 2, policies=policies), plugins={"env": []})
    status = await reaches(cluster, job, lambda one: one.get("retryCount") == 1 and one.get("running") == 2)
    assert "version" not in status
    versions = {
        pod["metadata"]["annotations"]["volcano.sh/job-retry-count"] for pod in (await pods_of(cluster, job)).values()
    }
    assert versions == {"0", "1"}


async def test_a_completed_task_completes_the_job_and_stops_the_others(cluster: Cluster) -> None:
    done = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    job = await start(cluster, task("ps", "exec sleep 300"), task("worker", "exit 0", 2, policies=done))
    status = await reaches(cluster, job, "Completed")
    assert history(status)[-2:] == ["Completing", "Completed"]
    assert status["succeeded"] == 2
    assert sorted(await pods_of(cluster, job)) == [f"{job.name}-worker-0", f"{job.name}-worker-1"]


async def test_a_pod_that_somebody_deletes_is_answered(cluster: Cluster) -> None:
    policies = [{"event": "PodEvicted", "action": "TerminateJob"}]
    job = await start(cluster, task("worker", "exec sleep 300", 2), policies=policies)
    await reaches(cluster, job, "Running")
    await cluster.delete(Ref(POD, "default", f"{job.name}-worker-0"))
    status = await reaches(cluster, job, "Terminated")
    assert status["state"]["reason"] == "PodEvicted"


async def test_a_task_starts_once_the_one_it_depends_on_serves(cluster: Cluster) -> None:
    job = await start(
        cluster, task("db", "exec sleep 300"), task("app", "exit 0", 2, dependsOn={"name": ["db"]}), minSuccess=2
    )
    await reaches(cluster, job, "Completed")
    await eventually(lambda: is_gone(cluster, Ref(POD, "default", f"{job.name}-db-0")))
    assert sorted(await pods_of(cluster, job)) == [f"{job.name}-app-0", f"{job.name}-app-1"]


async def test_a_job_ends_when_a_task_waits_for_one_that_failed(cluster: Cluster) -> None:
    never = {"initContainers": [{"name": "init", "image": "none", "command": ["/bin/sh", "-c", "exit 3"]}]}
    first = task("a", "exit 0")
    first["template"]["spec"] |= never
    job = await start(cluster, first, task("b", "exit 0", dependsOn={"name": ["a"]}))
    status = await reaches(cluster, job, "Failed")
    assert status["state"]["message"].endswith("container init exited with 3 (Error); task b can never start: a failed")
    assert list(await pods_of(cluster, job)) == [f"{job.name}-a-0"]

    async def group_is_gone() -> bool:
        groups = (await cluster.list(POD_GROUP, "default"))[0]
        return not [group for group in groups if group["metadata"]["name"].startswith(f"{job.name}-")]

    # The status is written first, so that a killed worker repeats the deletion; Volcano has the same order.
    await eventually(group_is_gone)


async def test_why_is_told_of_a_container_that_was_started_again_in_place(cluster: Cluster) -> None:
    again = task("w", "exit 5", maxRetry=1, policies=[{"event": "TaskFailed", "action": "AbortJob"}])
    again["template"]["spec"]["restartPolicy"] = "OnFailure"
    job = await start(cluster, again)
    status = await reaches(cluster, job, "Aborted")
    assert "container main exited with 5" in status["state"]["message"]
    assert [(one["pod"], one["exitCode"]) for one in status["failures"]] == [(f"{job.name}-w-0", 5)]


async def test_a_job_waits_for_its_admission_to_a_queue_of_its_own(cluster: Cluster) -> None:
    queue = await open_queue(cluster, weight=1)
    job = await start(cluster, task("worker", "exit 0"), queue=queue["metadata"]["name"])
    await reaches(cluster, job, "Completed")


async def test_a_restart_after_the_gang_completed_waits_for_room_in_the_queue(cluster: Cluster) -> None:
    """Between its end and its restart the room goes to another Job."""
    queue = (await open_queue(cluster, capability={"cpu": "100m"}))["metadata"]["name"]
    asks = {"resources": {"requests": {"cpu": "100m"}}}
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    fails = task("worker", "sleep 1; exit 1", container=asks, policies=policies)
    first = await start(cluster, fails, queue=queue, restartBackoff={"seconds": 4, "factor": 1})
    await reaches(cluster, first, "Running")
    # It waits already when the first one ends: the restart comes four seconds later.
    other = await start(cluster, task("worker", "exec sleep 600", container=asks), queue=queue)
    await reaches(cluster, other, "Running")

    async def waits_for_room() -> bool:
        pods = (await pods_of(cluster, first)).values()
        assert not any(pod["spec"].get("nodeName") for pod in pods), "its queue has no room for it"
        return len(pods) == 1

    await eventually(waits_for_room)
    await reaches(cluster, first, lambda one: "has 0 of 100m cpu left" in one["state"].get("message", ""))
    await cluster.delete(other)
    await reaches(cluster, first, lambda one: one.get("retryCount") == 2)


async def test_a_finished_job_is_deleted_when_its_time_is_up(cluster: Cluster) -> None:
    job = await start(cluster, task("worker", "exit 0"), ttlSecondsAfterFinished=1)
    await eventually(lambda: is_gone(cluster, job), 60)
    await eventually(lambda: none_left(cluster, POD), 60)
