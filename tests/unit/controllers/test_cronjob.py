"""The decision about a CronJob, step by step as Kubernetes' controller takes it, and where ours is exact instead."""

from datetime import timedelta

import pytest

from tests.unit.controllers.cronjobs import NOON, UID, World, after, clock, cron_job, minute, reasons
from workers.api import times
from workers.api.kinds import CRON_JOB, JOB, Ref
from workers.controllers.cronjob import decide
from workers.plan import NOTHING, ComeBack, Create, Delete, Measure, Patch, PatchStatus, Plan, Record, Together
from workers.snapshot import Snapshot


def world(schedule="* * * * *", *, status=None, annotations=None, **spec):
    body = cron_job(schedule, **spec)
    if status is not None:
        body["status"] = status
    if annotations:
        body["metadata"]["annotations"] = annotations
    return World(body)


def running(**spec):
    """A world in which the run of 12:01 is at work."""
    here = world(**spec)
    here.settle(clock("12:01"))
    assert here.active() == [minute("12:01")]
    return here


# --- one reconcile, step by step (the numbers are those of the reference)


def test_1_what_is_gone_is_left_alone():
    assert decide(Snapshot(Ref(CRON_JOB, "default", "report"), None), NOON) == NOTHING


def test_2_children_whose_slot_only_their_name_tells_are_runs_too():
    """Kubernetes before 1.28 put no annotation on its Jobs, and before 1.21 named them by the second."""
    for name in (minute("12:01"), f"report-{int(clock('12:01').timestamp())}"):
        here = world(concurrencyPolicy="Forbid", status={"lastScheduleTime": times.render(clock("12:01"))})
        here.put({"metadata": {"name": name, "namespace": "default"}, "spec": {}}, clock("12:01"))
        assert reasons(here.settle(clock("12:02"))) == ["JobAlreadyActive"]
        assert here.active() == [name]


def test_3_the_status_is_written_once_and_only_if_it_changed():
    here = running()
    here.jobs[minute("12:01")]["metadata"]["resourceVersion"] = "99"
    assert here.decide(clock("12:01:10")).steps == (ComeBack(clock("12:02")),)


def test_4_a_finished_job_leaves_active_and_is_told_of_once():
    here = running()
    here.end(minute("12:01"), at=clock("12:01:20"))
    told = here.settle(clock("12:01:20"))
    assert told == [Record("Normal", "SawCompletedJob", f"Saw completed job: {minute('12:01')}, condition: Complete")]
    assert here.active() == []
    assert here.settle(clock("12:01:21")) == []


def test_4_a_failed_job_says_so():
    here = running()
    here.end(minute("12:01"), "Failed", clock("12:01:20"))
    (told,) = here.settle(clock("12:01:20"))
    assert told.message.endswith("condition: Failed")
    assert "lastSuccessfulTime" not in here.status


def test_4_the_last_success_is_the_newest_completion_of_any_child():
    here = running()
    here.settle(clock("12:02"))
    here.end(minute("12:02"), at=clock("12:02:30"))
    here.settle(clock("12:02:31"))
    here.end(minute("12:01"), at=clock("12:02:10"))
    here.settle(clock("12:02:32"))
    assert here.status["lastSuccessfulTime"] == times.render(clock("12:02:30"))


def test_4_a_job_that_succeeded_before_it_was_seen_at_work_is_told_of():
    here = world()
    here.step(clock("12:01"))
    here.end(minute("12:01"), at=clock("12:01:01"))
    assert reasons(here.settle(clock("12:01:01"))) == ["SawCompletedJob"]


def test_4_a_job_that_somebody_else_made_is_unexpected_once_and_not_active():
    here = running(concurrencyPolicy="Forbid")
    here.end(minute("12:01"), at=clock("12:01:20"))
    here.put({"metadata": {"name": "by-hand", "namespace": "default"}, "spec": {}}, clock("12:01:30"))
    assert "UnexpectedJob" in reasons(here.settle(clock("12:01:30")))
    assert here.settle(clock("12:01:40")) == []
    assert here.active() == []
    here.settle(clock("12:02"))
    assert here.active() == [minute("12:02")], "no policy looks at it"
    here.end("by-hand", at=clock("12:02:10"))
    here.settle(clock("12:02:10"))
    assert here.status["lastSuccessfulTime"] == times.render(clock("12:02:10"))


