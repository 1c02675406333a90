"""CronJobs and ScheduledJobs at work: every process of ours, on the embedded API server, with processes as pods."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.conditions import eventually, until
from tests.support.house import House
from tests.support.tables import cases
from workers.api import conditions, times
from workers.api.kinds import CRON_JOB, EVENT, JOB, POD, SCHEDULED_JOB, Kind, Object, Ref, controller_of, ref_of
from workers.client.rest import Cluster
from workers.controllers.batch.cronjob import names

pytestmark = pytest.mark.timeout(300)

HOUSE = {"cronjobs": "true"}

_numbers = itertools.count(1)
#: Fires once in a year: whatever runs was asked for, or made up for.
YEARLY = "0 0 1 1 *"
EVERY_SECOND = "* * * * * *"


async def create(cluster: Cluster, kind: Kind, schedule: str, script: str = "true", **spec: Any) -> Ref:
    """A new object whose Jobs run this script."""
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    template = {
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    }
    metadata = {"namespace": "default", "name": f"report-{next(_numbers)}"}
    body = {"metadata": metadata, "spec": {"schedule": schedule, "jobTemplate": template, **spec}}
    await cluster.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **body})
    return Ref(kind, "default", metadata["name"])


async def status(cluster: Cluster, ref: Ref) -> Object:
    return (await cluster.get(ref)).get("status") or {}


def active(status: Object) -> list[str]:
    return [each["name"] for each in status.get("active") or ()]


def outcomes(status: Object) -> list[str]:
    return [each["outcome"] for each in status.get("outcomes") or ()]


async def jobs_of(cluster: Cluster, ref: Ref) -> dict[str, Object]:
    """The object's Jobs by name."""
    uid = (await cluster.get(ref))["metadata"]["uid"]
    jobs, _ = await cluster.list(JOB, "default")
    return {job["metadata"]["name"]: job for job in jobs if (controller_of(job) or {}).get("uid") == uid}


async def told(cluster: Cluster, ref: Ref) -> set[str]:
    """The reasons of the Events about the object."""
    uid = (await cluster.get(ref))["metadata"]["uid"]
    events, _ = await cluster.list(EVENT, "default", field_selector=f"involvedObject.uid={uid}")
    return {event["reason"] for event in events}


async def edit(cluster: Cluster, ref: Ref, **spec: Any) -> None:
    await cluster.patch(ref, {"spec": spec})


async def ask(cluster: Cluster, ref: Ref, id: str, **env: str) -> str:
    """Ask for a run; answers the name of its Job."""
    value = json.dumps({"env": env})
    await cluster.patch(ref, {"metadata": {"annotations": {f"penstock.dev/run.{id}": value}}})
    return names.of(ref.kind, ref.name).manual(id)


def asked(body: Object) -> list[str]:
    """The annotations that request runs."""
    return [key for key in body["metadata"].get("annotations") or {} if key.startswith("penstock.dev/run.")]


def slot(seconds: float) -> datetime:
    """The minute that was so many seconds ago."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).replace(second=0, microsecond=0)


async def overdue(cluster: Cluster, ref: Ref, last: datetime) -> None:
    """Let the object's last run be this one: all slots since are due."""
    await cluster.patch(ref, {"status": {"lastScheduleTime": times.render(last)}}, subresource="status")


async def test_a_scheduledjob_runs_every_second(running: House, cluster: Cluster) -> None:
    ref = await create(cluster, SCHEDULED_JOB, EVERY_SECOND, "echo ran", catchUp={"policy": "All"})

    async def some_ended() -> bool:
        return outcomes(await status(cluster, ref)).count("Succeeded") >= 3

    await eventually(some_ended, 60)
    await edit(cluster, ref, suspend=True)

    async def at_rest() -> bool:
        now = await status(cluster, ref)
        return conditions.find({"status": now}, "Ready")["reason"] == "Suspended" and not now.get("active")  # type: ignore[index]

    await eventually(at_rest, 60)
    last = await status(cluster, ref)
    slots = [times.parse(each["scheduledTime"]) for each in last["outcomes"]]
    assert [later - slot for slot, later in itertools.pairwise(slots)] == [timedelta(seconds=1)] * (len(slots) - 1)
    assert {each["outcome"] for each in last["outcomes"]} == {"Succeeded"}
    assert "missedRuns" not in last
    assert last["lastScheduleTime"] == last["outcomes"][-1]["scheduledTime"]
    # Three that succeeded stay, Kubernetes' default.
    await until(lambda: jobs_of(cluster, ref), lambda now: len(now) == 3)
    job = next(iter((await jobs_of(cluster, ref)).values()))
    (pod,), _ = await cluster.list(POD, "default", label_selector=f"job-name={job['metadata']['name']}")
    metadata = pod["metadata"]
    log = running.logs / f"default_{metadata['name']}_{metadata['uid']}" / "main" / "0.log"
    assert log.read_text().endswith("ran\n")


