"""CronJobs of Volcano at work on the embedded cluster: their Jobs are Volcano's, and run as processes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.controllers.volcano_objects import (
    ENABLED,
    cluster_fixture,
    create,
    is_gone,
    reaches,
    reports,
    task,
)
from tests.support.conditions import eventually
from tests.support.house import House
from workers.api import times
from workers.api.kinds import VC_CRON_JOB, VC_JOB, Object, Ref, controller_of, ref_of
from workers.client.rest import Cluster
from workers.errors import Invalid

pytestmark = pytest.mark.timeout(300)

HOUSE = ENABLED


cluster = cluster_fixture()


def slot() -> datetime:
    """A minute that is over: the same one of the next hour does not come while a test runs."""
    return (datetime.now(UTC) - timedelta(minutes=3)).replace(second=0, microsecond=0)


async def missed(cluster: Cluster, script: str = "true", **spec: Any) -> Ref:
    """Creates a CronJob that fires once in every hour, last at `slot`, and was not reconciled for two hours."""
    template = {"spec": {"tasks": [task("work", script, 2)]}}
    given = {"schedule": f"{slot().minute} * * * *", "suspend": True, "jobTemplate": template, **spec}
    ref = await create(cluster, VC_CRON_JOB, given)
    before = times.render(slot() - timedelta(hours=2))
    await cluster.patch(ref, {"status": {"lastScheduleTime": before}}, subresource="status")
    await cluster.patch(ref, {"spec": {"suspend": False}})
    return ref


async def jobs_of(cluster: Cluster, ref: Ref) -> list[Object]:
    """The object's Jobs."""
    uid = (await cluster.get(ref))["metadata"]["uid"]
    jobs, _ = await cluster.list(VC_JOB, "default")
    return [job for job in jobs if (controller_of(job) or {}).get("uid") == uid]


async def test_the_newest_missed_run_is_made_up_for_and_told_of(running: House, cluster: Cluster) -> None:
    due = slot()
    ref = await missed(cluster, schedule=f"{due.minute} * * * *")
    status = await reaches(cluster, ref, lambda found: found.get("lastSuccessfulTime"))
    (job,) = await jobs_of(cluster, ref)
    assert job["metadata"]["name"] == f"{ref.name}-{int(due.timestamp()) // 60}"
    assert job["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"] == times.render(due)
    assert job["status"]["state"]["phase"] == "Completed"
    assert status["lastScheduleTime"] == times.render(due)
    assert status["lastSuccessfulTime"] == job["status"]["state"]["lastTransitionTime"]
    assert "active" not in status
    for reason in ("SuccessfulCreate", "MissSchedule", "SawCompletedJob"):
        await reports(cluster, ref.name, reason)


async def test_a_run_that_is_at_work_is_active_and_goes_with_its_owner(running: House, cluster: Cluster) -> None:
    ref = await missed(cluster, "sleep 600")

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
    await eventually(lambda: is_gone(cluster, ref_of(VC_JOB, job)), 60)


async def test_one_that_cannot_be_kept_is_refused_at_once(running: House, cluster: Cluster) -> None:
    with pytest.raises(Invalid, match=r"spec\.schedule.*must not have a time zone"):
        await missed(cluster, schedule="TZ=UTC 0 * * * *")
    with pytest.raises(Invalid, match=r"spec\.jobTemplate\.spec\.minAvailable"):
        await missed(cluster, jobTemplate={"spec": {"minAvailable": 3, "tasks": [{"name": "a", "replicas": 2}]}})
