"""The slots of a CronJob that run: where Kubernetes estimates and ours is exact, clocks that jump, and edits."""

from datetime import timedelta

import pytest

from tests.support.tables import cases, for_each
from tests.unit.controllers.batch.cronjob.cronjobs import (
    NOON,
    OBSERVED,
    after,
    clock,
    cron_job_cluster,
    minute,
    reasons,
    scheduled_job_cluster,
)
from tests.unit.controllers.batch.cronjob.cronjobs import cron_job_cluster as new_cluster
from tests.unit.controllers.batch.cronjob.cronjobs import running_cron_job as running
from workers.api import times
from workers.decision.plan import ComeBack

# --- unmet slots: where Kubernetes estimates


@cases(
    ("uneven hours", "30 10,11,12 * * 1-5", clock("10:30", 5), clock("16:30", 6), clock("12:30", 6)),
    ("one hour of minutes", "* 0 * * *", clock("00:10"), clock("10:00"), clock("00:59")),
    ("every minute of years", "* * * * *", clock("12:00"), clock("12:00:30") + timedelta(days=900), None),
    ("a month", "0 0 1 * *", clock("00:00"), clock("12:00", 20), None),
    ("exactly now", "0 13 * * *", clock("12:30"), clock("13:00"), clock("13:00")),
    ("a moment before", "0 13 * * *", clock("12:30"), clock("12:59:59"), None),
)
def test_the_newest_slot_that_was_not_met_runs(schedule, last, now, slot):
    cluster = new_cluster(schedule, status={"lastScheduleTime": times.render(last)}, created=clock("00:00"))
    cluster.settle(now)
    expected = slot or (now.replace(second=0) if schedule == "* * * * *" else None)
    assert cluster.made == ([f"report-{int(expected.timestamp()) // 60}"] if expected else [])


@cases(
    ("in time", 10, clock("12:01:05"), True),
    ("exactly", 10, clock("12:01:10"), True),
    ("within the second", 10, after(0.9, clock("12:01:10")), True),
    ("too late", 10, clock("12:01:11"), False),
    ("none at all, at once", 0, after(0.3, clock("12:01")), True),
    ("none at all, late", 0, clock("12:01:01"), False),
    ("far more than there was", 10**12, clock("12:01:40"), True),
)
def test_a_run_may_be_as_late_as_its_deadline(deadline, now, runs):
    cluster = new_cluster(startingDeadlineSeconds=deadline)
    events = reasons(cluster.settle(now))
    assert (cluster.made, events) == (([minute("12:01")], ["SuccessfulCreate"]) if runs else ([], ["MissSchedule"]))


@for_each(
    (100, None, False),
    (101, None, True),
    (5000, None, True),
    (5000, 200, False),
    (5000, 6000, False),
    (5000, 6060, True),
    (90, 10**6, False),
)
def test_more_than_a_hundred_missed_slots_are_warned_of_and_block_nothing(passed, deadline, warned):
    """Only those that the deadline still allows count, as in Kubernetes."""
    cluster = new_cluster(**({"startingDeadlineSeconds": deadline} if deadline else {}))
    events = cluster.settle(after(60 * passed))
    assert len(cluster.made) == 1
    told = [each.message for each in events if each.reason == "TooManyMissedTimes"]
    too_many = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
    assert told == [too_many] * warned
    (missed,) = [each.message for each in events if each.reason == "MissSchedule"]
    assert missed.startswith(f"Missed {passed - 1 if passed <= 101 else 'at least 100'} scheduled time(s)")


def test_an_interval_keeps_its_anchor_after_missed_slots():
    cluster = new_cluster("@every 1h", startingDeadlineSeconds=10)
    cluster.settle(clock("13:00"))
    cluster.settle(clock("16:30"))
    cluster.settle(clock("17:00"))
    assert cluster.made == [minute("13:00"), minute("17:00")]


def test_an_interval_continues_from_the_last_slot():
    cluster = new_cluster("@every 1h", status={"lastScheduleTime": times.render(clock("12:20"))})
    cluster.settle(clock("13:25"))
    assert cluster.made == [minute("13:20")]


def test_an_interval_below_a_minute_runs_once_a_minute_and_loops_nowhere():
    cluster = new_cluster("@every 30s")
    cluster.settle(NOON)
    cluster.run(clock("12:03:45"))
    assert cluster.made == [minute("12:00"), minute("12:01"), minute("12:02"), minute("12:03")]


