"""The slots of a ScheduledJob, field by field beyond a CronJob's."""

from datetime import timedelta

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.cronjob.cronjobs import (
    NOON,
    CronCluster,
    after,
    clock,
    reasons,
    scheduled_job,
    second,
)
from tests.unit.controllers.batch.cronjob.cronjobs import scheduled_job_cluster as new_cluster
from workers.api import times
from workers.api.penstock_dev import scheduledjob as manifest
from workers.controllers.batch.cronjob import timetable
from workers.decision.plan import Together

# --- seconds


def test_six_fields_have_seconds_and_every_slot_its_own_job():
    cluster = new_cluster("*/15 * * * * *")
    cluster.settle(NOON)
    cluster.run(clock("12:00:59"))
    assert cluster.made == [second("12:00:15"), second("12:00:30"), second("12:00:45")]


def test_an_interval_of_seconds_has_a_job_each():
    cluster = new_cluster("@every 20s")
    cluster.settle(NOON)
    cluster.run(clock("12:01:10"))
    assert cluster.made == [second("12:00:20"), second("12:00:40"), second("12:01:00")]


@for_each(1, 46, 47, 52, 63, 200, 253)
def test_names_fit_any_object_name(length):
    body = scheduled_job(retry={"limit": 1000})
    body["metadata"]["name"] = "a" * length
    cluster = CronCluster(body)
    cluster.ask("b" * 20)
    cluster.settle(clock("12:01"))
    for name in list(cluster.made):
        cluster.end(name, "Failed", clock("12:01:01"))
    cluster.settle(clock("12:01:20"))
    assert len(cluster.made) == len(set(cluster.made)) == 4
    assert max(map(len, cluster.made)) <= 63


# --- jitter


def fired(cluster, slot):
    """Returns when the run of a slot starts."""
    cluster.settle(slot)
    return cluster.back if cluster.made == [] else slot


def test_jitter_delays_every_run_by_its_own_part_and_never_more():
    delays = set()
    for number in range(50):
        body = scheduled_job("0 13 * * *", jitterSeconds=600)
        body["metadata"]["uid"] = f"uid-{number}"
        due = fired(CronCluster(body), clock("13:00"))
        assert clock("13:00") <= due < after(600, clock("13:00"))
        assert due == fired(CronCluster(body), clock("13:00")), "always the same"
        delays.add(due)
    assert len(delays) == 50


def test_jitter_never_turns_the_order_of_slots_around():
    cluster = new_cluster("*/10 * * * * *", jitterSeconds=3600)
    cluster.settle(NOON)
    cluster.run(clock("12:01:59"))
    assert cluster.made == [second(f"12:{number // 60:02}:{number % 60:02}") for number in range(10, 120, 10)]


@cases(
    ("a time", {"start": "2026-03-01T13:00:01Z", "end": "2026-03-01T15:00:00Z"}, 1),
    ("a day", {"dates": ["2026-03-02", "2026-03-03"], "timeZone": "Asia/Yekaterinburg"}, 6 * 3600),
    ("after a schedule", {"schedule": "30 13 * * *", "durationSeconds": 60}, 1800),
    ("after an interval", {"schedule": "@every 90m", "durationSeconds": 60}, 1800),
    ("a time that is over", {"end": "2026-03-01T12:00:00Z"}, 40_000),
    ("days that are over", {"dates": ["2026-02-28", "0001-01-01"]}, 40_000),
)
def test_jitter_ends_where_an_excluded_time_begins(exclusion, most):
    delays = set()
    for number in range(20):
        body = scheduled_job("0 13 * * *", jitterSeconds=40_000, exclusions=[exclusion])
        body["metadata"]["uid"] = f"uid-{number}"
        delays.add((fired(CronCluster(body), clock("13:00")) - clock("13:00")).total_seconds())
    assert 0.5 * most < max(delays) < most