async def test_a_cronjob_makes_up_for_its_newest_slot_and_says_what_it_missed(cluster: Cluster) -> None:
    # A slot that cannot pass while the test runs.
    newest = slot(120)
    ref = await create(cluster, CRON_JOB, f"{newest.minute - newest.minute % 2} * * * *", suspend=True)
    await overdue(cluster, ref, slot(600))
    await edit(cluster, ref, suspend=False)

    async def succeeded() -> bool:
        return bool((await status(cluster, ref)).get("lastSuccessfulTime"))

    expected = newest.replace(minute=newest.minute - newest.minute % 2)
    await eventually(succeeded, 60)
    assert (await status(cluster, ref))["lastScheduleTime"] == times.render(expected)
    (name,) = await jobs_of(cluster, ref)
    assert name == names.of(CRON_JOB, ref.name).slot(expected)
    await until(lambda: told(cluster, ref), lambda now: {"SuccessfulCreate", "SawCompletedJob"} <= now)
    assert not {"MissingJob", "UnexpectedJob"} & await told(cluster, ref)


async def test_a_run_past_its_deadline_is_missed_and_told_of(cluster: Cluster) -> None:
    newest = slot(300)
    ref = await create(cluster, CRON_JOB, f"{newest.minute} * * * *", suspend=True, startingDeadlineSeconds=5)
    await overdue(cluster, ref, slot(4000))
    await edit(cluster, ref, suspend=False)
    await until(lambda: told(cluster, ref), lambda now: "MissSchedule" in now)
    assert await jobs_of(cluster, ref) == {}
    annotations = (await cluster.get(ref))["metadata"]["annotations"]
    assert annotations["penstock.dev/last-missed-time"] == times.render(newest)


@cases(("CronJob", CRON_JOB), ("ScheduledJob", SCHEDULED_JOB))
async def test_a_run_that_is_asked_for_gets_its_variables_also_while_suspended(
    kind: Kind, running: House, cluster: Cluster
) -> None:
    ref = await create(cluster, kind, YEARLY, "echo day is $DAY", suspend=True)
    name = await ask(cluster, ref, "one", DAY="monday")

    async def succeeded() -> bool:
        job = (await jobs_of(cluster, ref)).get(name)
        return job is not None and conditions.finished(job) == "Complete"

    await eventually(succeeded, 60)
    (pod,), _ = await cluster.list(POD, "default", label_selector=f"job-name={name}")
    metadata = pod["metadata"]
    log = running.logs / f"default_{metadata['name']}_{metadata['uid']}" / "main" / "0.log"
    assert log.read_text().endswith("day is monday\n")
    await until(lambda: cluster.get(ref), lambda now: not asked(now))


async def test_forbid_lets_one_run_at_a_time(cluster: Cluster) -> None:
    ref = await create(cluster, SCHEDULED_JOB, YEARLY, "exec sleep 600", concurrencyPolicy="Forbid")
    first = await ask(cluster, ref, "first")
    await until(lambda: status(cluster, ref), lambda now: active(now) == [first])
    second = await ask(cluster, ref, "second")
    await until(lambda: told(cluster, ref), lambda now: "JobAlreadyActive" in now)
    assert set(await jobs_of(cluster, ref)) == {first}
    await cluster.delete(Ref(JOB, "default", first), propagation="Background")
    await until(lambda: jobs_of(cluster, ref), lambda now: set(now) == {second})

    async def written() -> bool:
        outcomes = (await status(cluster, ref)).get("outcomes") or ()
        return [(each["job"], each["outcome"], each["trigger"]) for each in outcomes] == [(first, "Deleted", "manual")]

    await eventually(written, 60)
    await until(lambda: told(cluster, ref), lambda now: "MissingJob" in now)
    await cluster.delete(ref, propagation="Background")


