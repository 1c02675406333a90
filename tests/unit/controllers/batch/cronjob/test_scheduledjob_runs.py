"""The runs of a ScheduledJob: retries, limits, outcomes, requested runs, and conditions."""

from dataclasses import replace

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.cronjob.cronjobs import NOON, after, clock, outcomes, reasons, scheduled_job, second
from tests.unit.controllers.batch.cronjob.cronjobs import running_scheduled_job as running
from tests.unit.controllers.batch.cronjob.cronjobs import scheduled_job_cluster as new_cluster
from workers.api import times
from workers.controllers.batch.cronjob import decide
from workers.decision.plan import Create, Delete, PatchStatus

MARS = "Mars/Olympus"
#: The Jobs of the first five minutes.
SLOTS = [second(f"12:0{number}") for number in range(1, 6)]


def at_work(cluster):
    return [(each["job"], each["outcome"]) for each in cluster.status.get("runs", ())]


def run_every_minute(cluster, number):
    """Each run takes five seconds."""
    for minutes in range(1, number + 1):
        cluster.settle(after(60 * minutes))
        cluster.end(cluster.made[-1], at=after(60 * minutes + 5))
        cluster.settle(after(60 * minutes + 5))


# --- retries


def failing(cluster, name, at):
    cluster.end(name, "Failed", at, reason="BackoffLimitExceeded", message="no luck")
    return cluster.settle(at)


def test_a_run_that_failed_is_tried_again_with_a_growing_wait():
    cluster = running("1 12 * * *", retry={"limit": 3, "delaySeconds": 10, "maxDelaySeconds": 25})
    run = second("12:01")
    moment = clock("12:01")
    for number, wait in ((1, 10), (2, 20), (3, 25)):
        name = run if number == 1 else f"{run}-r{number}"
        failing(cluster, name, moment)
        assert at_work(cluster) == [(name, "Retrying")]
        assert cluster.status["runs"][0]["retryTime"] == times.render(after(wait, moment))
        assert cluster.back == after(wait, moment)
        moment = after(wait, moment)
        cluster.settle(moment)
        assert cluster.active() == [f"{run}-r{number + 1}"]
        assert "retryTime" not in cluster.status["runs"][0]
    failing(cluster, f"{run}-r4", moment)
    (outcome,) = cluster.status["outcomes"]
    assert (outcome["outcome"], outcome["attempts"]) == ("Failed", 4)
    assert (outcome["reason"], outcome["message"]) == ("BackoffLimitExceeded", "no luck")
    assert "runs" not in cluster.status


def test_a_retry_that_works_makes_the_run_a_success():
    cluster = running("1 12 * * *", retry={"limit": 3})
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.settle(clock("12:01:15"))
    again = f"{second('12:01')}-r2"
    annotations = cluster.jobs[again]["metadata"]["annotations"]
    assert annotations["penstock.dev/attempt"] == "2"
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-03-01T12:01:00Z"
    cluster.end(again, at=clock("12:01:20"))
    cluster.settle(clock("12:01:20"))
    assert outcomes(cluster) == [(again, "Succeeded")]
    assert cluster.status["outcomes"][0]["startTime"] == times.render(clock("12:01"))


@for_each(
    ("Allow", [second("12:01"), second("12:02"), f"{second('12:01')}-r2"]),
    ("Forbid", [second("12:01"), f"{second('12:01')}-r2"]),
    ("Replace", [second("12:01"), second("12:02")]),
)
def test_between_two_attempts_a_run_counts_as_running(policy, made):
    cluster = running(concurrencyPolicy=policy, retry={"limit": 3, "delaySeconds": 90})
    failing(cluster, second("12:01"), clock("12:01:10"))
    cluster.settle(clock("12:02"))
    cluster.settle(clock("12:02:40"))
    assert cluster.made == made
    if policy == "Replace":
        assert outcomes(cluster) == [(second("12:01"), "Replaced")]


def test_an_attempt_does_not_need_the_job_of_the_one_before():
    cluster = running("1 12 * * *", retry={"limit": 3})
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.remove(second("12:01"))
    cluster.settle(clock("12:01:15"))
    assert cluster.active() == [f"{second('12:01')}-r2"]


