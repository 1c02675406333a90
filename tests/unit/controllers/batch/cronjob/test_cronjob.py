"""The decision about a CronJob, step by step as Kubernetes' controller takes it."""

import pytest

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.cronjob.cronjobs import NOON, after, clock, minute, reasons
from tests.unit.controllers.batch.cronjob.cronjobs import cron_job_cluster as new_cluster
from tests.unit.controllers.batch.cronjob.cronjobs import running_cron_job as running
from workers.api import times
from workers.api.kinds import CRON_JOB, JOB, Ref, reference
from workers.controllers.batch.cronjob import decide
from workers.decision.plan import (
    NOTHING,
    ComeBack,
    CountMetric,
    Create,
    Delete,
    Patch,
    PatchStatus,
    Plan,
    RecordEvent,
    Together,
)
from workers.decision.snapshot import Snapshot

# --- one reconcile, step by step (the numbers are those of the reference)


def test_1_what_is_gone_is_left_alone():
    assert decide(Snapshot(Ref(CRON_JOB, "default", "report"), None), NOON) == NOTHING


def test_2_children_whose_slot_only_their_name_shows_are_runs_too():
    """Kubernetes before 1.28 put no annotation on its Jobs, and before 1.21 named them by the second."""
    for name in (minute("12:01"), f"report-{int(clock('12:01').timestamp())}"):
        cluster = new_cluster(concurrencyPolicy="Forbid", status={"lastScheduleTime": times.render(clock("12:01"))})
        cluster.put({"metadata": {"name": name, "namespace": "default"}, "spec": {}}, clock("12:01"))
        assert reasons(cluster.settle(clock("12:02"))) == ["JobAlreadyActive"]
        assert cluster.active() == [name]


def test_3_the_status_is_written_once_and_only_if_it_changed():
    cluster = running()
    cluster.jobs[minute("12:01")]["metadata"]["resourceVersion"] = "99"
    assert cluster.decide(clock("12:01:10")).steps == (ComeBack(clock("12:02")),)


def test_4_a_finished_job_leaves_active_and_is_reported_once():
    cluster = running()
    cluster.end(minute("12:01"), at=clock("12:01:20"))
    events = cluster.settle(clock("12:01:20"))
    assert events == [
        RecordEvent("Normal", "SawCompletedJob", f"Saw completed job: {minute('12:01')}, condition: Complete")
    ]
    assert cluster.active() == []
    assert cluster.settle(clock("12:01:21")) == []


def test_4_a_failed_job_says_so():
    cluster = running()
    cluster.end(minute("12:01"), "Failed", clock("12:01:20"))
    (events,) = cluster.settle(clock("12:01:20"))
    assert events.message.endswith("condition: Failed")
    assert "lastSuccessfulTime" not in cluster.status


def test_4_the_last_success_is_the_newest_completion_of_any_child():
    cluster = running()
    cluster.settle(clock("12:02"))
    cluster.end(minute("12:02"), at=clock("12:02:30"))
    cluster.settle(clock("12:02:31"))
    cluster.end(minute("12:01"), at=clock("12:02:10"))
    cluster.settle(clock("12:02:32"))
    assert cluster.status["lastSuccessfulTime"] == times.render(clock("12:02:30"))


def test_4_a_job_that_succeeded_before_it_was_observed_running_is_reported():
    cluster = new_cluster()
    cluster.step(clock("12:01"))
    cluster.end(minute("12:01"), at=clock("12:01:01"))
    assert reasons(cluster.settle(clock("12:01:01"))) == ["SawCompletedJob"]


