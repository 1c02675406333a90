"""What becomes of a ScheduledJob's runs: retries, limits, outcomes, runs asked for, and conditions."""

from dataclasses import replace

import pytest

from tests.unit.controllers.batch.cronjob.cronjobs import (
    NOON,
    after,
    clock,
    minute,
    outcomes,
    reasons,
    scheduled_job,
    second,
)
from tests.unit.controllers.batch.cronjob.cronjobs import running_scheduled_job as running
from tests.unit.controllers.batch.cronjob.cronjobs import scheduled_job_world as world
from workers.api import times
from workers.controllers.batch.cronjob import decide
from workers.reconcile.plan import Create, PatchStatus

#: The Jobs of the first five minutes.
SLOTS = [second(f"12:0{number}") for number in range(1, 6)]


def at_work(here):
    return [(each["job"], each["outcome"]) for each in here.status.get("runs", ())]


# --- retries


def failing(here, name, at):
    here.end(name, "Failed", at, reason="BackoffLimitExceeded", message="no luck")
    return here.settle(at)


def test_a_run_that_failed_is_tried_again_with_a_growing_wait():
    here = running("1 12 * * *", retry={"limit": 3, "delaySeconds": 10, "maxDelaySeconds": 25})
    run = second("12:01")
    moment = clock("12:01")
    for number, wait in ((1, 10), (2, 20), (3, 25)):
        name = run if number == 1 else f"{run}-r{number}"
        failing(here, name, moment)
        assert at_work(here) == [(name, "Retrying")]
        assert here.status["runs"][0]["retryTime"] == times.render(after(wait, moment))
        assert here.back == after(wait, moment)
        moment = after(wait, moment)
        here.settle(moment)
        assert here.active() == [f"{run}-r{number + 1}"]
    failing(here, f"{run}-r4", moment)
    (outcome,) = here.status["outcomes"]
    assert (outcome["outcome"], outcome["attempts"], outcome["reason"]) == ("Failed", 4, "BackoffLimitExceeded")
    assert "runs" not in here.status


def test_a_retry_that_works_makes_the_run_a_success():
    here = running("1 12 * * *", retry={"limit": 3})
    failing(here, second("12:01"), clock("12:01:05"))
    here.settle(clock("12:01:15"))
    again = f"{second('12:01')}-r2"
    annotations = here.jobs[again]["metadata"]["annotations"]
    assert annotations["penstock.dev/attempt"] == "2"
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-03-01T12:01:00Z"
    here.end(again, at=clock("12:01:20"))
    here.settle(clock("12:01:20"))
    assert outcomes(here) == [(again, "Succeeded")]
    assert here.status["outcomes"][0]["startTime"] == times.render(clock("12:01"))


@pytest.mark.parametrize(
    ("policy", "made"),
    [
        ("Allow", [second("12:01"), second("12:02"), f"{second('12:01')}-r2"]),
        ("Forbid", [second("12:01"), f"{second('12:01')}-r2"]),
        ("Replace", [second("12:01"), second("12:02")]),
    ],
)
def test_between_two_attempts_a_run_is_at_work(policy, made):
    here = running(concurrencyPolicy=policy, retry={"limit": 3, "delaySeconds": 90})
    failing(here, second("12:01"), clock("12:01:10"))
    here.settle(clock("12:02"))
    here.settle(clock("12:02:40"))
    assert here.made == made
    if policy == "Replace":
        assert outcomes(here) == [(second("12:01"), "Replaced")]


def test_an_attempt_does_not_need_the_job_of_the_one_before():
    here = running("1 12 * * *", retry={"limit": 3})
    failing(here, second("12:01"), clock("12:01:05"))
    here.remove(second("12:01"))
    here.settle(clock("12:01:15"))
    assert here.active() == [f"{second('12:01')}-r2"]


def test_attempts_are_history_once_their_run_is_over():
    run = second("12:01")
    here = running("1 12 * * *", retry={"limit": 2, "delaySeconds": 5}, failedJobsHistoryLimit=0)
    failing(here, run, clock("12:01:05"))
    here.settle(clock("12:01:10"))
    failing(here, f"{run}-r2", clock("12:01:15"))
    assert sorted(here.jobs) == [run, f"{run}-r2"]
    here.settle(clock("12:01:25"))
    here.end(f"{run}-r3", at=clock("12:01:30"))
    here.settle(clock("12:01:30"))
    assert sorted(here.jobs) == [f"{run}-r3"]
    assert outcomes(here) == [(f"{run}-r3", "Succeeded")]