def test_5_an_active_job_that_vanished_is_missing_once():
    here = running(concurrencyPolicy="Forbid")
    here.remove(minute("12:01"))
    assert here.settle(clock("12:01:10")) == [
        Record("Normal", "MissingJob", f"Active job went missing: {minute('12:01')}")
    ]
    assert here.settle(clock("12:01:11")) == []
    assert here.made == [minute("12:01")], "its slot stays handled"
    here.settle(clock("12:02"))
    assert here.active() == [minute("12:02")]


def test_5_a_job_that_is_being_deleted_is_missing_once_and_still_at_work():
    here = running(concurrencyPolicy="Forbid")
    here.jobs[minute("12:01")]["metadata"]["deletionTimestamp"] = times.render(clock("12:01:05"))
    assert reasons(here.settle(clock("12:01:10"))) == ["MissingJob"]
    assert reasons(here.settle(clock("12:02"))) == ["JobAlreadyActive"]
    here.remove(minute("12:01"))
    assert reasons(here.settle(clock("12:02:10"))) == ["SuccessfulCreate"]


def test_6_one_that_is_being_deleted_tidies_up_and_starts_nothing():
    here = running(successfulJobsHistoryLimit=0)
    here.leave()
    here.end(minute("12:01"), at=clock("12:01:30"))
    assert reasons(here.settle(clock("12:05"))) == ["SawCompletedJob", "SuccessfulDelete"]
    assert (here.active(), here.made, here.back) == ([], [minute("12:01")], None)


TROUBLES = {
    "7 an unknown zone": ({"timeZone": "Mars/Olympus"}, "UnknownTimeZone"),
    "7 a zone in the wrong case": ({"timeZone": "america/new_york"}, "UnknownTimeZone"),
    "7 Local": ({"timeZone": "Local"}, "UnknownTimeZone"),
    "7 before 8, suspension": ({"timeZone": "Mars/Olympus", "suspend": True}, "UnknownTimeZone"),
    "8 before 9, suspension is silent": ({"schedule": "nonsense", "suspend": True}, None),
    "9 no schedule at all": ({"schedule": "often"}, "UnparseableSchedule"),
    "9 six fields": ({"schedule": "0 * * * * *"}, "UnparseableSchedule"),
    "9 a minute that is none": ({"schedule": "60 * * * *"}, "UnparseableSchedule"),
    "10 30 February": ({"schedule": "0 0 30 2 *"}, "InvalidSchedule"),
    "10 an empty set": ({"schedule": ", * * * *"}, "InvalidSchedule"),
}


@pytest.mark.parametrize(("spec", "reason"), TROUBLES.values(), ids=TROUBLES)
def test_what_keeps_everything_from_starting(spec, reason):
    here = running()
    here.edit(**spec)
    assert reasons(here.settle(clock("12:05"))) == ([reason] if reason else [])
    assert (here.made, here.back) == ([minute("12:01")], None)


@pytest.mark.parametrize("spec", [{"suspend": True}, {"timeZone": "Mars/Olympus"}, {"schedule": "often"}], ids=str)
def test_whatever_the_trouble_is_jobs_are_tidied_and_cleaned_up(spec):
    here = running(successfulJobsHistoryLimit=0)
    here.edit(**spec)
    here.end(minute("12:01"), at=clock("12:01:30"))
    told = reasons(here.settle(clock("12:01:30")))
    assert {"SawCompletedJob", "SuccessfulDelete"} <= set(told)
    assert (here.jobs, here.active()) == ({}, [])


MANIFESTS = {
    "a negative limit": {"failedJobsHistoryLimit": -1},
    "a negative deadline": {"startingDeadlineSeconds": -1},
    "an unknown policy": {"concurrencyPolicy": "Sometimes"},
    "a number as text": {"startingDeadlineSeconds": "10"},
    "no template": {"jobTemplate": {"spec": {}}},
    "no schedule": {"schedule": None},
}