@pytest.mark.parametrize(
    ("schedule", "warned"),
    [("@every 20s", True), ("@every 1m", False), ("* * * * *", False)],
    ids=lambda each: each,
)
def test_several_slots_of_a_minute_are_warned_of_with_every_run(schedule, warned):
    cluster = new_cluster(schedule)
    cluster.settle(NOON)
    cluster.run(clock("12:02:45"))
    found = [record for record in cluster.events if record.reason == "UnsupportedSchedule"]
    assert len(cluster.made) >= 2
    assert len(found) == (len(cluster.made) if warned else 0)


def test_a_zone_in_the_text_is_warned_of_with_every_run_and_followed():
    cluster = new_cluster("CRON_TZ=Asia/Tokyo 0 22 * * *", timeZone="Europe/Berlin")
    assert "UnsupportedSchedule" in reasons(cluster.settle(clock("13:00")))
    assert cluster.made == [minute("13:00")]


# --- time goes wrong

HOUR = timedelta(hours=1)


def test_a_clock_that_jumps_back_runs_nothing_twice():
    cluster = new_cluster("*/30 * * * *")
    cluster.settle(clock("12:30"))
    cluster.settle(clock("13:00"))
    assert "ScheduleTimeInFuture" in reasons(cluster.settle(clock("12:01")))
    assert cluster.back == clock("13:30")
    for time in ("12:30", "13:00", "13:30"):
        cluster.settle(clock(time))
    assert cluster.made == [minute("12:30"), minute("13:00"), minute("13:30")]


def test_a_clock_that_jumps_forward_loses_no_run():
    cluster = new_cluster("0 13 * * *")
    cluster.settle(clock("12:30"))
    cluster.settle(clock("13:30"))
    cluster.settle(clock("12:40"))
    cluster.settle(clock("13:00"))
    assert cluster.made == [minute("13:00")]


def test_a_job_of_a_future_slot_is_not_made_again():
    """Killed before the status was written, then the clock was set back."""
    cluster = new_cluster("0 * * * *")
    cluster.step(clock("13:00"), steps=1)
    cluster.settle(clock("12:10"))
    cluster.settle(clock("13:00"))
    assert (cluster.made, cluster.status["lastScheduleTime"]) == ([minute("13:00")], times.render(clock("13:00")))


@cases(
    ("minutes ahead", clock("12:30"), clock("12:30"), "nothing is due until then"),
    ("hours ahead", clock("20:00"), clock("20:00"), "nothing is due until then"),
    ("years ahead", clock("12:00") + 900 * 24 * HOUR, clock("12:10"), "set back to now"),
)
def test_a_last_schedule_time_in_the_future(last, resumes, words):
    cluster = new_cluster(status={"lastScheduleTime": times.render(last)})
    (events,) = cluster.settle(clock("12:10"))
    assert (events.type, events.reason) == ("Warning", "ScheduleTimeInFuture")
    assert words in events.message
    assert cluster.back == resumes + timedelta(minutes=1)
    assert cluster.made == []
    cluster.settle(cluster.back)
    assert len(cluster.made) == 1


def test_clocks_that_differ_a_little_are_not_worth_a_word():
    cluster = running()
    assert cluster.settle(after(-5, clock("12:01"))) == []


@for_each("yesterday", "", 7, None)
def test_a_malformed_time_counts_as_none(text):
    cluster = new_cluster(status={"lastScheduleTime": text}, annotations={"penstock.dev/last-missed-time": "soon"})
    cluster.settle(clock("12:01"))
    assert cluster.made == [minute("12:01")]


@cases(
    ("of the CronJob that this one is a copy of", clock("02:00", 3), clock("12:00:01", 5), []),
    ("of it, and a slot since the creation", clock("02:00", 3), clock("13:30", 5), [minute("13:00", 5)]),
    ("its own", clock("13:00", 5), clock("13:30", 5), []),
)
def test_a_missed_time_from_before_the_creation_does_not_count(missed, now, made):
    """Annotations are part of an exported manifest."""
    annotations = {"penstock.dev/last-missed-time": times.render(missed)}
    cluster = new_cluster("0 2,13 * * *", created=clock("12:00", 5), annotations=annotations)
    cluster.settle(now)
    assert (cluster.made, reasons(cluster.events)) == (made, ["SuccessfulCreate"] * len(made))