def test_4_a_job_of_another_creator_is_unexpected_once_and_not_active():
    cluster = running(concurrencyPolicy="Forbid")
    cluster.end(minute("12:01"), at=clock("12:01:20"))
    cluster.put({"metadata": {"name": "by-hand", "namespace": "default"}, "spec": {}}, clock("12:01:30"))
    assert "UnexpectedJob" in reasons(cluster.settle(clock("12:01:30")))
    assert cluster.settle(clock("12:01:40")) == []
    assert cluster.active() == []
    cluster.settle(clock("12:02"))
    assert cluster.active() == [minute("12:02")], "no policy looks at it"
    cluster.end("by-hand", at=clock("12:02:10"))
    cluster.settle(clock("12:02:10"))
    assert cluster.status["lastSuccessfulTime"] == times.render(clock("12:02:10"))


def test_5_an_active_job_that_vanished_is_missing_once():
    cluster = running(concurrencyPolicy="Forbid")
    cluster.remove(minute("12:01"))
    assert cluster.settle(clock("12:01:10")) == [
        RecordEvent("Normal", "MissingJob", f"Active job went missing: {minute('12:01')}")
    ]
    assert cluster.active() == []
    assert cluster.settle(clock("12:01:11")) == []
    assert cluster.made == [minute("12:01")], "its slot stays handled"
    cluster.settle(clock("12:02"))
    assert cluster.active() == [minute("12:02")]


def test_5_a_job_that_is_being_deleted_is_missing_once_and_still_at_work():
    cluster = running(concurrencyPolicy="Forbid")
    cluster.jobs[minute("12:01")]["metadata"]["deletionTimestamp"] = times.render(clock("12:01:05"))
    assert reasons(cluster.settle(clock("12:01:10"))) == ["MissingJob"]
    assert reasons(cluster.settle(clock("12:02"))) == ["JobAlreadyActive"]
    cluster.remove(minute("12:01"))
    assert reasons(cluster.settle(clock("12:02:10"))) == ["SuccessfulCreate"]


def test_6_one_that_is_being_deleted_tidies_up_and_starts_nothing():
    cluster = running(successfulJobsHistoryLimit=0)
    cluster.leave()
    cluster.end(minute("12:01"), at=clock("12:01:30"))
    assert reasons(cluster.settle(clock("12:05"))) == ["SawCompletedJob", "SuccessfulDelete"]
    assert (cluster.active(), cluster.made, cluster.back) == ([], [minute("12:01")], None)


@cases(
    ("7 an unknown zone", {"timeZone": "Mars/Olympus"}, "UnknownTimeZone"),
    ("7 a zone in the wrong case", {"timeZone": "america/new_york"}, "UnknownTimeZone"),
    ("7 Local", {"timeZone": "Local"}, "UnknownTimeZone"),
    ("7 before 8, suspension", {"timeZone": "Mars/Olympus", "suspend": True}, "UnknownTimeZone"),
    ("8 before 9, suspension is silent", {"schedule": "nonsense", "suspend": True}, None),
    ("9 no schedule at all", {"schedule": "often"}, "UnparseableSchedule"),
    ("9 six fields", {"schedule": "0 * * * * *"}, "UnparseableSchedule"),
    ("9 a minute that is none", {"schedule": "60 * * * *"}, "UnparseableSchedule"),
    ("10 30 February", {"schedule": "0 0 30 2 *"}, "InvalidSchedule"),
    ("10 an empty set", {"schedule": ", * * * *"}, "InvalidSchedule"),
)
def test_what_keeps_everything_from_starting(spec, reason):
    """A schedule that an edit made unreadable has a reason of its own at first, as in Kubernetes."""
    cluster = running()
    cluster.edit(**spec)
    edited = "UnParseableCronJobSchedule" if reason == "UnparseableSchedule" else reason
    assert reasons(cluster.settle(clock("12:05"))) == ([edited] if edited else [])
    assert reasons(cluster.settle(clock("12:06"))) == ([reason] if reason else [])
    assert (cluster.made, cluster.back) == ([minute("12:01")], None)