@pytest.mark.parametrize("spec", MANIFESTS.values(), ids=MANIFESTS)
def test_a_wrong_manifest_is_named_and_does_nothing_else(spec):
    plan = decide(world(**spec).snapshot(), clock("12:05"))
    (record,) = plan.steps
    assert (record.type, record.reason) == ("Warning", "InvalidSpec")
    assert record.message.startswith("CronJob default/report: spec")


def test_11_with_no_slot_it_comes_back_at_the_next():
    assert world("0 3 * * *").decide(NOON).steps == (ComeBack(clock("03:00", 2)),)


def test_12_a_run_that_is_lost_to_the_deadline_is_told_of_once():
    here = running(startingDeadlineSeconds=10)
    told = here.settle(clock("12:05:30"))
    assert told == [
        Record(
            "Warning",
            "MissSchedule",
            "Missed 4 scheduled time(s) to start a job, "
            "between Sun, 01 Mar 2026 12:01:00 +0000 and Sun, 01 Mar 2026 12:05:00 +0000",
        )
    ]
    assert here.settle(clock("12:05:31")) == []
    assert here.status["lastScheduleTime"] == times.render(clock("12:01")), "no run was started since"
    assert here.annotations["penstock.dev/last-missed-time"] == times.render(clock("12:05"))
    here.settle(clock("12:06"))
    assert here.made == [minute("12:01"), minute("12:06")]


def test_12_one_lost_run_is_named():
    here = world("0 * * * *", startingDeadlineSeconds=10)
    (told,) = here.settle(clock("13:10"))
    assert told.message == "Missed scheduled time to start a job: Sun, 01 Mar 2026 13:00:00 +0000"


def test_13_a_slot_whose_job_is_there_or_was_is_handled():
    """Killed between the Job and the status: neither is the Job made again, nor the slot forgotten."""
    for vanished in (False, True):
        here = world()
        here.step(clock("12:01"), steps=1)
        assert (here.made, here.status) == ([minute("12:01")], {})
        if vanished:
            here.remove(minute("12:01"))
        here.settle(clock("12:01:01"))
        assert here.status["lastScheduleTime"] == times.render(clock("12:01"))
        assert here.made == [minute("12:01")]
        assert here.active() == ([] if vanished else [minute("12:01")])


def test_14_forbid_waits_and_says_so_and_starts_late():
    here = running(concurrencyPolicy="Forbid")
    assert reasons(here.settle(clock("12:02"))) == ["JobAlreadyActive"]
    assert here.status["lastScheduleTime"] == times.render(clock("12:01")), "it does not move"
    assert here.back == clock("12:03")
    here.end(minute("12:01"), at=clock("12:02:30"))
    assert reasons(here.settle(clock("12:02:30"))) == ["SawCompletedJob", "SuccessfulCreate"]
    assert here.made == [minute("12:01"), minute("12:02")]


def test_14_forbid_starts_the_newest_and_tells_of_those_that_it_passed_over():
    here = running(concurrencyPolicy="Forbid")
    for time in ("12:02", "12:03", "12:04"):
        here.settle(clock(time))
    here.end(minute("12:01"), at=clock("12:04:30"))
    told = here.settle(clock("12:04:30"))
    assert here.made == [minute("12:01"), minute("12:04")]
    assert reasons(told) == ["SawCompletedJob", "SuccessfulCreate", "MissSchedule"]
    assert told[-1].message.startswith("Missed 2 scheduled time(s)")


def test_14_forbid_with_a_deadline_gives_up_in_time():
    here = running(concurrencyPolicy="Forbid", startingDeadlineSeconds=20)
    here.settle(clock("12:02"))
    assert here.back == clock("12:02:21")
    assert reasons(here.settle(clock("12:02:21"))) == ["MissSchedule"]
    here.end(minute("12:01"), at=clock("12:02:30"))
    here.settle(clock("12:02:30"))
    assert here.made == [minute("12:01")]


@pytest.mark.parametrize("condition", ["FailureTarget", "SuccessCriteriaMet", "Suspended"])
def test_14_a_job_that_is_about_to_end_has_not(condition):
    here = running(concurrencyPolicy="Forbid")
    here.jobs[minute("12:01")]["status"]["conditions"] = [{"type": condition, "status": "True"}]
    assert reasons(here.settle(clock("12:02"))) == ["JobAlreadyActive"]