def test_the_deadline_counts_from_when_the_jitter_has_passed():
    for lateness, made in ((9, 1), (12, 0)):
        cluster = new_cluster("0 13 * * *", jitterSeconds=600, startingDeadlineSeconds=10)
        due = fired(cluster, clock("13:00"))
        cluster.settle(after(lateness, due))
        assert len(cluster.made) == made


def test_the_next_schedule_time_is_the_slot():
    cluster = new_cluster("0 13 * * *", jitterSeconds=600)
    cluster.settle(NOON)
    assert cluster.status["nextScheduleTime"] == times.render(clock("13:00"))
    assert cluster.back != clock("13:00")


# --- catching up

SLOTS = [second(f"12:0{number}") for number in range(1, 6)]


@cases(
    ("default", {}, SLOTS[-1:], 4),
    ("latest", {"policy": "Latest"}, SLOTS[-1:], 4),
    ("all", {"policy": "All"}, SLOTS, 0),
    ("the newest three", {"policy": "All", "limit": 3}, SLOTS[-3:], 2),
    ("the newest", {"policy": "All", "limit": 1}, SLOTS[-1:], 4),
    ("none", {"policy": "None"}, [], 5),
)
def test_which_missed_runs_are_made_up_for(catch_up, made, missed):
    cluster = new_cluster(catchUp=catch_up)
    events = cluster.settle(clock("12:05:30"))
    assert cluster.made == made
    assert cluster.status.get("missedRuns", 0) == missed
    assert reasons(events).count("MissSchedule") == bool(missed)
    assert cluster.settle(clock("12:05:40")) == []
    cluster.settle(clock("12:06"))
    assert cluster.made == [*made, second("12:06")]


def test_all_under_forbid_runs_them_one_after_the_other():
    cluster = new_cluster(catchUp={"policy": "All"}, concurrencyPolicy="Forbid")
    cluster.settle(clock("12:03:30"))
    for number in range(3):
        assert len(cluster.active()) == 1
        cluster.end(cluster.active()[0], at=after(number, clock("12:03:31")))
        cluster.settle(after(number, clock("12:03:31")))
    assert cluster.made == SLOTS[:3]
    assert (cluster.active(), cluster.status.get("missedRuns")) == ([], None)


def test_all_under_forbid_with_a_deadline_drops_what_waited_too_long():
    cluster = new_cluster(catchUp={"policy": "All"}, concurrencyPolicy="Forbid", startingDeadlineSeconds=90)
    cluster.settle(clock("12:01"))
    cluster.settle(clock("12:02"))
    cluster.settle(clock("12:03"))
    assert cluster.back == after(91, clock("12:02"))
    assert reasons(cluster.settle(after(91, clock("12:02")))) == ["MissSchedule", "JobAlreadyActive"]
    cluster.end(second("12:01"), at=clock("12:03:40"))
    cluster.settle(clock("12:03:40"))
    assert (cluster.made, cluster.status["missedRuns"]) == ([SLOTS[0], SLOTS[2]], 1)


def test_all_under_allow_makes_a_bounded_number_per_plan():
    cluster = new_cluster("* * * * * *", catchUp={"policy": "All", "limit": 250})
    plan = cluster.step(after(260))
    (stage,) = [step for step in plan.steps if isinstance(step, Together)]
    assert len(stage.steps) == 100
    assert cluster.back == after(260)
    cluster.settle(after(260))
    assert len(cluster.made) == 250
    assert cluster.status["missedRuns"] == 10


def test_all_that_was_cut_short_leaves_no_gap():
    """Some of the Jobs were made, and the status was not written."""
    cluster = new_cluster(catchUp={"policy": "All"})
    plan = cluster.decide(clock("12:05"))
    (stage,) = [step for step in plan.steps if isinstance(step, Together)]
    for step in (stage.steps[1], stage.steps[3]):
        cluster.put(step.body, clock("12:05"))
    cluster.settle(clock("12:05:01"))
    assert sorted(cluster.jobs) == SLOTS
    assert cluster.status.get("missedRuns") is None