@pytest.mark.parametrize("spec", [{"suspend": True}, {"timeZone": "Mars/Olympus"}, {"schedule": "often"}], ids=str)
def test_with_any_problem_jobs_are_tidied_and_cleaned_up(spec):
    cluster = running(successfulJobsHistoryLimit=0)
    cluster.edit(**spec)
    cluster.end(minute("12:01"), at=clock("12:01:30"))
    events = reasons(cluster.settle(clock("12:01:30")))
    assert {"SawCompletedJob", "SuccessfulDelete"} <= set(events)
    assert (cluster.jobs, cluster.active()) == ({}, [])


TEXTS = {
    "UnknownTimeZone": ({"timeZone": "Mars/Olympus"}, 'invalid timeZone: "Mars/Olympus": unknown time zone'),
    "UnparseableSchedule": ({"schedule": "often"}, 'unparseable schedule: "often" : '),
    "InvalidSchedule": ({"schedule": "0 0 30 2 *"}, "invalid schedule: 0 0 30 2 * : "),
    "UnsupportedSchedule": (
        {"schedule": "TZ=UTC * * * * *"},
        'CRON_TZ or TZ used in schedule "TZ=UTC * * * * *" is not officially supported, see '
        "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
    ),
}


@pytest.mark.parametrize(("reason", "case"), TEXTS.items(), ids=TEXTS)
def test_events_have_kubernetes_texts(reason, case):
    spec, text = case
    (told,) = [each for each in new_cluster(**spec).settle(clock("12:01")) if each.reason == reason]
    assert told.type == "Warning"
    assert told.message.startswith(text)


def test_events_about_jobs_have_kubernetes_texts():
    cluster = running(concurrencyPolicy="Replace")
    cluster.put({"metadata": {"name": "by-hand", "namespace": "default"}, "spec": {}}, clock("12:01:30"))
    cluster.refusing = {Delete}
    told = {each.reason: each.message for each in cluster.settle(clock("12:02"))}
    assert told["UnexpectedJob"] == "Saw a job that the controller did not create or forgot: by-hand"
    assert told["FailedDelete"] == "Deleted job: {error}"
    cluster.edit(schedule="often")
    (edited,) = cluster.settle(clock("12:03"))
    assert edited.message == "unparseable schedule for cronjob: often"


@cases(
    ("a negative limit", {"failedJobsHistoryLimit": -1}),
    ("a negative deadline", {"startingDeadlineSeconds": -1}),
    ("an unknown policy", {"concurrencyPolicy": "Sometimes"}),
    ("a number as text", {"startingDeadlineSeconds": "10"}),
    ("no template", {"jobTemplate": {"spec": {}}}),
    ("no schedule", {"schedule": None}),
)
def test_a_wrong_manifest_is_named_and_does_nothing_else(spec):
    plan = decide(new_cluster(**spec).snapshot(), clock("12:05"))
    (record,) = plan.steps
    assert (record.type, record.reason) == ("Warning", "InvalidSpec")
    assert record.message.startswith("CronJob default/report: spec")


def test_11_with_no_slot_it_comes_back_at_the_next():
    cluster = new_cluster("0 3 * * *")
    cluster.settle(NOON)
    assert cluster.decide(NOON).steps == (ComeBack(clock("03:00", 2)),)


def test_12_a_run_that_is_lost_to_the_deadline_is_reported_once():
    cluster = running(startingDeadlineSeconds=10)
    events = cluster.settle(clock("12:05:30"))
    assert events == [
        RecordEvent(
            "Warning",
            "MissSchedule",
            "Missed 4 scheduled time(s) to start a job, "
            "between Sun, 01 Mar 2026 12:01:00 +0000 and Sun, 01 Mar 2026 12:05:00 +0000",
        )
    ]
    assert cluster.settle(clock("12:05:31")) == []
    assert cluster.status["lastScheduleTime"] == times.render(clock("12:01")), "no run was started since"
    assert cluster.annotations["penstock.dev/last-missed-time"] == times.render(clock("12:05"))
    cluster.settle(clock("12:06"))
    assert cluster.made == [minute("12:01"), minute("12:06")]