# --- edits


# 10:00 of the next day is when the edit is made; the last run was at noon.
@cases(("CronJob", cron_job_cluster), ("ScheduledJob", scheduled_job_cluster))
@cases(
    ("a time that has passed today", {"schedule": "0 9 * * *"}, {}, clock("09:00", 3)),
    ("a time that is to come", {"schedule": "0 11 * * *"}, {}, clock("11:00", 2)),
    ("more times, the old one among them", {"schedule": "0 9,12 * * *"}, {}, clock("12:00", 2)),
    ("with a deadline", {"schedule": "0 9 * * *"}, {"startingDeadlineSeconds": 7200}, clock("09:00", 3)),
    ("another zone", {"timeZone": "Asia/Tokyo"}, {}, clock("03:00", 3)),
    ("an interval counts from the last run", {"schedule": "@every 3h"}, {}, clock("12:00", 2)),
    ("suspended, resumed with it", {"schedule": "0 9 * * *", "suspend": False}, {"suspend": True}, clock("09:00", 3)),
)
def test_an_edited_schedule_waits_for_its_next_slot(edit, spec, first, new):
    cluster = new("0 12 * * *", **spec)
    cluster.body["status"] = {"lastScheduleTime": times.render(NOON)}
    cluster.settle(clock("09:59", 2))
    cluster.edit(**edit)
    assert reasons(cluster.settle(clock("10:00", 2))) == []
    assert cluster.settle(clock("10:00:30", 2)) == []
    assert (cluster.made, cluster.back) == ([], first)
    cluster.settle(first)
    assert len(cluster.made) == 1


@cases(("CronJob", cron_job_cluster), ("ScheduledJob", scheduled_job_cluster))
def test_an_edit_before_the_first_run_waits_too_and_loses_no_slot_that_it_just_preceded(new):
    cluster = new("0 20 * * *")
    cluster.settle(clock("12:30"))
    cluster.edit(schedule="0 12 * * *")
    cluster.settle(clock("13:00"))
    assert (cluster.made, cluster.back) == ([], clock("12:00", 2))
    cluster.edit(schedule="30 13 * * *")
    cluster.settle(clock("13:30:01"))
    assert len(cluster.made) == 1, "the edit may have been made before the slot"


@cases(("CronJob", cron_job_cluster), ("ScheduledJob", scheduled_job_cluster))
def test_an_edit_after_the_clock_was_set_back_makes_no_earlier_slot_due(new):
    cluster = new("0 20 * * *")
    for moment, schedule in (("12:30", "0 20 * * *"), ("13:00", "0 12 * * *"), ("12:01", "30 * * * *")):
        cluster.edit(schedule=schedule)
        cluster.settle(clock(moment))
    assert cluster.back == clock("13:30")


def test_a_plan_that_records_an_edit_may_end_anywhere():
    for steps in range(3):
        cluster = cron_job_cluster("0 20 * * *")
        cluster.settle(clock("12:30"))
        cluster.edit(schedule="0 12,20 * * *")
        cluster.step(clock("13:00"), steps=steps)
        cluster.settle(clock("13:00:01"))
        assert (cluster.made, cluster.back) == ([], clock("20:00"))


def test_a_schedule_is_recorded_once_and_its_edit_with_the_instant():
    cluster = cron_job_cluster("0 20 * * *", timeZone="Asia/Tokyo")
    cluster.settle(clock("12:30"))
    assert cluster.body["metadata"]["annotations"] == {OBSERVED: "0 20 * * * (Asia/Tokyo)"}
    cluster.edit(schedule="0 12 * * *")
    cluster.settle(clock("13:00:10"))
    edited = "0 12 * * * (Asia/Tokyo) since 2026-03-01T13:00:08Z"
    assert cluster.body["metadata"]["annotations"] == {OBSERVED: edited}
    assert cluster.decide(clock("14:00")).steps == (ComeBack(clock("03:00", 2)),)


@cases(("", None, [minute("12:10")]), ("with a deadline", 5, []))
def test_resuming_makes_up_the_newest_slot(deadline, made):
    cluster = new_cluster(suspend=True, **({"startingDeadlineSeconds": deadline} if deadline else {}))
    cluster.settle(clock("12:05"))
    assert cluster.made == []
    cluster.edit(suspend=False)
    cluster.settle(clock("12:10:30"))
    assert cluster.made == made