def test_15_replace_deletes_what_is_at_work_and_starts():
    here = running(concurrencyPolicy="Replace")
    plan = here.decide(clock("12:02"))
    assert [type(step) for step in plan.steps] == [
        PatchStatus, Together, Together, Measure, PatchStatus, ComeBack,
    ]  # fmt: skip
    assert plan.steps[1].steps == (Delete(Ref(JOB, "default", minute("12:01")), f"uid-{minute('12:01')}"),)
    assert reasons(here.settle(clock("12:02"))) == ["SuccessfulDelete", "SuccessfulCreate"]
    assert (list(here.jobs), here.active()) == ([minute("12:02")], [minute("12:02")])


def test_15_replace_starts_nothing_beside_what_it_cannot_delete():
    here = running(concurrencyPolicy="Replace")
    here.refusing = {Delete}
    assert reasons(here.settle(clock("12:02"))) == ["FailedDelete"]
    assert list(here.jobs) == [minute("12:01")]
    here.refusing = set()
    assert reasons(here.settle(clock("12:02:05"))) == ["SuccessfulDelete", "SuccessfulCreate"]
    assert list(here.jobs) == [minute("12:02")]


def test_15_replace_does_not_wait_for_a_job_that_is_already_going():
    here = running(concurrencyPolicy="Replace")
    here.jobs[minute("12:01")]["metadata"]["deletionTimestamp"] = times.render(clock("12:01:30"))
    assert "SuccessfulDelete" not in reasons(here.settle(clock("12:02")))
    assert here.active() == [minute("12:02")]


def test_16_a_create_that_is_refused_is_told_of_and_tried_again():
    here = world()
    here.refusing = {Create}
    assert reasons(here.settle(clock("12:01"))) == ["FailedCreate"]
    assert here.status == {}
    here.refusing = set()
    here.settle(clock("12:01:05"))
    assert here.made == [minute("12:01")]


def test_16_somebody_elses_job_of_the_name_stalls_nothing_and_loops_nowhere():
    here = world()
    here.foreign = {minute("12:01")}
    told = here.settle(clock("12:01"))
    assert [(each.type, each.reason) for each in told] == [("Warning", "FailedCreate")]
    assert minute("12:01") in told[0].message
    assert here.back == clock("12:02")
    here.settle(clock("12:02"))
    assert here.made == [minute("12:02")]


def test_17_what_a_start_writes():
    here = running()
    assert here.status == {
        "active": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "namespace": "default",
                "name": minute("12:01"),
                "uid": f"uid-{minute('12:01')}",
                "resourceVersion": here.jobs[minute("12:01")]["metadata"]["resourceVersion"],
            }
        ],
        "lastScheduleTime": "2026-03-01T12:01:00Z",
    }
    assert here.back == clock("12:02")
    skew = [step.value for step in world().decide(clock("12:01:02")).steps if isinstance(step, Measure)]
    assert skew == [2.0]


def test_allow_runs_beside_what_is_at_work():
    here = running()
    here.settle(clock("12:02"))
    assert here.active() == [minute("12:01"), minute("12:02")]


# --- unmet slots: where Kubernetes estimates

LAST = {
    "uneven hours": ("30 10,11,12 * * 1-5", clock("10:30", 5), clock("16:30", 6), clock("12:30", 6)),
    "one hour of minutes": ("* 0 * * *", clock("00:10"), clock("10:00"), clock("00:59")),
    "every minute of years": ("* * * * *", clock("12:00"), clock("12:00:30") + timedelta(days=900), None),
    "a month": ("0 0 1 * *", clock("00:00"), clock("12:00", 20), None),
    "exactly now": ("0 13 * * *", clock("12:30"), clock("13:00"), clock("13:00")),
    "a moment before": ("0 13 * * *", clock("12:30"), clock("12:59:59"), None),
}


@pytest.mark.parametrize(("schedule", "last", "now", "slot"), LAST.values(), ids=LAST)
def test_the_newest_slot_that_was_not_met_runs(schedule, last, now, slot):
    here = world(schedule, status={"lastScheduleTime": times.render(last)}, created=clock("00:00"))
    here.settle(now)
    expected = slot or (now.replace(second=0) if schedule == "* * * * *" else None)
    assert here.made == ([f"report-{int(expected.timestamp()) // 60}"] if expected else [])