def test_a_run_whose_job_is_deleted_by_hand_is_not_tried_again():
    here = running("1 12 * * *", retry={"limit": 3})
    here.remove(second("12:01"))
    here.settle(clock("12:01:05"))
    assert outcomes(here) == [(second("12:01"), "Deleted")]
    assert here.made == [second("12:01")]


def test_no_attempt_starts_while_suspended():
    here = running("1 12 * * *", retry={"limit": 3})
    failing(here, second("12:01"), clock("12:01:05"))
    here.edit(suspend=True)
    here.settle(clock("12:01:30"))
    assert (here.made, here.back) == ([second("12:01")], None)
    here.edit(suspend=False)
    here.settle(clock("12:01:40"))
    assert here.active() == [f"{second('12:01')}-r2"]


def test_taking_retries_back_ends_what_waits():
    here = running("1 12 * * *", retry={"limit": 3}, failedJobsHistoryLimit=0)
    failing(here, second("12:01"), clock("12:01:05"))
    here.edit(retry=None)
    here.settle(clock("12:01:06"))
    assert outcomes(here) == [(second("12:01"), "Failed")]


def test_what_failed_long_ago_is_not_tried_again_when_retries_are_allowed():
    here = running("1 12 * * *", outcomesLimit=0)
    failing(here, second("12:01"), clock("12:01:05"))
    here.edit(retry={"limit": 3})
    here.settle(clock("12:30"))
    assert here.made == [second("12:01")]


def test_an_attempt_that_vanished_before_anybody_wrote_it_down_is_not_made_twice():
    here = running("1 12 * * *", retry={"limit": 3})
    failing(here, second("12:01"), clock("12:01:05"))
    here.step(clock("12:01:15"), steps=1)
    again = f"{second('12:01')}-r2"
    here.remove(again)
    here.settle(clock("12:01:16"))
    assert here.made.count(again) == 1
    assert outcomes(here) == [(again, "Deleted")]


def test_an_attempt_whose_name_is_taken_ends_the_run():
    here = running("1 12 * * *", retry={"limit": 3})
    here.foreign = {f"{second('12:01')}-r2"}
    failing(here, second("12:01"), clock("12:01:05"))
    assert reasons(here.settle(clock("12:01:15"))) == ["FailedCreate"]
    assert outcomes(here) == [(f"{second('12:01')}-r2", "Deleted")]


# --- time limit


def test_every_job_of_a_run_has_the_time_that_is_left():
    here = running("1 12 * * *", retry={"limit": 3}, runTimeLimitSeconds=100)
    assert here.jobs[second("12:01")]["spec"]["activeDeadlineSeconds"] == 100
    failing(here, second("12:01"), after(40, clock("12:01")))
    here.settle(after(50, clock("12:01")))
    assert here.jobs[f"{second('12:01')}-r2"]["spec"]["activeDeadlineSeconds"] == 50


@pytest.mark.parametrize(("own", "given"), [(7, 7), (700, 100)], ids=["less", "more"])
def test_a_template_may_say_less_and_not_more(own, given):
    template = scheduled_job()["spec"]["jobTemplate"]
    template = {**template, "spec": {**template["spec"], "activeDeadlineSeconds": own}}
    here = running(runTimeLimitSeconds=100, jobTemplate=template)
    assert here.jobs[second("12:01")]["spec"]["activeDeadlineSeconds"] == given


def test_a_job_that_its_limit_ended_has_timed_out_and_is_not_tried_again():
    here = running("1 12 * * *", retry={"limit": 3}, runTimeLimitSeconds=60)
    here.end(second("12:01"), "Failed", clock("12:02"), reason="DeadlineExceeded")
    here.settle(clock("12:02"))
    assert outcomes(here) == [(second("12:01"), "TimedOut")]
    assert here.made == [second("12:01")]


def test_a_job_that_the_limit_does_not_reach_is_deleted():
    """One that is suspended never starts, and its deadline with it."""
    here = running("1 12 * * *", runTimeLimitSeconds=60)
    assert here.back == after(90, clock("12:01"))
    assert here.settle(after(89, clock("12:01"))) == []
    told = here.settle(after(90, clock("12:01")))
    assert reasons(told) == ["SuccessfulDelete"]
    assert (here.jobs, outcomes(here)) == ({}, [(second("12:01"), "TimedOut")])