def test_12_one_lost_run_is_named():
    cluster = new_cluster("0 * * * *", startingDeadlineSeconds=10)
    (events,) = cluster.settle(clock("13:10"))
    assert events.message == "Missed scheduled time to start a job: Sun, 01 Mar 2026 13:00:00 +0000"


def test_13_a_slot_whose_job_is_there_or_was_is_handled():
    """Killed between the Job and the status: neither is the Job made again, nor the slot forgotten."""
    for vanished in (False, True):
        cluster = new_cluster()
        cluster.settle(NOON)
        cluster.step(clock("12:01"), steps=1)
        assert (cluster.made, cluster.status) == ([minute("12:01")], {})
        if vanished:
            cluster.remove(minute("12:01"))
        cluster.settle(clock("12:01:01"))
        assert cluster.status["lastScheduleTime"] == times.render(clock("12:01"))
        assert cluster.made == [minute("12:01")]
        assert cluster.active() == ([] if vanished else [minute("12:01")])


@cases(("suspended", {"suspend": True}), ("edited", {"schedule": "30 * * * *"}))
def test_13_a_slot_that_only_its_job_tells_of_is_handled_although_the_spec_is(spec):
    cluster = new_cluster()
    cluster.settle(NOON)
    cluster.step(clock("12:01"), steps=1)
    cluster.edit(**spec)
    cluster.settle(clock("12:01:01"))
    assert cluster.status["lastScheduleTime"] == times.render(clock("12:01"))
    assert cluster.made == [minute("12:01")]


def test_14_forbid_waits_and_says_so_and_starts_late():
    cluster = running(concurrencyPolicy="Forbid")
    waits = "Not starting job because prior execution is running and concurrency policy is Forbid"
    assert cluster.settle(clock("12:02")) == [RecordEvent("Normal", "JobAlreadyActive", waits)]
    assert cluster.status["lastScheduleTime"] == times.render(clock("12:01")), "it does not move"
    assert cluster.back == clock("12:03")
    cluster.end(minute("12:01"), at=clock("12:02:30"))
    assert reasons(cluster.settle(clock("12:02:30"))) == ["SuccessfulCreate", "SawCompletedJob"]
    assert cluster.made == [minute("12:01"), minute("12:02")]


def test_an_end_and_a_start_that_fall_together_are_one_write_of_the_status():
    cluster = running(concurrencyPolicy="Forbid", successfulJobsHistoryLimit=0)
    cluster.settle(clock("12:02"))
    cluster.end(minute("12:01"), at=clock("12:02:30"))
    plan = cluster.step(clock("12:02:30"))
    effects = [type(step) for step in plan.steps if isinstance(step, Together | PatchStatus)]
    assert effects == [Together, PatchStatus, Together], "until the status records its end, the Job stays"
    assert cluster.status == {
        "active": [reference(JOB, cluster.jobs[minute("12:02")])],
        "lastScheduleTime": times.render(clock("12:02")),
        "lastSuccessfulTime": times.render(clock("12:02:30")),
    }
    assert list(cluster.jobs) == [minute("12:02")]


def test_a_run_that_ended_before_its_start_was_recorded_is_one_write_of_the_status():
    cluster = new_cluster()
    cluster.settle(NOON)
    cluster.step(clock("12:01"), steps=1)
    assert (cluster.made, cluster.status) == ([minute("12:01")], {})
    cluster.end(minute("12:01"), at=clock("12:01:01"))
    plan = cluster.step(clock("12:01:01"))
    assert sum(isinstance(step, PatchStatus) for step in plan.steps) == 1
    assert cluster.status == {
        "lastScheduleTime": times.render(clock("12:01")),
        "lastSuccessfulTime": times.render(clock("12:01:01")),
    }