def test_attempts_are_history_once_their_run_is_over():
    run = second("12:01")
    cluster = running("1 12 * * *", retry={"limit": 2, "delaySeconds": 5}, failedJobsHistoryLimit=0)
    failing(cluster, run, clock("12:01:05"))
    cluster.settle(clock("12:01:10"))
    failing(cluster, f"{run}-r2", clock("12:01:15"))
    assert sorted(cluster.jobs) == [run, f"{run}-r2"]
    cluster.settle(clock("12:01:25"))
    cluster.end(f"{run}-r3", at=clock("12:01:30"))
    cluster.settle(clock("12:01:30"))
    assert sorted(cluster.jobs) == [f"{run}-r3"]
    assert outcomes(cluster) == [(f"{run}-r3", "Succeeded")]


def test_a_run_whose_job_is_deleted_by_hand_is_not_tried_again():
    cluster = running("1 12 * * *", retry={"limit": 3})
    cluster.remove(second("12:01"))
    cluster.settle(clock("12:01:05"))
    assert outcomes(cluster) == [(second("12:01"), "Deleted")]
    assert cluster.made == [second("12:01")]


@for_each({}, {"timeZone": MARS})
def test_no_attempt_starts_while_suspended(spec):
    cluster = running("1 12 * * *", retry={"limit": 3})
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.edit(suspend=True, **spec)
    cluster.settle(clock("12:01:30"))
    assert (cluster.made, cluster.back) == ([second("12:01")], None)
    cluster.edit(suspend=False, timeZone=None)
    cluster.settle(clock("12:01:40"))
    assert cluster.active() == [f"{second('12:01')}-r2"]


@cases(("schedules", {}), ("no slot follows", {"exclusions": [{"start": "2026-03-01T12:01:30Z"}]}))
def test_no_attempt_starts_before_a_suspension_ends(spec):
    cluster = running("1 12 * * *", retry={"limit": 3})
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.edit(suspendUntil="2026-03-01T12:05:00Z", **spec)
    cluster.settle(clock("12:01:30"))
    assert (cluster.made, cluster.back) == ([second("12:01")], clock("12:05"))
    assert at_work(cluster) == [(second("12:01"), "Retrying")]
    cluster.settle(clock("12:05"))
    assert cluster.active() == [f"{second('12:01')}-r2"]


def test_a_run_whose_time_is_over_before_a_suspension_ends_has_timed_out():
    cluster = running("1 12 * * *", retry={"limit": 3}, runTimeLimitSeconds=60)
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.edit(suspendUntil="2026-03-01T12:05:00Z")
    cluster.settle(clock("12:01:30"))
    assert cluster.back == clock("12:02")
    cluster.settle(clock("12:02"))
    assert outcomes(cluster) == [(second("12:01"), "TimedOut")]