def test_all_under_replace_makes_only_the_newest():
    cluster = new_cluster(catchUp={"policy": "All"}, concurrencyPolicy="Replace")
    cluster.settle(clock("12:05"))
    assert (cluster.made, cluster.status["missedRuns"]) == (SLOTS[-1:], 4)


@cases(
    ("resumed", {"suspend": True}, {"suspend": False}),
    ("edited", {"schedule": "0 0 1 1 *"}, {"schedule": "*/5 * * * *"}),
)
def test_none_lets_the_past_be_past(before, edit):
    """Also a slot of just now: it was not due when it was."""
    cluster = new_cluster(**{"schedule": "*/5 * * * *", **before}, catchUp={"policy": "None"})
    cluster.settle(clock("12:04"))
    cluster.edit(**edit)
    cluster.settle(clock("12:05:03"))
    assert cluster.made == []
    cluster.settle(clock("12:10:05"))
    assert cluster.made == [second("12:10")]


@cases(
    ("when the edit is found", clock("12:02"), True),
    ("as late as an edit is allowed for", clock("12:02:02"), True),
    ("later", after(2.1, clock("12:02")), False),
)
def test_none_keeps_a_slot_that_may_have_come_after_the_edit(found, runs):
    cluster = new_cluster(catchUp={"policy": "None"})
    cluster.settle(clock("12:01"))
    cluster.edit(successfulJobsHistoryLimit=5)
    cluster.settle(found)
    assert cluster.made == [second("12:01"), *([second("12:02")] if runs else [])]
    assert cluster.status.get("missedRuns", 0) == (not runs)


def test_none_still_allows_for_the_little_time_that_everything_takes():
    cluster = new_cluster(catchUp={"policy": "None"})
    cluster.settle(NOON)
    cluster.settle(clock("12:01:10"))
    cluster.settle(clock("12:02:11"))
    assert cluster.made == [second("12:01")]


@cases(("shorter", 5, []), ("as long", 10, ["12:01"]), ("longer", 60, ["12:01"]))
def test_none_with_a_deadline_is_the_shorter_of_both(deadline, made):
    cluster = new_cluster(catchUp={"policy": "None"}, startingDeadlineSeconds=deadline)
    cluster.settle(NOON)
    cluster.settle(clock("12:01:10"))
    cluster.settle(clock("12:02:15"))
    assert cluster.made == [second(slot) for slot in made]


# --- several schedules


def test_slots_of_several_schedules_are_runs_and_those_that_coincide_are_one():
    cluster = new_cluster(
        "0 13 * * *", schedules=[{"schedule": "0 22 * * *", "timeZone": "Asia/Tokyo"}, {"schedule": "30 13 * * *"}]
    )
    cluster.settle(NOON)
    cluster.run(clock("14:00"))
    assert cluster.made == [second("13:00"), second("13:30")]
    asked = [cluster.jobs[name]["metadata"]["annotations"]["penstock.dev/schedule"] for name in cluster.made]
    assert asked == ["0 13 * * *", "30 13 * * *"]
    assert [each["schedule"] for each in cluster.status["runs"]] == asked