async def test_replace_ends_what_is_at_work(cluster: Cluster) -> None:
    ref = await create(cluster, SCHEDULED_JOB, YEARLY, "exec sleep 600", concurrencyPolicy="Replace")
    first = await ask(cluster, ref, "first")
    await until(lambda: status(cluster, ref), lambda now: active(now) == [first])
    second = await ask(cluster, ref, "second")
    (outcome,) = (await until(lambda: status(cluster, ref), lambda now: active(now) == [second]))["outcomes"]
    assert (outcome["job"], outcome["outcome"]) == (first, "Replaced")
    assert set(await jobs_of(cluster, ref)) == {second}
    await cluster.delete(ref, propagation="Background")


async def test_a_run_that_fails_is_tried_again_and_its_outcome_outlives_its_jobs(cluster: Cluster) -> None:
    ref = await create(
        cluster, SCHEDULED_JOB, YEARLY, "exit 3", retry={"limit": 1, "delaySeconds": 1}, failedJobsHistoryLimit=0
    )
    first = await ask(cluster, ref, "one")
    await until(lambda: status(cluster, ref), lambda now: outcomes(now) == ["Failed"])
    (outcome,) = (await status(cluster, ref))["outcomes"]
    assert (outcome["job"], outcome["attempts"]) == (f"{first}-r2", 2)
    assert outcome["reason"] == "BackoffLimitExceeded"
    await until(lambda: jobs_of(cluster, ref), lambda now: len(now) == 0)


async def test_a_run_is_ended_when_its_time_is_over(cluster: Cluster) -> None:
    ref = await create(cluster, SCHEDULED_JOB, YEARLY, "exec sleep 600", runTimeLimitSeconds=2)
    await ask(cluster, ref, "one")
    await until(lambda: status(cluster, ref), lambda now: outcomes(now) == ["TimedOut"])


async def test_somebody_elses_job_of_the_name_stalls_nothing(cluster: Cluster) -> None:
    ref = await create(cluster, SCHEDULED_JOB, YEARLY, suspend=True)
    name = names.of(SCHEDULED_JOB, ref.name).manual("one")
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none", "command": ["true"]}]}
    foreign = {"metadata": {"namespace": "default", "name": name}, "spec": {"template": {"spec": pod}}}
    await cluster.create(JOB, {"apiVersion": "batch/v1", "kind": "Job", **foreign})
    await ask(cluster, ref, "one")
    await until(lambda: told(cluster, ref), lambda now: "FailedCreate" in now)
    second = await ask(cluster, ref, "two")
    await until(lambda: jobs_of(cluster, ref), lambda now: set(now) == {second})


async def test_a_request_that_makes_no_sense_is_refused(cluster: Cluster) -> None:
    ref = await create(cluster, CRON_JOB, YEARLY)
    await cluster.patch(ref, {"metadata": {"annotations": {"penstock.dev/run.one": "{"}}})
    await until(lambda: told(cluster, ref), lambda now: "InvalidRunRequest" in now)
    assert not asked(await cluster.get(ref))


async def test_its_jobs_go_with_it(cluster: Cluster) -> None:
    ref = await create(cluster, SCHEDULED_JOB, YEARLY, "exec sleep 600")
    name = await ask(cluster, ref, "one")
    await until(lambda: jobs_of(cluster, ref), lambda now: name in now)
    job = (await jobs_of(cluster, ref))[name]
    await cluster.delete(ref, propagation="Background")

    async def gone() -> bool:
        jobs, _ = await cluster.list(JOB, "default")
        pods, _ = await cluster.list(POD, "default", label_selector=f"job-name={name}")
        return ref_of(JOB, job) not in {ref_of(JOB, each) for each in jobs} and not pods

    await eventually(gone, 60)
