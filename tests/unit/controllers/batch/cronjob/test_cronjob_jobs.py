"""The Jobs of a CronJob: what they are made from, how long they stay, and those that are asked for."""

import pytest

from tests.unit.controllers.batch.cronjob.cronjobs import NOON, UID, after, clock, cron_job, minute, reasons
from tests.unit.controllers.batch.cronjob.cronjobs import cron_job_world as world
from tests.unit.controllers.batch.cronjob.cronjobs import running_cron_job as running
from workers.api import times
from workers.reconcile.plan import Create, Delete, RecordEvent, Together

# --- the Job


def test_the_job_is_a_copy_of_its_template_and_says_what_it_is_for():
    here = running(timeZone="Asia/Kolkata")
    job = here.jobs[minute("12:01")]
    assert job["metadata"]["labels"] == {"app": "report"}
    assert job["metadata"]["annotations"] == {
        "team": "blue",
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-01T17:31:00+05:30",
    }
    assert job["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "name": "report",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert job["spec"] == here.body["spec"]["jobTemplate"]["spec"]


@pytest.mark.parametrize("zone", [None, "UTC", "Etc/UTC"])
def test_utc_is_written_as_z(zone):
    here = running(**({"timeZone": zone} if zone else {}))
    annotations = here.jobs[minute("12:01")]["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-03-01T12:01:00Z"


def test_a_template_cannot_say_another_slot():
    spec = cron_job()["spec"]["jobTemplate"]
    name = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    here = running(jobTemplate={**spec, "metadata": {"annotations": {name: "2001-01-01T00:00:00Z"}}})
    assert here.jobs[minute("12:01")]["metadata"]["annotations"][name] == "2026-03-01T12:01:00Z"


def test_what_only_a_scheduledjob_has_a_cronjob_has_not():
    here = running(retry={"limit": 3}, jitterSeconds=50, catchUp={"policy": "None"}, outcomesLimit="x")
    here.end(minute("12:01"), "Failed", clock("12:01:10"))
    here.settle(clock("12:01:10"))
    assert here.status.keys() == {"lastScheduleTime"}
    assert here.back == clock("12:02")


# --- history

HISTORY = {
    "Kubernetes' defaults": ({}, 3, 1),
    "none of either": ({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}, 0, 0),
    "one success, no failure": ({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}, 1, 0),
    "no success, one failure": ({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 1}, 0, 1),
    "null keeps all": ({"successfulJobsHistoryLimit": None, "failedJobsHistoryLimit": None}, 5, 5),
    "more than there are": ({"successfulJobsHistoryLimit": 50, "failedJobsHistoryLimit": 50}, 5, 5),
}


@pytest.mark.parametrize(("spec", "succeeded", "failed"), HISTORY.values(), ids=HISTORY)
def test_the_newest_finished_jobs_stay(spec, succeeded, failed):
    here = world(suspend=True, **spec)
    for number in range(5):
        for how in ("Complete", "Failed"):
            name = f"{how.lower()}-{number}"
            here.put({"metadata": {"name": name, "namespace": "default"}, "spec": {}}, after(number))
            here.end(name, how, after(60))
    here.settle(after(61))
    kept = [f"complete-{number}" for number in range(5 - succeeded, 5)]
    assert sorted(here.jobs) == sorted(kept + [f"failed-{number}" for number in range(5 - failed, 5)])


def test_a_job_that_never_started_goes_last_and_names_decide_among_equals():
    here = world(suspend=True, successfulJobsHistoryLimit=1)
    for name in ("b", "a", "unstarted"):
        here.put({"metadata": {"name": name, "namespace": "default"}, "spec": {}}, NOON)
        here.end(name, at=after(5))
    del here.jobs["unstarted"]["status"]["startTime"]
    (stage,) = [step for step in here.decide(after(6)).steps if isinstance(step, Together)]
    assert [step.ref.name for step in stage.steps] == ["a", "b"]


def test_cleaning_up_is_told_of_and_its_failure_blocks_nothing():
    here = running(successfulJobsHistoryLimit=0)
    here.end(minute("12:01"), at=clock("12:01:30"))
    here.refusing = {Delete}
    assert reasons(here.settle(clock("12:02"))) == [
        "SawCompletedJob",
        "FailedDelete",
        "SuccessfulCreate",
    ]
    here.refusing = set()
    assert here.settle(clock("12:02:05")) == [
        RecordEvent("Normal", "SuccessfulDelete", f"Deleted job {minute('12:01')}"),
    ]


def test_a_finished_job_that_is_going_already_counts_for_nothing():
    here = running(successfulJobsHistoryLimit=0)
    here.end(minute("12:01"), at=clock("12:01:30"))
    here.jobs[minute("12:01")]["metadata"]["deletionTimestamp"] = times.render(clock("12:01:31"))
    assert "SuccessfulDelete" not in reasons(here.settle(clock("12:01:32")))


# --- asked for


def test_a_run_that_is_asked_for_is_made_once_also_while_suspended():
    here = world(suspend=True)
    here.ask("now", '{"env": {"DAY": "monday"}}')
    assert reasons(here.settle(clock("12:00:10"))) == ["SuccessfulCreate"]
    job = here.jobs["report-now"]
    assert job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "DAY", "value": "monday"}]
    assert here.annotations == {}
    assert here.active() == ["report-now"]
    assert "lastScheduleTime" not in here.status
    here.end("report-now", at=clock("12:01"))
    here.settle(clock("12:01"))
    assert (here.made, here.status["lastSuccessfulTime"]) == (["report-now"], times.render(clock("12:01")))


