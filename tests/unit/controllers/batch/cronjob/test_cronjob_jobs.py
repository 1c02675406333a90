"""The Jobs of a CronJob: their manifests, their history, and requested ones."""

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.cronjob.cronjobs import NOON, after, clock, cron_job, minute, reasons
from tests.unit.controllers.batch.cronjob.cronjobs import cron_job_cluster as new_cluster
from tests.unit.controllers.batch.cronjob.cronjobs import running_cron_job as running
from tests.unit.controllers.factories import owned_by
from workers.api import times
from workers.decision.plan import Create, Delete, RecordEvent, Together

# --- the Job


def test_the_job_is_a_copy_of_its_template_and_says_what_it_is_for():
    cluster = running(timeZone="Asia/Kolkata")
    job = cluster.jobs[minute("12:01")]
    assert job["metadata"]["labels"] == {"app": "report"}
    assert job["metadata"]["annotations"] == {
        "team": "blue",
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-01T17:31:00+05:30",
    }
    assert job["metadata"]["ownerReferences"] == owned_by("batch/v1", "CronJob", "report")
    assert job["spec"] == cluster.body["spec"]["jobTemplate"]["spec"]


@for_each(None, "UTC", "Etc/UTC")
def test_utc_is_written_as_z(zone):
    cluster = running(**({"timeZone": zone} if zone else {}))
    annotations = cluster.jobs[minute("12:01")]["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-03-01T12:01:00Z"


def test_a_template_cannot_say_another_slot():
    spec = cron_job()["spec"]["jobTemplate"]
    name = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    cluster = running(jobTemplate={**spec, "metadata": {"annotations": {name: "2001-01-01T00:00:00Z"}}})
    assert cluster.jobs[minute("12:01")]["metadata"]["annotations"][name] == "2026-03-01T12:01:00Z"


def test_what_only_a_scheduledjob_has_a_cronjob_has_not():
    cluster = running(retry={"limit": 3}, jitterSeconds=50, catchUp={"policy": "None"}, outcomesLimit="x")
    cluster.end(minute("12:01"), "Failed", clock("12:01:10"))
    cluster.settle(clock("12:01:10"))
    assert cluster.status.keys() == {"lastScheduleTime"}
    assert cluster.back == clock("12:02")


# --- history


@cases(
    ("Kubernetes' defaults", {}, 3, 1),
    ("none of either", {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}, 0, 0),
    ("one success, no failure", {"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}, 1, 0),
    ("no success, one failure", {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 1}, 0, 1),
    ("null keeps all", {"successfulJobsHistoryLimit": None, "failedJobsHistoryLimit": None}, 5, 5),
    ("more than there are", {"successfulJobsHistoryLimit": 50, "failedJobsHistoryLimit": 50}, 5, 5),
)
def test_the_newest_finished_jobs_stay(spec, succeeded, failed):
    cluster = new_cluster(suspend=True, **spec)
    for number in range(5):
        for how in ("Complete", "Failed"):
            name = f"{how.lower()}-{number}"
            cluster.put({"metadata": {"name": name, "namespace": "default"}, "spec": {}}, after(number))
            cluster.end(name, how, after(60))
    cluster.settle(after(61))
    kept = [f"complete-{number}" for number in range(5 - succeeded, 5)]
    assert sorted(cluster.jobs) == sorted(kept + [f"failed-{number}" for number in range(5 - failed, 5)])


def test_a_job_that_never_started_goes_last_and_names_decide_among_equals():
    cluster = new_cluster(suspend=True, successfulJobsHistoryLimit=1)
    for name in ("b", "a", "unstarted"):
        cluster.put({"metadata": {"name": name, "namespace": "default"}, "spec": {}}, NOON)
        cluster.end(name, at=after(5))
    del cluster.jobs["unstarted"]["status"]["startTime"]
    (stage,) = [step for step in cluster.decide(after(6)).steps if isinstance(step, Together)]
    assert [step.ref.name for step in stage.steps] == ["a", "b"]


def test_cleaning_up_is_reported_and_its_failure_blocks_nothing():
    cluster = running(successfulJobsHistoryLimit=0)
    cluster.end(minute("12:01"), at=clock("12:01:30"))
    cluster.refusing = {Delete}
    assert reasons(cluster.settle(clock("12:02"))) == ["SuccessfulCreate", "SawCompletedJob", "FailedDelete"]
    cluster.refusing = set()
    assert cluster.settle(clock("12:02:05")) == [
        RecordEvent("Normal", "SuccessfulDelete", f"Deleted job {minute('12:01')}")
    ]


def test_a_finished_job_that_is_going_already_counts_for_nothing():
    cluster = running(successfulJobsHistoryLimit=0)
    cluster.end(minute("12:01"), at=clock("12:01:30"))
    cluster.jobs[minute("12:01")]["metadata"]["deletionTimestamp"] = times.render(clock("12:01:31"))
    assert "SuccessfulDelete" not in reasons(cluster.settle(clock("12:01:32")))


# --- asked for


def test_a_run_that_is_requested_is_made_once_also_while_suspended():
    cluster = new_cluster(suspend=True)
    cluster.ask("now", '{"env": {"DAY": "monday"}}')
    assert reasons(cluster.settle(clock("12:00:10"))) == ["SuccessfulCreate"]
    job = cluster.jobs["report-now"]
    assert job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "DAY", "value": "monday"}]
    assert cluster.annotations == {}
    assert cluster.active() == ["report-now"]
    assert "lastScheduleTime" not in cluster.status
    cluster.end("report-now", at=clock("12:01"))
    cluster.settle(clock("12:01"))
    assert (cluster.made, cluster.status["lastSuccessfulTime"]) == (["report-now"], times.render(clock("12:01")))


def test_variables_take_the_place_of_the_templates_own_in_every_container():
    own = [{"name": "DAY", "valueFrom": {"fieldRef": {}}}, {"name": "PATH", "value": "/$(DAY)"}]
    pod = {"containers": [{"name": "a", "env": own}, {"name": "b"}], "initContainers": [{"name": "c"}]}
    cluster = new_cluster(suspend=True, jobTemplate={"spec": {"template": {"spec": pod}}})
    cluster.ask("now", '{"env": {"DAY": "monday", "FULL": "yes"}}')
    cluster.settle(NOON)
    made = cluster.jobs["report-now"]["spec"]["template"]["spec"]
    new = [{"name": "DAY", "value": "monday"}, {"name": "FULL", "value": "yes"}]
    assert made["containers"][0]["env"] == [new[0], own[1], new[1]]
    assert made["containers"][1]["env"] == made["initContainers"][0]["env"] == new
    assert cluster.body["spec"]["jobTemplate"]["spec"]["template"]["spec"] == pod


def test_a_request_stays_until_its_job_is_there():
    cluster = new_cluster(suspend=True)
    cluster.ask("now")
    cluster.refusing = {Create}
    cluster.settle(NOON)
    assert "penstock.dev/run.now" in cluster.annotations
    cluster.refusing = set()
    cluster.step(NOON, steps=1)
    assert (cluster.made, "penstock.dev/run.now" in cluster.annotations) == (["report-now"], True)
    cluster.remove("report-now")
    cluster.settle(after(1))
    assert (cluster.made, cluster.annotations) == (["report-now"], {})


def test_a_request_whose_name_is_taken_is_reported_and_removed():
    cluster = new_cluster(suspend=True)
    cluster.foreign = {"report-now"}
    cluster.ask("now")
    assert reasons(cluster.settle(NOON)) == ["FailedCreate"]
    assert cluster.annotations == {}


@cases(
    ("no JSON", "now", "{", "JSON"),
    ("a list", "now", "[]", "object"),
    ("another field", "now", '{"args": []}', "env"),
    ("a list of variables", "now", '{"env": ["A"]}', "env"),
    ("a number", "now", '{"env": {"A": 1}}', "string"),
    ("a name that is none", "now", '{"env": {"1A": "x"}}', "name"),
    ("an id in capitals", "Now", "", "DNS label"),
    ("an id with a dot", "a.b", "", "DNS label"),
    ("an id too long", "a" * 21, "", "DNS label"),
    ("no id", "", "", "DNS label"),
    ("a number as id", "29539441", "", "number"),
    ("a deep nest", "now", "[" * 100_000, "JSON"),
    ("half of a surrogate pair", "now", '{"env": {"A": "\\ud800"}}', "JSON"),
)
def test_a_request_that_makes_no_sense_is_refused_and_removed(id, value, word):
    cluster = new_cluster(suspend=True)
    cluster.ask(id, value)
    (events,) = cluster.settle(NOON)
    assert (events.type, events.reason) == ("Warning", "InvalidRunRequest")
    assert word in events.message
    assert (cluster.annotations, cluster.made) == ({}, [])


def test_an_id_may_look_like_an_attempt_where_there_are_none():
    cluster = new_cluster(suspend=True)
    cluster.ask("load-r2")
    cluster.settle(NOON)
    assert cluster.made == ["report-load-r2"]


def test_a_request_under_forbid_waits_its_turn_and_goes_before_the_slot():
    cluster = running(concurrencyPolicy="Forbid")
    cluster.ask("now")
    assert reasons(cluster.settle(clock("12:01:10"))) == ["JobAlreadyActive"]
    cluster.settle(clock("12:02"))
    cluster.end(minute("12:01"), at=clock("12:02:10"))
    cluster.settle(clock("12:02:10"))
    assert cluster.active() == ["report-now"]
    cluster.end("report-now", at=clock("12:02:20"))
    cluster.settle(clock("12:02:20"))
    assert cluster.made == [minute("12:01"), "report-now", minute("12:02")]


def test_a_request_under_replace_takes_the_place_of_what_is_running():
    cluster = running(concurrencyPolicy="Replace")
    cluster.ask("now")
    cluster.settle(clock("12:01:10"))
    assert (list(cluster.jobs), cluster.active()) == (["report-now"], ["report-now"])


def test_the_last_missed_time_and_a_request_are_not_confused():
    cluster = running(startingDeadlineSeconds=5)
    cluster.ask("now")
    cluster.settle(clock("12:02:30"))
    assert cluster.annotations == {"penstock.dev/last-missed-time": times.render(clock("12:02"))}
