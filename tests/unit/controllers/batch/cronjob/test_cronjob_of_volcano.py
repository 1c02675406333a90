"""CronJobs of Volcano: Kubernetes' decisions about Jobs of another kind, in other words."""

from tests.support.tables import cases
from tests.unit.controllers.batch.cronjob.cronjobs import NOON, CronCluster, clock, minute, reasons, volcano_cron_job
from workers.api import times
from workers.api.kinds import VC_CRON_JOB, VC_JOB, Ref, reference
from workers.controllers.batch.cronjob import VOLCANO_CRON_JOBS, decide
from workers.decision.plan import NOTHING
from workers.decision.snapshot import Snapshot


def running(**spec):
    """A cluster in which the run of 12:01 is at work."""
    cluster = CronCluster(volcano_cron_job(**spec))
    cluster.settle(clock("12:01"))
    assert cluster.active() == [minute("12:01")]
    return cluster


def test_the_job_of_a_slot_is_volcanos():
    cluster = running(timeZone="Europe/Berlin")
    job = cluster.jobs[minute("12:01")]
    assert (job["apiVersion"], job["kind"]) == ("batch.volcano.sh/v1alpha1", "Job")
    assert job["spec"] == cluster.body["spec"]["jobTemplate"]["spec"]
    assert job["metadata"]["labels"] == {"app": "report"}
    assert job["metadata"]["annotations"] == {
        "team": "blue",
        "volcano.sh/cronjob-scheduled-timestamp": "2026-03-01T13:01:00+01:00",
    }
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["controller"]) == (VC_CRON_JOB.api_version, "CronJob", True)
    assert cluster.status == {"active": [reference(VC_JOB, job)], "lastScheduleTime": "2026-03-01T12:01:00Z"}


def test_only_its_kinds_are_watched():
    assert (VOLCANO_CRON_JOBS.kind, VOLCANO_CRON_JOBS.children) == (VC_CRON_JOB, (VC_JOB,))
    assert decide(Snapshot(Ref(VC_CRON_JOB, "default", "report"), None), NOON) == NOTHING


@cases(
    ("completed", "Completed", "Complete", [], True),
    ("failed", "Failed", "Failed", [], False),
    ("terminated", "Terminated", "Terminated", [], False),
    ("aborted, and may be resumed", "Aborted", None, ["report"], False),
    ("restarting", "Restarting", None, ["report"], False),
)
def test_a_job_leaves_the_active_ones_when_its_phase_is_final(phase, how, active, succeeded):
    cluster = running()
    cluster.end(minute("12:01"), phase, clock("12:01:20"))
    events = cluster.settle(clock("12:01:30"))
    assert [each.rpartition("-")[0] for each in cluster.active()] == active
    assert [each.message.rpartition(" ")[2] for each in events] == ([how] if how else [])
    assert cluster.status.get("lastSuccessfulTime") == (times.render(clock("12:01:20")) if succeeded else None)


def test_history_keeps_the_newest_and_all_terminated_ones():
    cluster = CronCluster(volcano_cron_job(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0))
    names = [minute(f"12:0{number}") for number in range(1, 6)]
    ends = ["Completed", "Completed", "Failed", "Terminated", "Terminated"]
    for number, (name, phase) in enumerate(zip(names, ends, strict=True), 1):
        cluster.settle(clock(f"12:0{number}"))
        cluster.end(name, phase, clock(f"12:0{number}:30"))
    cluster.settle(clock("12:05:40"))
    assert sorted(cluster.jobs) == [names[1], *names[3:]]


@cases(
    ("a zone that does not exist", {"timeZone": "Middle/Earth"}, "InvalidTimeZone"),
    ("a schedule that cannot be read", {"schedule": "now and then"}, "UnParseableCronJobSchedule"),
    ("a schedule with seconds", {"schedule": "0 * * * * *"}, "UnParseableCronJobSchedule"),
    ("a schedule that never fires", {"schedule": "0 0 31 2 *"}, "InvalidSchedule"),
    ("a template without a task", {"jobTemplate": {"spec": {"tasks": []}}}, "InvalidSpec"),
)
def test_what_cannot_be_done_is_reported_in_volcanos_words(spec, reason):
    cluster = CronCluster(volcano_cron_job(**spec))
    assert reasons(cluster.settle(clock("12:01"))) == [reason]
    assert not cluster.jobs


def test_a_run_waits_for_another_where_only_one_may_be_at_work():
    cluster = running(concurrencyPolicy="Forbid")
    assert reasons(cluster.settle(clock("12:02"))) == ["ForbidConcurrent"]
    assert list(cluster.jobs) == [minute("12:01")]


def test_a_run_takes_the_place_of_another():
    cluster = running(concurrencyPolicy="Replace")
    assert reasons(cluster.settle(clock("12:02"))) == ["ReplaceConcurrent", "SuccessfulDelete", "SuccessfulCreate"]
    assert cluster.active() == list(cluster.jobs) == [minute("12:02")]


def test_a_job_that_vanished_is_a_stale_reference():
    cluster = running()
    cluster.remove(minute("12:01"))
    (events,) = cluster.settle(clock("12:01:10"))
    assert (events.type, events.reason) == ("Warning", "StaleReference")
    assert cluster.active() == []


def test_a_job_of_another_creator_is_an_orphan():
    cluster = running()
    by_hand = {"apiVersion": VC_JOB.api_version, "kind": "Job", "metadata": {"name": "by-hand", "namespace": "default"}}
    cluster.put({**by_hand, "spec": {}}, clock("12:01:10"))
    assert reasons(cluster.settle(clock("12:01:10"))) == ["OrphanedJob"]
    assert cluster.settle(clock("12:01:11")) == []
    assert cluster.active() == [minute("12:01")]


def test_a_run_can_be_requested_with_variables():
    cluster = CronCluster(volcano_cron_job(suspend=True))
    cluster.ask("now", '{"env": {"DAY": "monday"}}')
    cluster.settle(clock("12:00:30"))
    (job,) = cluster.jobs.values()
    (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "DAY", "value": "monday"}]