def test_no_attempt_follows_when_the_time_is_over_by_then():
    here = running("1 12 * * *", retry={"limit": 3, "delaySeconds": 60}, runTimeLimitSeconds=60)
    failing(here, second("12:01"), clock("12:01:30"))
    assert outcomes(here) == [(second("12:01"), "Failed")]


@pytest.mark.parametrize("kept", [0, 1], ids=["its Job is cleaned up", "its Job is there"])
def test_time_also_runs_out_between_two_attempts(kept):
    here = running("1 12 * * *", retry={"limit": 3}, runTimeLimitSeconds=60, failedJobsHistoryLimit=kept)
    failing(here, second("12:01"), clock("12:01:05"))
    here.edit(suspend=True)
    here.settle(clock("12:01:30"))
    assert here.back == clock("12:02")
    here.settle(clock("12:02"))
    assert outcomes(here) == [(second("12:01"), "TimedOut")]
    assert here.back is None


# --- outcomes


def test_runs_by_hand_of_one_second_are_remembered_in_their_order():
    here = world(suspend=True)
    ids = ("second", "first", "third")
    for identity in ids:
        here.ask(identity)
        here.settle(clock("12:01"))
        here.end(here.made[-1], "Complete", clock("12:01"))
        here.settle(clock("12:01"))
    assert [each["id"] for each in here.status["outcomes"]] == list(ids)


@pytest.mark.parametrize("limit", [1, 2])
def test_runs_by_hand_of_one_second_that_are_forgotten_do_not_come_back(limit):
    here = world(suspend=True, outcomesLimit=limit, successfulJobsHistoryLimit=10)
    ids = ("second", "first", "third")
    for identity in ids:
        here.ask(identity)
        here.settle(clock("12:01"))
        here.end(here.made[-1], "Complete", clock("12:01"))
        here.settle(clock("12:01"))
    assert len(here.jobs) == 3
    assert [each["id"] for each in here.status["outcomes"]] == list(ids[-limit:])
    assert here.settle(clock("12:02")) == []


def test_outcomes_survive_their_jobs_and_only_the_last_stay():
    here = world(successfulJobsHistoryLimit=0, outcomesLimit=3)
    for number in range(1, 6):
        here.settle(after(60 * number))
        here.end(here.made[-1], at=after(60 * number + 5))
        here.settle(after(60 * number + 5))
    assert here.jobs == {}
    assert outcomes(here) == [(name, "Succeeded") for name in SLOTS[2:]]
    assert here.status["outcomes"][-1] == {
        "job": SLOTS[-1],
        "trigger": "schedule",
        "schedule": "* * * * *",
        "scheduledTime": "2026-03-01T12:05:00Z",
        "startTime": "2026-03-01T12:05:00Z",
        "completionTime": "2026-03-01T12:05:05Z",
        "outcome": "Succeeded",
        "attempts": 1,
    }
    assert here.settle(clock("12:05:30")) == []


def test_fewer_outcomes_than_jobs_are_stable():
    here = world(successfulJobsHistoryLimit=10, outcomesLimit=1)
    for number in range(1, 4):
        here.settle(after(60 * number))
        here.end(here.made[-1], at=after(60 * number + 5))
        here.settle(after(60 * number + 5))
    assert len(here.jobs) == 3
    assert outcomes(here) == [(SLOTS[2], "Succeeded")]
    assert not [step for step in here.decide(clock("12:03:30")).steps if isinstance(step, PatchStatus)]


def test_without_outcomes_runs_at_work_are_remembered_all_the_same():
    here = running(outcomesLimit=0)
    assert at_work(here) == [(second("12:01"), "Running")]
    here.end(second("12:01"), at=clock("12:01:05"))
    here.settle(clock("12:01:05"))
    assert here.status.keys() & {"runs", "outcomes"} == set()


def test_a_job_that_vanished_before_anybody_saw_it_is_an_outcome():
    here = world()
    here.step(clock("12:01"))
    here.remove(second("12:01"))
    here.settle(clock("12:01:01"))
    assert outcomes(here) == [(second("12:01"), "Deleted")]