DEADLINES = {
    "in time": (10, clock("12:01:05"), True),
    "exactly": (10, clock("12:01:10"), True),
    "within the second": (10, after(0.9, clock("12:01:10")), True),
    "too late": (10, clock("12:01:11"), False),
    "none at all, at once": (0, after(0.3, clock("12:01")), True),
    "none at all, late": (0, clock("12:01:01"), False),
    "far more than there was": (10**12, clock("12:01:40"), True),
}


@pytest.mark.parametrize(("deadline", "now", "runs"), DEADLINES.values(), ids=DEADLINES)
def test_a_run_may_be_as_late_as_its_deadline(deadline, now, runs):
    here = world(startingDeadlineSeconds=deadline)
    told = reasons(here.settle(now))
    assert (here.made, told) == (([minute("12:01")], ["SuccessfulCreate"]) if runs else ([], ["MissSchedule"]))


@pytest.mark.parametrize(("passed", "warned"), [(100, False), (101, True), (5000, True)])
def test_more_than_a_hundred_missed_slots_are_warned_of_and_block_nothing(passed, warned):
    here = world()
    told = here.settle(after(60 * passed))
    assert len(here.made) == 1
    assert ("TooManyMissedTimes" in reasons(told)) is warned
    (missed,) = [each.message for each in told if each.reason == "MissSchedule"]
    assert missed.startswith(f"Missed {passed - 1 if passed <= 101 else 'at least 100'} scheduled time(s)")


def test_an_interval_keeps_its_anchor_whatever_is_missed():
    here = world("@every 1h", startingDeadlineSeconds=10)
    here.settle(clock("13:00"))
    here.settle(clock("16:30"))
    here.settle(clock("17:00"))
    assert here.made == [minute("13:00"), minute("17:00")]


def test_an_interval_below_a_minute_runs_once_a_minute_and_loops_nowhere():
    here = world("@every 30s")
    here.settle(NOON)
    here.run(clock("12:03:45"))
    assert here.made == [minute("12:00"), minute("12:01"), minute("12:02"), minute("12:03")]


def test_a_zone_in_the_text_is_warned_of_with_every_run_and_followed():
    here = world("CRON_TZ=Asia/Tokyo 0 22 * * *", timeZone="Europe/Berlin")
    assert "UnsupportedSchedule" in reasons(here.settle(clock("13:00")))
    assert here.made == [minute("13:00")]


# --- time goes wrong

HOUR = timedelta(hours=1)


def test_a_clock_that_jumps_back_runs_nothing_twice():
    here = world("*/30 * * * *")
    here.settle(clock("12:30"))
    here.settle(clock("13:00"))
    assert "ScheduleTimeInFuture" in reasons(here.settle(clock("12:01")))
    assert here.back == clock("13:30")
    for time in ("12:30", "13:00", "13:30"):
        here.settle(clock(time))
    assert here.made == [minute("12:30"), minute("13:00"), minute("13:30")]


def test_a_clock_that_jumps_forward_loses_no_run():
    here = world("0 13 * * *")
    here.settle(clock("12:30"))
    here.settle(clock("13:30"))
    here.settle(clock("12:40"))
    here.settle(clock("13:00"))
    assert here.made == [minute("13:00")]


def test_a_job_of_a_future_slot_is_not_made_again():
    """Killed before the status was written, then the clock was set back."""
    here = world("0 * * * *")
    here.step(clock("13:00"), steps=1)
    here.settle(clock("12:10"))
    here.settle(clock("13:00"))
    assert (here.made, here.status["lastScheduleTime"]) == ([minute("13:00")], times.render(clock("13:00")))


FUTURES = {
    "minutes ahead": (clock("12:30"), clock("12:30"), "nothing is due until then"),
    "hours ahead": (clock("20:00"), clock("20:00"), "nothing is due until then"),
    "years ahead": (clock("12:00") + 900 * 24 * HOUR, clock("12:10"), "set back to now"),
}