def test_variables_take_the_place_of_the_templates_own_in_every_container():
    own = [{"name": "DAY", "valueFrom": {"fieldRef": {}}}, {"name": "PATH", "value": "/$(DAY)"}]
    pod = {"containers": [{"name": "a", "env": own}, {"name": "b"}], "initContainers": [{"name": "c"}]}
    here = world(suspend=True, jobTemplate={"spec": {"template": {"spec": pod}}})
    here.ask("now", '{"env": {"DAY": "monday", "FULL": "yes"}}')
    here.settle(NOON)
    made = here.jobs["report-now"]["spec"]["template"]["spec"]
    new = [{"name": "DAY", "value": "monday"}, {"name": "FULL", "value": "yes"}]
    assert made["containers"][0]["env"] == [new[0], own[1], new[1]]
    assert made["containers"][1]["env"] == made["initContainers"][0]["env"] == new
    assert here.body["spec"]["jobTemplate"]["spec"]["template"]["spec"] == pod


def test_a_request_stays_until_its_job_is_there():
    here = world(suspend=True)
    here.ask("now")
    here.refusing = {Create}
    here.settle(NOON)
    assert "penstock.dev/run.now" in here.annotations
    here.refusing = set()
    here.step(NOON, steps=1)
    assert (here.made, "penstock.dev/run.now" in here.annotations) == (["report-now"], True)
    here.remove("report-now")
    here.settle(after(1))
    assert (here.made, here.annotations) == (["report-now"], {})


def test_a_request_whose_name_is_taken_is_told_of_and_taken_off():
    here = world(suspend=True)
    here.foreign = {"report-now"}
    here.ask("now")
    assert reasons(here.settle(NOON)) == ["FailedCreate"]
    assert here.annotations == {}


REQUESTS = {
    "no JSON": ("now", "{", "JSON"),
    "a list": ("now", "[]", "object"),
    "another field": ("now", '{"args": []}', "env"),
    "a list of variables": ("now", '{"env": ["A"]}', "env"),
    "a number": ("now", '{"env": {"A": 1}}', "string"),
    "a name that is none": ("now", '{"env": {"1A": "x"}}', "name"),
    "an id in capitals": ("Now", "", "DNS label"),
    "an id with a dot": ("a.b", "", "DNS label"),
    "an id too long": ("a" * 21, "", "DNS label"),
    "no id": ("", "", "DNS label"),
    "a number as id": ("29539441", "", "number"),
    "a deep nest": ("now", "[" * 100_000, "JSON"),
}


@pytest.mark.parametrize(("id", "value", "word"), REQUESTS.values(), ids=REQUESTS)
def test_a_request_that_makes_no_sense_is_refused_and_taken_off(id, value, word):
    here = world(suspend=True)
    here.ask(id, value)
    (told,) = here.settle(NOON)
    assert (told.type, told.reason) == ("Warning", "InvalidRunRequest")
    assert word in told.message
    assert (here.annotations, here.made) == ({}, [])


def test_asking_under_forbid_waits_its_turn_and_goes_before_the_slot():
    here = running(concurrencyPolicy="Forbid")
    here.ask("now")
    assert reasons(here.settle(clock("12:01:10"))) == ["JobAlreadyActive"]
    here.settle(clock("12:02"))
    here.end(minute("12:01"), at=clock("12:02:10"))
    here.settle(clock("12:02:10"))
    assert here.active() == ["report-now"]
    here.end("report-now", at=clock("12:02:20"))
    here.settle(clock("12:02:20"))
    assert here.made == [minute("12:01"), "report-now", minute("12:02")]


def test_asking_under_replace_takes_the_place_of_what_is_at_work():
    here = running(concurrencyPolicy="Replace")
    here.ask("now")
    here.settle(clock("12:01:10"))
    assert (list(here.jobs), here.active()) == (["report-now"], ["report-now"])


def test_the_last_missed_time_and_a_request_are_not_confused():
    here = running(startingDeadlineSeconds=5)
    here.ask("now")
    here.settle(clock("12:02:30"))
    assert here.annotations == {"penstock.dev/last-missed-time": times.render(clock("12:02"))}