def test_a_replaced_run_says_so():
    here = running(concurrencyPolicy="Replace")
    told = here.settle(clock("12:02"))
    assert outcomes(here) == [(second("12:01"), "Replaced")]
    assert "MissingJob" not in reasons(told)


def test_a_run_that_could_not_be_replaced_is_at_work_again():
    from workers.reconcile.plan import Delete

    here = running(concurrencyPolicy="Replace")
    here.refusing = {Delete}
    here.settle(clock("12:02"))
    assert outcomes(here) == [(second("12:01"), "Replaced")]
    here.edit(suspend=True)
    here.settle(clock("12:02:01"))
    assert at_work(here) == [(second("12:01"), "Running")]


@pytest.mark.parametrize("entry", [{}, {"job": "x"}, {"job": "x", "attempts": "many", "outcome": "y"}, {"job": 1}])
def test_outcomes_that_somebody_spoiled_are_dropped(entry):
    here = world()
    here.body["status"] = {"outcomes": [entry], "runs": [entry]}
    here.settle(clock("12:01"))
    assert at_work(here) == [(second("12:01"), "Running")]
    assert outcomes(here) == []


# --- asked for


def test_a_run_that_is_asked_for_is_an_outcome_with_its_trigger():
    here = world("0 0 1 1 *")
    here.ask("now")
    here.settle(clock("12:00:10"))
    here.end("report-now", at=clock("12:00:20"))
    here.settle(clock("12:00:20"))
    (outcome,) = here.status["outcomes"]
    assert (outcome["trigger"], outcome["id"], outcome["outcome"]) == ("manual", "now", "Succeeded")
    assert not outcome.keys() & {"schedule", "scheduledTime"}