def test_a_refused_creation_keeps_no_end_from_being_recorded():
    cluster = running(concurrencyPolicy="Forbid", successfulJobsHistoryLimit=0)
    cluster.settle(clock("12:02"))
    cluster.end(minute("12:01"), at=clock("12:02:30"))
    cluster.refusing = {Create}
    assert reasons(cluster.settle(clock("12:02:30"))) == ["FailedCreate"]
    assert cluster.active() == [minute("12:01")]
    cluster.failures = 1
    assert reasons(cluster.settle(clock("12:02:31"))) == ["SawCompletedJob", "SuccessfulDelete", "FailedCreate"]
    assert (cluster.active(), cluster.jobs) == ([], {})
    assert cluster.status["lastSuccessfulTime"] == times.render(clock("12:02:30"))
    assert reasons(cluster.settle(clock("12:02:32"))) == ["FailedCreate"], "the end is told once"


def test_14_forbid_starts_the_newest_and_reports_those_that_it_passed_over():
    cluster = running(concurrencyPolicy="Forbid")
    for time in ("12:02", "12:03", "12:04"):
        cluster.settle(clock(time))
    cluster.end(minute("12:01"), at=clock("12:04:30"))
    events = cluster.settle(clock("12:04:30"))
    assert cluster.made == [minute("12:01"), minute("12:04")]
    assert reasons(events) == ["SuccessfulCreate", "MissSchedule", "SawCompletedJob"]
    assert events[1].message.startswith("Missed 2 scheduled time(s)")


def test_14_forbid_with_a_deadline_gives_up_in_time():
    cluster = running(concurrencyPolicy="Forbid", startingDeadlineSeconds=20)
    cluster.settle(clock("12:02"))
    assert cluster.back == clock("12:02:21")
    assert reasons(cluster.settle(clock("12:02:21"))) == ["MissSchedule"]
    cluster.end(minute("12:01"), at=clock("12:02:30"))
    cluster.settle(clock("12:02:30"))
    assert cluster.made == [minute("12:01")]


@for_each("FailureTarget", "SuccessCriteriaMet", "Suspended")
def test_14_a_job_that_is_about_to_end_has_not(condition):
    cluster = running(concurrencyPolicy="Forbid")
    cluster.jobs[minute("12:01")]["status"]["conditions"] = [{"type": condition, "status": "True"}]
    assert reasons(cluster.settle(clock("12:02"))) == ["JobAlreadyActive"]


def test_15_replace_deletes_what_is_running_and_starts():
    cluster = running(concurrencyPolicy="Replace")
    plan = cluster.decide(clock("12:02"))
    assert [type(step) for step in plan.steps] == [Together, Together, CountMetric, PatchStatus, ComeBack]
    assert plan.steps[0].steps == (Delete(Ref(JOB, "default", minute("12:01")), f"uid-{minute('12:01')}"),)
    assert reasons(cluster.settle(clock("12:02"))) == ["SuccessfulDelete", "SuccessfulCreate"]
    assert (list(cluster.jobs), cluster.active()) == ([minute("12:02")], [minute("12:02")])


def test_15_replace_starts_nothing_beside_what_it_cannot_delete():
    cluster = running(concurrencyPolicy="Replace")
    cluster.refusing = {Delete}
    assert reasons(cluster.settle(clock("12:02"))) == ["FailedDelete"]
    assert list(cluster.jobs) == cluster.active() == [minute("12:01")], "it is still at work"
    cluster.refusing = set()
    assert reasons(cluster.settle(clock("12:02:05"))) == ["SuccessfulDelete", "SuccessfulCreate"]
    assert list(cluster.jobs) == [minute("12:02")]


def test_15_replace_does_not_wait_for_a_job_that_is_already_going():
    cluster = running(concurrencyPolicy="Replace")
    cluster.jobs[minute("12:01")]["metadata"]["deletionTimestamp"] = times.render(clock("12:01:30"))
    assert "SuccessfulDelete" not in reasons(cluster.settle(clock("12:02")))
    assert cluster.active() == [minute("12:02")]