@pytest.mark.parametrize(("last", "resumes", "words"), FUTURES.values(), ids=FUTURES)
def test_a_last_schedule_time_in_the_future(last, resumes, words):
    here = world(status={"lastScheduleTime": times.render(last)})
    (told,) = here.settle(clock("12:10"))
    assert (told.type, told.reason) == ("Warning", "ScheduleTimeInFuture")
    assert words in told.message
    assert here.back == resumes + timedelta(minutes=1)
    assert here.made == []
    here.settle(here.back)
    assert len(here.made) == 1


def test_clocks_that_differ_a_little_are_not_worth_a_word():
    here = running()
    assert here.settle(after(-5, clock("12:01"))) == []


@pytest.mark.parametrize("text", ["yesterday", "", 7, None])
def test_a_time_that_somebody_spoiled_counts_as_none(text):
    here = world(status={"lastScheduleTime": text}, annotations={"penstock.dev/last-missed-time": "soon"})
    here.settle(clock("12:01"))
    assert here.made == [minute("12:01")]


# --- edits

EDITS = {
    "a new schedule makes up its newest slot": ({"schedule": "0 9 * * *"}, {}, [minute("09:00", 2)]),
    "unless the deadline prevents": ({"schedule": "0 9 * * *"}, {"startingDeadlineSeconds": 600}, []),
    "a new zone": ({"timeZone": "Asia/Tokyo"}, {}, [minute("03:00", 2)]),
}


@pytest.mark.parametrize(("edit", "spec", "made"), EDITS.values(), ids=EDITS)
def test_an_edit_counts_from_the_last_run(edit, spec, made):
    here = world("0 12 * * *", status={"lastScheduleTime": times.render(NOON)}, **spec)
    here.settle(clock("10:00", 2))
    assert here.back == clock("12:00", 2)
    here.edit(**edit)
    here.settle(clock("10:00", 2))
    assert here.made == made
    assert here.back is not None
    assert here.back != clock("12:00", 2)


@pytest.mark.parametrize(("deadline", "made"), [(None, [minute("12:10")]), (5, [])], ids=["", "with a deadline"])
def test_resuming_makes_up_the_newest_slot(deadline, made):
    here = world(suspend=True, **({"startingDeadlineSeconds": deadline} if deadline else {}))
    here.settle(clock("12:05"))
    assert here.made == []
    here.edit(suspend=False)
    here.settle(clock("12:10:30"))
    assert here.made == made


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
        Record("Normal", "SuccessfulDelete", f"Deleted job {minute('12:01')}"),
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


# --- acceptance scenarios of Kubernetes' own suite


def test_a_job_deleted_by_hand_under_forbid_leaves_active():
    here = running(concurrencyPolicy="Forbid")
    here.remove(minute("12:01"))
    here.settle(clock("12:01:30"))
    assert here.active() == []


def test_one_made_long_ago_still_runs():
    here = world(
        status={"lastScheduleTime": times.render(NOON - timedelta(days=99))}, created=NOON - timedelta(days=99)
    )
    here.settle(clock("12:00:30"))
    assert here.made == [minute("12:00")]


def test_short_runs_cause_neither_missing_nor_unexpected_jobs():
    here = world()
    here.settle(NOON)
    for number in range(1, 20):
        here.settle(after(60 * number))
        here.end(here.made[-1], at=after(60 * number + 3))
        here.settle(after(60 * number + 3))
    assert set(reasons(here.told)) == {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"}
    assert len(here.made) == 19
    assert len(here.jobs) == 3


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
def test_a_plan_that_is_cut_short_anywhere_makes_every_job_once(policy):
    """Whatever step is the last, the next decision goes on, and active tells the truth."""
    for steps in range(8):
        here = running(concurrencyPolicy=policy)
        here.end(minute("12:01"), at=clock("12:01:30"))
        here.ask("now")
        here.step(clock("12:02"), steps=steps)
        here.settle(clock("12:02:01"))
        for name in list(here.active()):
            here.end(name, at=clock("12:02:02"))
            here.settle(clock("12:02:02"))
        assert sorted(here.made) == sorted({minute("12:01"), minute("12:02"), "report-now"})


def test_a_plan_writes_nothing_but_its_own():
    plan = running().decide(clock("12:02"))
    assert isinstance(plan, Plan)
    assert not [step for step in plan.steps if isinstance(step, Patch)]