def test_a_retry_of_what_was_asked_for_has_the_same_variables():
    here = world("0 0 1 1 *", retry={"limit": 1, "delaySeconds": 5}, failedJobsHistoryLimit=0)
    here.ask("a-b", '{"env": {"DAY": "monday"}}')
    here.settle(clock("12:00:10"))
    assert here.annotations == {}
    failing(here, "report-a-b", clock("12:00:20"))
    here.settle(clock("12:00:25"))
    job = here.jobs["report-a-b-r2"]
    assert job["metadata"]["annotations"]["penstock.dev/run-id"] == "a-b"
    assert job["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "DAY", "value": "monday"}]


def test_asking_again_under_the_same_id_runs_nothing_twice():
    here = world("0 0 1 1 *")
    here.ask("now")
    here.settle(NOON)
    here.ask("now")
    here.settle(after(1))
    here.end("report-now", at=after(2))
    here.settle(after(2))
    here.ask("now")
    here.settle(after(3))
    assert (here.made, here.annotations) == (["report-now"], {})


@pytest.mark.parametrize("schedule", ["nonsense", "0 0 30 2 *"])
def test_a_run_can_be_asked_for_whatever_the_schedule_says(schedule):
    here = world(schedule)
    here.ask("now")
    here.settle(NOON)
    assert here.made == ["report-now"]


# --- conditions

READY = {
    "all is well": ({}, ("True", "Scheduled"), []),
    "suspended": ({"suspend": True}, ("False", "Suspended"), []),
    "no schedule": ({"schedule": "often"}, ("False", "UnparseableSchedule"), ["UnparseableSchedule"]),
    "61 seconds": ({"schedule": "61 * * * * *"}, ("False", "UnparseableSchedule"), ["UnparseableSchedule"]),
    "one of several is wrong": (
        {"schedules": [{"schedule": "0 * * * *"}, {"schedule": "x"}]},
        ("False", "UnparseableSchedule"),
        ["UnparseableSchedule"],
    ),
    "an unknown zone": ({"timeZone": "Mars/Olympus"}, ("False", "UnknownTimeZone"), ["UnknownTimeZone"]),
    "an unknown zone of one": (
        {"schedules": [{"schedule": "0 * * * *", "timeZone": "Mars/Olympus"}]},
        ("False", "UnknownTimeZone"),
        ["UnknownTimeZone"],
    ),
    "an unknown zone of an exclusion": (
        {"exclusions": [{"dates": ["2026-01-01"], "timeZone": "Mars/Olympus"}]},
        ("False", "UnknownTimeZone"),
        ["UnknownTimeZone"],
    ),
    "30 February": ({"schedule": "0 0 30 2 *"}, ("False", "NeverFires"), ["InvalidSchedule"]),
    "a day that is none": ({"exclusions": [{"dates": ["2026-02-30"]}]}, ("False", "InvalidSpec"), ["InvalidSpec"]),
    "a time without a zone": (
        {"exclusions": [{"start": "2026-02-28T10:00:00"}]},
        ("False", "InvalidSpec"),
        ["InvalidSpec"],
    ),
    "no time": ({"suspendUntil": "tomorrow"}, ("False", "InvalidSpec"), ["InvalidSpec"]),
    "a time out of reach": ({"suspendUntil": "0001-01-01T00:00:00+14:00"}, ("False", "InvalidSpec"), ["InvalidSpec"]),
    "a limit below zero": ({"failedJobsHistoryLimit": -1}, ("False", "InvalidSpec"), ["InvalidSpec"]),
    "retries without a limit": ({"retry": {}}, ("False", "InvalidSpec"), ["InvalidSpec"]),
}


@pytest.mark.parametrize(("spec", "ready", "told"), READY.values(), ids=READY)
def test_ready_says_whether_runs_start_and_is_told_once(spec, ready, told):
    here = world(**spec)
    assert reasons(here.settle(NOON)) == told
    assert here.ready() == ready
    assert here.settle(after(1)) == []
    here.edit(**{**dict.fromkeys(spec), "schedule": "* * * * *"})
    here.settle(after(2))
    assert here.ready() == ("True", "Scheduled")
    assert here.status["observedGeneration"] == 2


def test_a_transition_is_timed_and_what_others_wrote_stays():
    here = world()
    other = {"type": "Approved", "status": "True"}
    here.body["status"] = {"conditions": [other], "note": "mine"}
    here.settle(NOON)
    here.settle(clock("12:01"))
    ready, kept = here.status["conditions"]
    assert ready["lastTransitionTime"] == times.render(NOON)
    assert (kept, here.status["note"]) == (other, "mine")
    here.edit(suspend=True)
    here.settle(clock("12:01:10"))
    assert here.status["conditions"][0]["lastTransitionTime"] == times.render(clock("12:01:10"))
    assert "nextScheduleTime" not in here.status


@pytest.mark.parametrize(("failures", "reason", "back"), [(2, "Scheduled", "12:02"), (3, "ReconcileFailing", "12:01")])
def test_ready_says_when_nothing_works_and_is_taken_back_when_it_does(failures, reason, back):
    here = world()
    here.settle(NOON)
    here.refusing = {Create}
    failing = replace(here.snapshot(), failures=failures, last_error="exceeded quota")
    here.carry_out(decide(failing, clock("12:01")), clock("12:01"))
    assert here.ready()[1] == reason
    here.refusing = set()
    here.carry_out(decide(replace(failing, body=here.body), clock("12:01")), clock("12:01"))
    assert here.back == clock(back)
    here.settle(clock("12:01"))
    assert here.ready() == ("True", "Scheduled")


# --- cut short


def test_a_missed_run_is_counted_once_whatever_is_cut_short():
    for steps in range(6):
        here = world(startingDeadlineSeconds=10)
        here.settle(NOON)
        here.step(clock("12:02:30"), steps=steps)
        here.settle(clock("12:02:31"))
        assert (here.status["missedRuns"], here.status["lastMissedTime"]) == (2, times.render(clock("12:02")))


def test_a_plan_that_is_cut_short_anywhere_makes_every_job_once():
    for steps in range(9):
        here = running(concurrencyPolicy="Replace", retry={"limit": 1, "delaySeconds": 0})
        here.ask("now")
        here.step(clock("12:02"), steps=steps)
        here.settle(clock("12:02:01"))
        assert sorted(here.made) == sorted([second("12:01"), second("12:02"), "report-now"])
        assert here.active() == ["report-now"]
        assert dict(outcomes(here))[second("12:01")] in ("Replaced", "Deleted")


def test_a_cronjobs_names_and_a_scheduledjobs_differ():
    assert minute("12:01") != second("12:01")
    here = world()
    here.settle(clock("12:01"))
    assert here.made == [second("12:01")]


def test_a_create_that_is_refused_leaves_no_run_behind():
    here = world()
    here.refusing = {Create}
    here.settle(clock("12:01"))
    assert not here.status.keys() & {"runs", "outcomes", "lastScheduleTime"}