def test_each_schedule_may_have_its_own_zone():
    cluster = new_cluster(
        "0 13 * * *", schedules=[{"schedule": "30 22 * * *", "timeZone": "Asia/Tokyo"}], timeZone="UTC"
    )
    cluster.settle(NOON)
    cluster.run(clock("14:00"))
    annotations = cluster.jobs[second("13:30")]["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-03-01T22:30:00+09:00"


def test_an_interval_is_not_moved_by_the_other_schedules():
    cluster = new_cluster("@every 25m", schedules=[{"schedule": "0 * * * *"}])
    cluster.settle(NOON)
    cluster.run(clock("14:00"))
    assert cluster.made == [second(time) for time in ("12:25", "12:50", "13:00", "13:15", "13:40", "14:00")]


# --- exclusions


@cases(
    ("a time", [{"start": "2026-03-01T12:02:00Z", "end": "2026-03-01T12:04:00Z"}], ["12:01", "12:04", "12:05"]),
    ("from a time on", [{"start": "2026-03-01T12:03:00Z"}], ["12:01", "12:02"]),
    ("until a time", [{"end": "2026-03-01T13:04:00+01:00"}], ["12:04", "12:05"]),
    ("another day", [{"dates": ["2026-03-02"]}], ["12:01", "12:02", "12:03", "12:04", "12:05"]),
    ("this day", [{"dates": ["2026-02-28", "2026-03-01"]}], []),
    ("this day elsewhere", [{"dates": ["2026-03-02"], "timeZone": "Pacific/Kiritimati"}], []),
    (
        "another day elsewhere",
        [{"dates": ["2026-03-01"], "timeZone": "Pacific/Kiritimati"}],
        ["12:01", "12:02", "12:03", "12:04", "12:05"],
    ),
    ("after another schedule", [{"schedule": "*/4 * * * *", "durationSeconds": 120}], ["12:02", "12:03"]),
    ("after an interval", [{"schedule": "@every 3m", "durationSeconds": 60}], ["12:01", "12:02", "12:04", "12:05"]),
    ("after a short interval", [{"schedule": "@every 2m", "durationSeconds": 130}], ["12:01"]),
    ("windows that overlap", [{"schedule": "2-3 12 * * *", "durationSeconds": 90}], ["12:01", "12:05"]),
    (
        "several",
        [{"end": "2026-03-01T12:02:00Z"}, {"start": "2026-03-01T12:04:00Z", "end": "2026-03-01T12:05:00Z"}],
        ["12:02", "12:03", "12:05"],
    ),
)
@cases(("in time", False), ("caught up with", True))
def test_no_run_starts_in_an_excluded_time(at_once, exclusions, slots):
    cluster = new_cluster(exclusions=exclusions, catchUp={"policy": "All"})
    if not at_once:
        cluster.settle(NOON)
        cluster.run(clock("12:05:30"))
    cluster.settle(clock("12:05:30"))
    assert cluster.made == [second(slot) for slot in slots]
    assert "missedRuns" not in cluster.status, "excluded slots are not missed"


def test_an_excluded_time_is_leapt_over():
    cluster = new_cluster("* * * * * *", exclusions=[{"start": "2026-03-01T12:00:00Z", "end": "2036-03-01T12:00:00Z"}])
    cluster.settle(NOON)
    assert cluster.back == NOON.replace(year=2036)


def test_what_lies_behind_too_many_excluded_slots_to_search_is_left_alone():
    """A second that was not excluded, and then each of an hour by itself; it must not be looked for again and again."""
    cluster = new_cluster("* * * * * *", exclusions=[{"schedule": "* 1-59 12 * * *", "durationSeconds": 1}])
    cluster.settle(clock("12:00:30"))
    cluster.settle(clock("12:55"))
    assert cluster.back is None or cluster.back > clock("12:55")


FOREVER = {
    "from now on": [{"start": "2026-01-01T00:00:00Z"}],
    "every slot": [{"schedule": "0 * * * *", "durationSeconds": 60}],
}


@cases(FOREVER)
def test_what_is_excluded_for_ever_never_fires(exclusions):
    cluster = new_cluster("0 * * * *", exclusions=exclusions)
    assert reasons(cluster.settle(NOON)) == ["InvalidSchedule"]
    assert cluster.ready() == ("False", "NeverFires")
    (condition,) = cluster.status["conditions"]
    assert condition["message"] == (
        "invalid schedule: 0 * * * * : it never fires: spec.exclusions excludes every slot that was looked at"
    )


def test_a_schedule_whose_last_slot_is_handled_is_not_ready():
    cluster = new_cluster(exclusions=[{"start": "2026-03-01T12:02:00Z"}])
    cluster.settle(NOON)
    assert cluster.ready() == ("True", "Scheduled")
    assert reasons(cluster.settle(clock("12:01"))) == ["SuccessfulCreate", "InvalidSchedule"]
    assert cluster.ready() == ("False", "NeverFires")
    assert "nextScheduleTime" not in cluster.status
    assert cluster.back is None


def test_a_last_slot_that_waits_for_another_run_is_not_over():
    cluster = new_cluster(exclusions=[{"start": "2026-03-01T12:03:00Z"}], concurrencyPolicy="Forbid")
    cluster.settle(clock("12:01"))
    cluster.settle(clock("12:02"))
    assert cluster.ready() == ("True", "Scheduled")
    cluster.end(cluster.made[-1], at=clock("12:05"))
    cluster.settle(clock("12:05"))
    assert cluster.made == [second("12:01"), second("12:02")]
    assert cluster.ready() == ("False", "NeverFires")


@cases(
    ("until the end of time", {"suspendUntil": "9999-01-01T00:00:00Z"}, ": spec.suspendUntil excludes every slot"),
    ("no slot that could be excluded", {"schedule": "0 0 30 2 *", "exclusions": FOREVER["from now on"]}, ""),
)
def test_what_keeps_a_schedule_from_firing_is_named(spec, excluding):
    cluster = new_cluster(**{"schedule": "0 * * * *", **spec})
    cluster.settle(NOON)
    (condition,) = cluster.status["conditions"]
    assert f"it never fires{excluding}" in condition["message"]
    assert ("exclude" in condition["message"]) is bool(excluding)


def test_an_interval_goes_on_in_step_after_an_excluded_time():
    cluster = new_cluster("@every 7m", exclusions=[{"start": "2026-03-01T12:10:00Z", "end": "2026-03-01T12:29:00Z"}])
    cluster.settle(NOON)
    cluster.run(clock("12:40"))
    assert cluster.made == [second("12:07"), second("12:35")]


def test_suspended_until_a_time_nothing_of_before_runs():
    cluster = new_cluster("*/10 * * * *", suspendUntil="2026-03-01T12:30:00Z")
    cluster.settle(clock("12:25"))
    assert cluster.back == clock("12:30")
    (ready,) = cluster.status["conditions"]
    assert ready["message"] == "runs start when they are due, none before 2026-03-01T12:30:00Z (spec.suspendUntil)"
    cluster.run(clock("12:45"))
    assert cluster.made == [second("12:30"), second("12:40")]
    (ready,) = cluster.status["conditions"]
    assert (ready["status"], ready["message"]) == ("True", "runs start when they are due")
    assert "missedRuns" not in cluster.status


# --- timetables


def test_a_decade_of_seconds_is_caught_up_with_at_once():
    """The count of what is missed has an end, and so has the search for it."""
    cluster = new_cluster(
        "* * * * * *", jitterSeconds=1, exclusions=[{"schedule": "0 0 * * * *", "durationSeconds": 1800}]
    )
    cluster.settle(NOON)
    cluster.settle(clock("12:45") + timedelta(days=3650))
    assert len(cluster.made) == 1
    assert cluster.status["missedRuns"] == 99, "the one of now may start in a moment"


def test_a_timetable_knows_which_schedule_asked():
    body = scheduled_job("@every 90s", schedules=[{"schedule": "*/3 * * * *"}])
    table = timetable.of(manifest.parse(body).spec, uid="u", seconds=True, created=NOON, since=NOON)
    slot = NOON
    asked = []
    for _ in range(4):
        slot = table.next(slot)
        asked.append((slot, table.line(slot).text))
    assert asked == [
        (after(90), "@every 90s"),
        (after(180), "@every 90s"),
        (after(270), "@every 90s"),
        (after(360), "@every 90s"),
    ]
