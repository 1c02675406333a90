"""CronJobs of Volcano at work on the embedded cluster: their Jobs are Volcano's, and run as processes."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.conditions import eventually, until
from tests.support.house import House
from workers.api import times
from workers.api.kinds import EVENT, VC_CRON_JOB, VC_JOB, Object, Ref, controller_of
from workers.client.rest import Cluster
from workers.errors import Invalid

pytestmark = pytest.mark.timeout(300)

HOUSE = {"volcano": "true", "pod_addresses": "true", "workloads": "true"}

_numbers = itertools.count(1)


def slot() -> datetime:
    """A minute that is over: the same one of the next hour does not come while a test runs."""
    return (datetime.now(UTC) - timedelta(minutes=3)).replace(second=0, microsecond=0)


async def create(cluster: Cluster, script: str = "true", **spec: Any) -> Ref:
    """A CronJob that fires once in every hour, last at `slot`, and was not looked at for two hours."""
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    task = {"name": "work", "replicas": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    body = {
        "apiVersion": VC_CRON_JOB.api_version,
        "kind": VC_CRON_JOB.kind,
        "metadata": {"namespace": "default", "name": f"report-{next(_numbers)}"},
        "spec": {
            "schedule": f"{slot().minute} * * * *",
            "suspend": True,
            "jobTemplate": {"spec": {"tasks": [task]}},
            **spec,
        },
    }
    created = await cluster.create(VC_CRON_JOB, body)
    ref = Ref(VC_CRON_JOB, "default", created["metadata"]["name"])
    missed = times.render(slot() - timedelta(hours=2))
    await cluster.patch(ref, {"status": {"lastScheduleTime": missed}}, subresource="status")
    await cluster.patch(ref, {"spec": {"suspend": False}})
    return ref


async def jobs_of(cluster: Cluster, ref: Ref) -> list[Object]:
    """The object's Jobs."""
    uid = (await cluster.get(ref))["metadata"]["uid"]
    jobs, _ = await cluster.list(VC_JOB, "default")
    return [job for job in jobs if (controller_of(job) or {}).get("uid") == uid]


async def told(cluster: Cluster, ref: Ref) -> set[str]:
    """The reasons of the Events about the object."""
    uid = (await cluster.get(ref))["metadata"]["uid"]
    events, _ = await cluster.list(EVENT, "default", field_selector=f"involvedObject.uid={uid}")
    return {event["reason"] for event in events}


async def test_the_newest_missed_run_is_made_up_for_and_told_of(running: House, cluster: Cluster) -> None:
    due = slot()
    ref = await create(cluster, schedule=f"{due.minute} * * * *")
    await until(lambda: cluster.get(ref), lambda now: now["status"].get("lastSuccessfulTime"), 90)
    (job,) = await jobs_of(cluster, ref)
    assert job["metadata"]["name"] == f"{ref.name}-{int(due.timestamp()) // 60}"
    assert job["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"] == times.render(due)
    assert job["status"]["state"]["phase"] == "Completed"
    status = (await cluster.get(ref))["status"]
    assert status["lastScheduleTime"] == times.render(due)
    assert status["lastSuccessfulTime"] == job["status"]["state"]["lastTransitionTime"]
    assert "active" not in status
    await until(lambda: told(cluster, ref), lambda now: now >= {"SuccessfulCreate", "MissSchedule", "SawCompletedJob"})


async def test_a_run_that_is_at_work_is_active_and_goes_with_its_owner(running: House, cluster: Cluster) -> None:
    ref = await create(cluster, "sleep 600")

    async def at_work() -> bool:
        jobs = await jobs_of(cluster, ref)
        phases = [(job.get("status") or {}).get("state", {}).get("phase") for job in jobs]
        return phases == ["Running"] and "active" in ((await cluster.get(ref)).get("status") or {})

    await eventually(at_work, 90)
    (job,) = await jobs_of(cluster, ref)
    (active,) = (await cluster.get(ref))["status"]["active"]
    assert (active["apiVersion"], active["name"], active["uid"]) == (
        VC_JOB.api_version,
        job["metadata"]["name"],
        job["metadata"]["uid"],
    )
    await cluster.delete(ref)

    async def gone() -> bool:
        jobs, _ = await cluster.list(VC_JOB, "default")
        return all(each["metadata"]["uid"] != job["metadata"]["uid"] for each in jobs)

    await eventually(gone, 60)


async def test_one_that_cannot_be_kept_is_refused_at_once(running: House, cluster: Cluster) -> None:
    with pytest.raises(Invalid, match=r"spec\.schedule.*must not have a time zone"):
        await create(cluster, schedule="TZ=UTC 0 * * * *")
    with pytest.raises(Invalid, match=r"spec\.jobTemplate\.spec\.minAvailable"):
        await create(cluster, jobTemplate={"spec": {"minAvailable": 3, "tasks": [{"name": "a", "replicas": 2}]}})