@cases(
    ("no slot follows", {"exclusions": [{"start": "2026-03-01T12:01:30Z"}]}, "2026-03-01T21:01:00+09:00"),
    ("an unreadable schedule", {"schedule": "often"}, "2026-03-01T12:01:00Z"),
    ("an unknown zone", {"timeZone": MARS}, "2026-03-01T12:01:00Z"),
    ("an exclusion's schedule", {"exclusions": [{"schedule": "x", "durationSeconds": 5}]}, "2026-03-01T21:01:00+09:00"),
)
def test_an_attempt_needs_no_further_slot(spec, slot):
    cluster = running(timeZone="Asia/Tokyo", retry={"limit": 3}, concurrencyPolicy="Forbid")
    cluster.edit(**spec)
    failing(cluster, second("12:01"), clock("12:01:05"))
    assert cluster.back == clock("12:01:15")
    cluster.settle(clock("12:01:15"))
    again = f"{second('12:01')}-r2"
    assert cluster.active() == [again]
    annotations = cluster.jobs[again]["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == slot


def test_no_attempt_starts_while_the_object_is_being_deleted():
    cluster = running(retry={"limit": 3})
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.leave()
    cluster.settle(clock("12:01:15"))
    assert (cluster.made, cluster.back) == ([second("12:01")], None)


def test_taking_retries_back_ends_what_waits():
    cluster = running("1 12 * * *", retry={"limit": 3}, failedJobsHistoryLimit=0)
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.edit(retry=None)
    cluster.settle(clock("12:01:06"))
    assert outcomes(cluster) == [(second("12:01"), "Failed")]


def test_what_failed_long_ago_is_not_tried_again_when_retries_are_allowed():
    cluster = running("1 12 * * *", outcomesLimit=0)
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.edit(retry={"limit": 3})
    cluster.settle(clock("12:30"))
    assert cluster.made == [second("12:01")]


def test_an_attempt_that_vanished_before_it_was_recorded_is_not_made_twice():
    cluster = running("1 12 * * *", retry={"limit": 3})
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.step(clock("12:01:15"), steps=1)
    again = f"{second('12:01')}-r2"
    cluster.remove(again)
    cluster.settle(clock("12:01:16"))
    assert cluster.made.count(again) == 1
    assert outcomes(cluster) == [(again, "Deleted")]


def test_a_run_that_only_its_jobs_tell_of_started_with_the_first_of_them():
    cluster = running("1 12 * * *", retry={"limit": 3})
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.settle(clock("12:01:15"))
    del cluster.body["status"]["runs"]
    cluster.settle(clock("12:01:16"))
    [run] = cluster.status["runs"]
    assert (run["job"], run["attempts"]) == (f"{second('12:01')}-r2", 2)
    assert run["startTime"] == times.render(clock("12:01"))


def test_an_attempt_whose_name_is_taken_ends_the_run():
    cluster = running("1 12 * * *", retry={"limit": 3})
    cluster.foreign = {f"{second('12:01')}-r2"}
    failing(cluster, second("12:01"), clock("12:01:05"))
    assert reasons(cluster.settle(clock("12:01:15"))) == ["FailedCreate"]
    assert outcomes(cluster) == [(f"{second('12:01')}-r2", "Deleted")]


# --- time limit


def test_every_job_of_a_run_has_the_time_that_is_left():
    cluster = running("1 12 * * *", retry={"limit": 3}, runTimeLimitSeconds=100)
    assert cluster.jobs[second("12:01")]["spec"]["activeDeadlineSeconds"] == 100
    failing(cluster, second("12:01"), after(40, clock("12:01")))
    cluster.settle(after(50, clock("12:01")))
    assert cluster.jobs[f"{second('12:01')}-r2"]["spec"]["activeDeadlineSeconds"] == 50


@cases(("less", 7, 7), ("more", 700, 100))
def test_a_template_may_say_less_and_not_more(own, given):
    template = scheduled_job()["spec"]["jobTemplate"]
    template = {**template, "spec": {**template["spec"], "activeDeadlineSeconds": own}}
    cluster = running(runTimeLimitSeconds=100, jobTemplate=template)
    assert cluster.jobs[second("12:01")]["spec"]["activeDeadlineSeconds"] == given


def test_a_job_that_its_limit_ended_has_timed_out_and_is_not_tried_again():
    cluster = running("1 12 * * *", retry={"limit": 3}, runTimeLimitSeconds=60)
    cluster.end(second("12:01"), "Failed", clock("12:02"), reason="DeadlineExceeded", message="too late")
    cluster.settle(clock("12:02"))
    assert outcomes(cluster) == [(second("12:01"), "TimedOut")]
    told = {"reason": "RunTimeLimitExceeded", "message": "too late"}
    assert told.items() <= cluster.status["outcomes"][0].items()
    assert cluster.made == [second("12:01")]


def test_a_job_that_the_limit_does_not_reach_is_deleted():
    """One that is suspended never starts, and its deadline with it."""
    cluster = running("1 12 * * *", runTimeLimitSeconds=60)
    assert cluster.back == after(90, clock("12:01"))
    assert cluster.settle(after(89, clock("12:01"))) == []
    cluster.refusing = {Delete}
    assert reasons(cluster.settle(after(90, clock("12:01")))) == ["FailedDelete"]
    assert cluster.active() == [second("12:01")], "it is still at work"
    cluster.refusing = set()
    events = cluster.settle(after(90, clock("12:01")))
    assert reasons(events) == ["SuccessfulDelete"]
    assert (cluster.jobs, outcomes(cluster)) == ({}, [(second("12:01"), "TimedOut")])


def test_no_attempt_follows_when_the_time_is_over_by_then():
    cluster = running("1 12 * * *", retry={"limit": 3, "delaySeconds": 60}, runTimeLimitSeconds=60)
    failing(cluster, second("12:01"), clock("12:01:30"))
    [outcome] = cluster.status["outcomes"]
    assert (outcome["outcome"], outcome["attempts"]) == ("Failed", 1)
    assert (outcome["reason"], outcome["message"]) == ("BackoffLimitExceeded", "no luck")


@cases(("its Job is cleaned up", 0), ("its Job is there", 1))
def test_time_also_runs_out_between_two_attempts(kept):
    cluster = running("1 12 * * *", retry={"limit": 3}, runTimeLimitSeconds=60, failedJobsHistoryLimit=kept)
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.edit(suspend=True)
    cluster.settle(clock("12:01:30"))
    assert cluster.back == clock("12:02")
    cluster.settle(clock("12:02"))
    assert outcomes(cluster) == [(second("12:01"), "TimedOut")]
    assert cluster.back is None


# --- outcomes


@cases(("all", {}), ("one", {"outcomesLimit": 1}), ("two", {"outcomesLimit": 2}))
def test_runs_by_hand_of_one_second_are_remembered_in_their_order_and_forgotten_for_good(limits):
    cluster = new_cluster(suspend=True, successfulJobsHistoryLimit=10, **limits)
    ids = ["second", "first", "third"]
    for identity in ids:
        cluster.ask(identity)
        cluster.settle(clock("12:01"))
        cluster.end(cluster.made[-1], "Complete", clock("12:01"))
        cluster.settle(clock("12:01"))
    assert len(cluster.jobs) == 3
    assert [each["id"] for each in cluster.status["outcomes"]] == ids[-limits.get("outcomesLimit", 3) :]
    assert cluster.settle(clock("12:02")) == []


def test_outcomes_survive_their_jobs_and_only_the_last_stay():
    cluster = new_cluster(successfulJobsHistoryLimit=0, outcomesLimit=3)
    run_every_minute(cluster, 5)
    assert cluster.jobs == {}
    assert outcomes(cluster) == [(name, "Succeeded") for name in SLOTS[2:]]
    assert cluster.status["outcomes"][-1] == {
        "job": SLOTS[-1],
        "trigger": "schedule",
        "schedule": "* * * * *",
        "scheduledTime": "2026-03-01T12:05:00Z",
        "startTime": "2026-03-01T12:05:00Z",
        "completionTime": "2026-03-01T12:05:05Z",
        "outcome": "Succeeded",
        "attempts": 1,
    }
    assert cluster.settle(clock("12:05:30")) == []


def test_the_reason_of_an_outcome_survives_its_job():
    cluster = running(failedJobsHistoryLimit=0)
    failing(cluster, second("12:01"), clock("12:01:05"))
    assert cluster.jobs == {}
    cluster.settle(clock("12:02"))
    told = {"outcome": "Failed", "reason": "BackoffLimitExceeded", "message": "no luck"}
    assert told.items() <= cluster.status["outcomes"][0].items()


@for_each("many", "-1", "12345")
def test_a_job_whose_number_of_attempt_makes_no_sense_is_a_first_attempt(number):
    cluster = running("1 12 * * *")
    name = second("12:01")
    cluster.jobs[name]["metadata"]["annotations"]["penstock.dev/attempt"] = number
    cluster.settle(clock("12:01:30"))
    assert (at_work(cluster), cluster.status["runs"][0]["attempts"]) == ([(name, "Running")], 1)


def test_fewer_outcomes_than_jobs_are_stable():
    cluster = new_cluster(successfulJobsHistoryLimit=10, outcomesLimit=1)
    run_every_minute(cluster, 3)
    assert len(cluster.jobs) == 3
    assert outcomes(cluster) == [(SLOTS[2], "Succeeded")]
    assert not [step for step in cluster.decide(clock("12:03:30")).steps if isinstance(step, PatchStatus)]


def test_without_outcomes_unfinished_runs_are_recorded_all_the_same():
    cluster = running(outcomesLimit=0)
    assert at_work(cluster) == [(second("12:01"), "Running")]
    cluster.end(second("12:01"), at=clock("12:01:05"))
    cluster.settle(clock("12:01:05"))
    assert cluster.status.keys() & {"runs", "outcomes"} == set()


def test_a_job_that_vanished_before_it_was_observed_is_an_outcome():
    cluster = new_cluster()
    cluster.step(clock("12:01"))
    cluster.remove(second("12:01"))
    cluster.settle(clock("12:01:01"))
    assert outcomes(cluster) == [(second("12:01"), "Deleted")]


def test_a_replaced_run_says_so():
    cluster = running(concurrencyPolicy="Replace")
    events = cluster.settle(clock("12:02"))
    assert outcomes(cluster) == [(second("12:01"), "Replaced")]
    told = cluster.status["outcomes"][0]
    assert (told["reason"], told["message"]) == ("Replaced", "A newer run took its place")
    assert told["completionTime"] == times.render(clock("12:02"))
    assert "MissingJob" not in reasons(events)


def test_a_run_that_could_not_be_replaced_runs_again():
    cluster = running(concurrencyPolicy="Replace")
    cluster.refusing = {Delete}
    cluster.settle(clock("12:02"))
    assert (at_work(cluster), outcomes(cluster)) == ([(second("12:01"), "Running")], [])
    assert cluster.active() == [second("12:01")]
    cluster.edit(suspend=True)
    cluster.settle(clock("12:02:01"))
    assert at_work(cluster) == [(second("12:01"), "Running")]
    assert cluster.status["runs"][0].keys().isdisjoint({"completionTime", "reason", "message"})


def test_a_run_whose_schedule_was_edited_away_is_tried_again():
    cluster = running("1 12 * * *", retry={"limit": 3})
    failing(cluster, second("12:01"), clock("12:01:05"))
    cluster.edit(schedule="30 * * * *")
    cluster.settle(clock("12:01:15"))
    assert cluster.active() == [f"{second('12:01')}-r2"]


@for_each({}, {"job": "x"}, {"job": "x", "attempts": "many", "outcome": "y"}, {"job": 1})
def test_malformed_outcomes_are_dropped(entry):
    cluster = new_cluster()
    cluster.body["status"] = {"outcomes": [entry], "runs": [entry]}
    cluster.settle(clock("12:01"))
    assert at_work(cluster) == [(second("12:01"), "Running")]
    assert outcomes(cluster) == []


# --- asked for


def test_a_run_that_is_requested_is_an_outcome_with_its_trigger():
    cluster = new_cluster("0 0 1 1 *")
    cluster.ask("now")
    cluster.settle(clock("12:00:10"))
    cluster.end("report-now", at=clock("12:00:20"))
    cluster.settle(clock("12:00:20"))
    (outcome,) = cluster.status["outcomes"]
    assert (outcome["trigger"], outcome["id"], outcome["outcome"]) == ("manual", "now", "Succeeded")
    assert not outcome.keys() & {"schedule", "scheduledTime"}


def test_a_retry_of_what_was_requested_has_the_same_variables():
    cluster = new_cluster("0 0 1 1 *", retry={"limit": 1, "delaySeconds": 5}, failedJobsHistoryLimit=0)
    cluster.ask("a-b", '{"env": {"DAY": "monday"}}')
    cluster.settle(clock("12:00:10"))
    assert cluster.annotations == {}
    failing(cluster, "report-a-b", clock("12:00:20"))
    cluster.settle(clock("12:00:25"))
    job = cluster.jobs["report-a-b-r2"]
    assert job["metadata"]["annotations"]["penstock.dev/run-id"] == "a-b"
    assert job["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "DAY", "value": "monday"}]


def test_requesting_again_under_the_same_id_runs_nothing_twice():
    cluster = new_cluster("0 0 1 1 *")
    cluster.ask("now")
    cluster.settle(NOON)
    cluster.ask("now")
    cluster.settle(after(1))
    cluster.end("report-now", at=after(2))
    cluster.settle(after(2))
    cluster.ask("now")
    cluster.settle(after(3))
    assert (cluster.made, cluster.annotations) == (["report-now"], {})


@cases(
    ("of a request", "load-r2", None),
    ("of a slot", f"{int(clock('12:01').timestamp())}-r12", None),
    ("no number", "load-r2d2", ["report-load-r2d2"]),
    ("nothing in front", "r2", ["report-r2"]),
)
def test_no_request_takes_the_name_of_an_attempt(id, made):
    cluster = new_cluster("0 0 1 1 *")
    cluster.ask(id)
    (event,) = cluster.settle(NOON)
    assert event.reason == ("SuccessfulCreate" if made else "InvalidRunRequest")
    assert made or f"annotation penstock.dev/run.{id}: the id must not end in -r<number>" in event.message
    assert (cluster.made, cluster.annotations) == (made or [], {})


@for_each("nonsense", "0 0 30 2 *")
def test_a_run_can_be_requested_and_tried_again_with_any_schedule(schedule):
    cluster = new_cluster(schedule, retry={"limit": 1, "delaySeconds": 5})
    cluster.ask("now")
    cluster.settle(NOON)
    assert cluster.made == ["report-now"]
    failing(cluster, "report-now", after(1))
    assert cluster.back == after(6)
    cluster.settle(after(6))
    assert cluster.made == ["report-now", "report-now-r2"]


# --- order


def test_a_run_keeps_its_place_when_it_is_tried_again():
    cluster = running(retry={"limit": 3, "delaySeconds": 90})
    failing(cluster, second("12:01"), clock("12:01:10"))
    cluster.settle(clock("12:02"))
    cluster.step(clock("12:02:40"))
    assert at_work(cluster) == [(f"{second('12:01')}-r2", "Running"), (second("12:02"), "Running")]


def test_runs_of_one_decision_are_listed_in_the_order_of_the_next():
    cluster = new_cluster()
    cluster.settle(NOON)
    cluster.ask("now")
    cluster.step(clock("12:01:02.5"))
    listed = at_work(cluster)
    assert listed == [(second("12:01"), "Running"), ("report-now", "Running")]
    cluster.step(clock("12:01:03"))
    assert at_work(cluster) == listed


# --- conditions

NOT_READY = {
    "suspended": ({"suspend": True}, "Suspended"),
    "no schedule": ({"schedule": "often"}, "UnparseableSchedule"),
    "61 seconds": ({"schedule": "61 * * * * *"}, "UnparseableSchedule"),
    "one of several": ({"schedules": [{"schedule": "0 * * * *"}, {"schedule": "x"}]}, "UnparseableSchedule"),
    "an unknown zone": ({"timeZone": MARS}, "UnknownTimeZone"),
    "an unknown zone of one": ({"schedules": [{"schedule": "0 * * * *", "timeZone": MARS}]}, "UnknownTimeZone"),
    "an unknown zone of days": ({"exclusions": [{"dates": ["2026-01-01"], "timeZone": MARS}]}, "UnknownTimeZone"),
    "30 February": ({"schedule": "0 0 30 2 *"}, "NeverFires"),
    "an exclusion's schedule": ({"exclusions": [{"schedule": "x", "durationSeconds": 5}]}, "InvalidSpec"),
    "an exclusion's zone": (
        {"exclusions": [{"schedule": "0 0 * * *", "durationSeconds": 5, "timeZone": MARS}]},
        "UnknownTimeZone",
    ),
    "an impossible day": ({"exclusions": [{"dates": ["2026-02-30"]}]}, "InvalidSpec"),
    "a time without a zone": ({"exclusions": [{"start": "2026-02-28T10:00:00"}]}, "InvalidSpec"),
    "no time": ({"suspendUntil": "tomorrow"}, "InvalidSpec"),
    "a time out of reach": ({"suspendUntil": "0001-01-01T00:00:00+14:00"}, "InvalidSpec"),
    "a limit below zero": ({"failedJobsHistoryLimit": -1}, "InvalidSpec"),
    "retries without a limit": ({"retry": {}}, "InvalidSpec"),
}


@cases(NOT_READY)
def test_ready_says_why_no_run_starts_and_is_reported_once(spec, reason):
    events = {"Suspended": [], "NeverFires": ["InvalidSchedule"]}.get(reason, [reason])
    cluster = new_cluster(**spec)
    assert reasons(cluster.settle(NOON)) == events
    assert cluster.ready() == ("False", reason)
    assert cluster.settle(after(1)) == []
    cluster.edit(**{**dict.fromkeys(spec), "schedule": "* * * * *"})
    assert cluster.settle(after(2)) == []
    assert cluster.ready() == ("True", "Scheduled")
    assert cluster.status["observedGeneration"] == 2


def test_a_wrong_schedule_of_an_exclusion_is_named():
    cluster = new_cluster(exclusions=[{"start": "2027-01-01T00:00:00Z"}, {"schedule": "x", "durationSeconds": 5}])
    [event] = cluster.settle(NOON)
    message = "spec.exclusions[1].schedule: expected 5 to 6 fields, found 1: [x]"
    assert (event.type, event.reason, event.message) == ("Warning", "InvalidSpec", message)


def test_a_transition_is_timed_and_what_others_wrote_stays():
    cluster = new_cluster()
    other = {"type": "Approved", "status": "True"}
    cluster.body["status"] = {"conditions": [other], "note": "mine"}
    cluster.settle(NOON)
    cluster.settle(clock("12:01"))
    ready, kept = cluster.status["conditions"]
    assert ready["lastTransitionTime"] == times.render(NOON)
    assert (kept, cluster.status["note"]) == (other, "mine")
    cluster.edit(suspend=True)
    cluster.settle(clock("12:01:10"))
    assert cluster.status["conditions"][0]["lastTransitionTime"] == times.render(clock("12:01:10"))
    assert "nextScheduleTime" not in cluster.status


@for_each((2, ("True", "Scheduled"), "12:02"), (3, ("False", "ReconcileFailing"), "12:01"))
def test_ready_says_when_nothing_works_and_is_taken_back_when_it_does(failures, told, back):
    cluster = new_cluster()
    cluster.settle(NOON)
    cluster.refusing = {Create}
    failing = replace(cluster.snapshot(), failures=failures, last_error="exceeded quota")
    cluster.carry_out(decide(failing, clock("12:01")), clock("12:01"))
    assert cluster.ready() == told
    cluster.refusing = set()
    cluster.carry_out(decide(replace(failing, body=cluster.body), clock("12:01")), clock("12:01"))
    assert cluster.back == clock(back)
    cluster.settle(clock("12:01"))
    assert cluster.ready() == ("True", "Scheduled")


# --- cut short


def test_a_missed_run_is_counted_once_at_any_cut():
    for steps in range(6):
        cluster = new_cluster(startingDeadlineSeconds=10)
        cluster.settle(NOON)
        cluster.step(clock("12:02:30"), steps=steps)
        cluster.settle(clock("12:02:31"))
        assert (cluster.status["missedRuns"], cluster.status["lastMissedTime"]) == (2, times.render(clock("12:02")))


def test_a_plan_that_is_cut_short_anywhere_makes_every_job_once():
    for steps in range(9):
        cluster = running(concurrencyPolicy="Replace", retry={"limit": 1, "delaySeconds": 0})
        cluster.ask("now")
        cluster.step(clock("12:02"), steps=steps)
        cluster.settle(clock("12:02:01"))
        assert sorted(cluster.made) == sorted([second("12:01"), second("12:02"), "report-now"])
        assert cluster.active() == ["report-now"]
        assert dict(outcomes(cluster))[second("12:01")] in ("Replaced", "Deleted")


def test_a_create_that_is_refused_leaves_no_run_behind():
    cluster = new_cluster()
    cluster.refusing = {Create}
    cluster.settle(clock("12:01"))
    assert not cluster.status.keys() & {"runs", "outcomes", "lastScheduleTime"}
