"""Counting Jobs as of now and against a reading."""

from tests.support.tables import cases
from tests.unit.controllers.factories import child, condition, gone, micros, pod, reading, sample
from workers.controllers.keda.scaledjob import counting, names
from workers.controllers.keda.scaledjob.counting import JobCounts

READING = reading(sample(5), started=0)


def count(jobs, pods=()):
    return counting.count(jobs, pods, (), READING, "work", 30)


@cases(
    ("a running Job", child("work-z-0", seen=-1), (1, 1, 0, 0, 1)),
    ("a Job about to fail still runs", child("work-z-0", "FailureTarget", seen=-1), (1, 1, 0, 0, 1)),
    ("a suspended Job counts as running", child("work-z-0", "Suspended", seen=-1), (1, 1, 0, 0, 1)),
    ("one that completed before the reading", child("work-z-0", "Complete", seen=-1), (0, 0, 0, 0, 0)),
    ("one that failed before the reading", child("work-z-0", "Failed", seen=-1), (0, 0, 0, 0, 0)),
    (
        "one that completed in the instant the reading began",
        child("work-z-0", "Complete", seen=0),
        (0, 0, 1, 0, 1, 0, 1),
    ),
    ("one that failed since", child("work-z-0", "Failed", seen=1), (0, 0, 1, 0, 1, 1, 0)),
    ("one gone before the reading", gone("work-z-0", seen=-1), (0, 0, 0, 0, 0)),
    ("one gone since", gone("work-z-0", seen=0), (0, 0, 1, 0, 1)),
    ("one that the reading made", child("work-10-0", seen=1), (1, 1, 0, 1, 1)),
    ("one that the reading made and that completed", child("work-10-0", "Complete", seen=1), (0, 0, 1, 1, 1, 0, 1)),
    ("one that the reading made and that failed", child("work-10-0", "Failed", seen=1), (0, 0, 1, 1, 1, 1, 0)),
    ("one that the reading made and that is gone", gone("work-10-0", seen=1), (0, 0, 1, 1, 1)),
)
def test_one_job_against_a_reading(entry, expected):
    """expected: running, pending, late, made, unstarted, failed, completed."""
    assert count([entry]) == JobCounts(*expected)


@cases(
    ("no pods yet", [], (), True),
    ("a pending pod", [pod("a", "Pending")], (), True),
    ("only a failed pod", [pod("a", "Failed")], (), True),
    ("one of them runs", [pod("a", "Failed"), pod("b", "Running")], (), False),
    ("one has succeeded", [pod("a", "Succeeded")], (), False),
    ("running, but a condition is asked for", [pod("a", "Running")], ("Ready",), True),
    ("the condition decides, not the phase", [pod("a", "Pending", conditions=[condition("Ready")])], ("Ready",), False),
    ("the condition is false", [pod("a", conditions=[condition("Ready", "False")])], ("Ready",), True),
    (
        "conditions may not be split over pods",
        [pod("a", conditions=[condition("Ready")]), pod("b", conditions=[condition("Warm")])],
        ("Ready", "Warm"),
        True,
    ),
    ("one pod has them all", [pod("a", conditions=[condition("Ready"), condition("Warm")])], ("Ready", "Warm"), False),
)
def test_which_jobs_are_pending(pods, conditions, expected):
    assert counting.is_pending([each.body for each in pods], conditions) is expected


def test_pods_are_matched_to_their_jobs():
    jobs = [child("work-z-0", seen=-1), child("work-z-1", seen=-1)]
    pods = [pod("a", "Running", job="work-z-0"), pod("b", "Pending", job="work-z-1")]
    assert count(jobs, pods) == JobCounts(2, pending=1, late=0, made=0, unstarted=1)


def test_a_job_that_changed_since_the_reading_may_have_started_since():
    pods = [pod("a", "Running", job="work-z-0")]
    assert count([child("work-z-0", seen=1)], pods).unstarted == 1
    assert count([child("work-z-0", seen=-1)], pods).unstarted == 0


def made_at(seconds):
    return names.of("work", micros(seconds)).name(0)


@cases(
    ("it completed within an interval of its poll", child(made_at(-29), "Complete", seen=0.5), 1),
    ("it is gone within an interval", gone(made_at(-29), seen=0.5), 1),
    ("it lived longer", child(made_at(-30), "Complete", seen=0.5), 0),
    ("it failed, and counts as that", child(made_at(-29), "Failed", seen=0.5), 0),
    ("it ended before this reading", child(made_at(-29), "Complete", seen=-0.5), 0),
    ("it runs", child(made_at(-29), seen=0.5), 0),
    ("no poll made it", child("by-hand", "Complete", seen=0.5), 0),
)
def test_which_jobs_were_brief(entry, expected):
    assert count([entry]).brief == expected


def test_a_job_that_may_have_failed_has_room_in_the_minimum_once():
    """Of Jobs that are gone it may be unknown whether they failed; brief ones among them count as both."""
    assert JobCounts(1, pending=0, late=2, made=0, unstarted=2, failed=2, brief=2).in_minimum == 3