def test_16_a_create_that_is_refused_is_reported_and_tried_again():
    cluster = new_cluster()
    cluster.refusing = {Create}
    assert reasons(cluster.settle(clock("12:01"))) == ["FailedCreate"]
    assert cluster.status == {}
    cluster.refusing = set()
    cluster.settle(clock("12:01:05"))
    assert cluster.made == [minute("12:01")]


def test_16_an_unrelated_job_of_the_name_stalls_nothing_and_loops_nowhere():
    cluster = new_cluster()
    cluster.foreign = {minute("12:01")}
    events = cluster.settle(clock("12:01"))
    assert [(each.type, each.reason) for each in events] == [("Warning", "FailedCreate")]
    assert minute("12:01") in events[0].message
    assert cluster.back == clock("12:02")
    cluster.settle(clock("12:02"))
    assert cluster.made == [minute("12:02")]


def test_17_what_a_start_writes():
    cluster = running()
    assert cluster.status == {
        "active": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "namespace": "default",
                "name": minute("12:01"),
                "uid": f"uid-{minute('12:01')}",
                "resourceVersion": cluster.jobs[minute("12:01")]["metadata"]["resourceVersion"],
            }
        ],
        "lastScheduleTime": "2026-03-01T12:01:00Z",
    }
    assert cluster.back == clock("12:02")
    skew = [step.value for step in new_cluster().decide(clock("12:01:02")).steps if isinstance(step, CountMetric)]
    assert skew == [2.0]


def test_allow_runs_beside_what_is_running():
    cluster = running()
    cluster.settle(clock("12:02"))
    assert cluster.active() == [minute("12:01"), minute("12:02")]


def test_the_order_in_which_jobs_were_listed_stays():
    cluster = running()
    cluster.settle(clock("12:02"))
    listed = cluster.status["active"][::-1]
    cluster.body = {**cluster.body, "status": {**cluster.status, "active": listed}}
    assert not [step for step in cluster.step(clock("12:02:30")).steps if isinstance(step, PatchStatus)]
    cluster.settle(clock("12:03"))
    assert cluster.active() == [minute("12:02"), minute("12:01"), minute("12:03")]
    cluster.end(minute("12:02"), at=clock("12:03:01"))
    cluster.settle(clock("12:03:01"))
    assert cluster.active() == [minute("12:01"), minute("12:03")]


# --- acceptance scenarios of Kubernetes' own suite


def test_short_runs_cause_neither_missing_nor_unexpected_jobs():
    cluster = new_cluster()
    cluster.settle(NOON)
    for number in range(1, 20):
        cluster.settle(after(60 * number))
        cluster.end(cluster.made[-1], at=after(60 * number + 3))
        cluster.settle(after(60 * number + 3))
    assert set(reasons(cluster.events)) == {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"}
    assert len(cluster.made) == 19
    assert len(cluster.jobs) == 3


@for_each("Allow", "Forbid", "Replace")
def test_a_plan_that_is_cut_short_anywhere_makes_every_job_once(policy):
    """After any last step the next decision continues, and active is right."""
    for steps in range(8):
        cluster = running(concurrencyPolicy=policy)
        cluster.end(minute("12:01"), at=clock("12:01:30"))
        cluster.ask("now")
        cluster.step(clock("12:02"), steps=steps)
        cluster.settle(clock("12:02:01"))
        for name in list(cluster.active()):
            cluster.end(name, at=clock("12:02:02"))
            cluster.settle(clock("12:02:02"))
        assert sorted(cluster.made) == sorted({minute("12:01"), minute("12:02"), "report-now"})


def test_a_plan_writes_nothing_but_its_own():
    plan = running().decide(clock("12:02"))
    assert isinstance(plan, Plan)
    assert not [step for step in plan.steps if isinstance(step, Patch)]
