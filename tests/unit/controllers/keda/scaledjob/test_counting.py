"""Counting Jobs as of now and against a reading."""

import pytest

from tests.unit.controllers.factories import child, condition, gone, pod, reading, sample
from workers.controllers.keda.scaledjob import counting, names
from workers.controllers.keda.scaledjob.counting import JobCounts

NAMES = names.of("work", 36)
READING = reading(sample(5), started=0)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (child("work-z-0", seen=-1), JobCounts(running=1, pending=1, late=0, made=0, unstarted=1)),
        (child("work-z-0", "FailureTarget", seen=-1), JobCounts(1, 1, 0, 0, 1)),
        (child("work-z-0", "Suspended", seen=-1), JobCounts(1, 1, 0, 0, 1)),
        (child("work-z-0", "Complete", seen=-1), JobCounts(0, 0, 0, 0, 0)),
        (child("work-z-0", "Failed", seen=-1), JobCounts(0, 0, 0, 0, 0)),
        (child("work-z-0", "Complete", seen=0), JobCounts(0, 0, late=1, made=0, unstarted=1)),
        (child("work-z-0", "Failed", seen=1), JobCounts(0, 0, late=1, made=0, unstarted=1)),
        (gone("work-z-0", seen=-1), JobCounts(0, 0, 0, 0, 0)),
        (gone("work-z-0", seen=0), JobCounts(0, 0, late=1, made=0, unstarted=1)),
        (child("work-10-0", seen=1), JobCounts(1, 1, 0, made=1, unstarted=1)),
        (child("work-10-0", "Complete", seen=1), JobCounts(0, 0, late=1, made=1, unstarted=1)),
        (gone("work-10-0", seen=1), JobCounts(0, 0, late=1, made=1, unstarted=1)),
    ],
    ids=[
        "a running Job",
        "a Job about to fail still runs",
        "a suspended Job counts as running",
        "one that completed before the reading",
        "one that failed before the reading",
        "one that completed in the instant the reading began",
        "one that failed since",
        "one gone before the reading",
        "one gone since",
        "one that the reading made",
        "one that the reading made and that completed",
        "one that the reading made and that is gone",
    ],
)
def test_one_job_against_a_reading(entry, expected):
    assert counting.count([entry], [], (), READING, NAMES) == expected


@pytest.mark.parametrize(
    ("pods", "conditions", "expected"),
    [
        ([], (), True),
        ([pod("a", "Pending")], (), True),
        ([pod("a", "Failed")], (), True),
        ([pod("a", "Failed"), pod("b", "Running")], (), False),
        ([pod("a", "Succeeded")], (), False),
        ([pod("a", "Running")], ("Ready",), True),
        ([pod("a", "Pending", conditions=[condition("Ready")])], ("Ready",), False),
        ([pod("a", conditions=[condition("Ready", "False")])], ("Ready",), True),
        (
            [pod("a", conditions=[condition("Ready")]), pod("b", conditions=[condition("Warm")])],
            ("Ready", "Warm"),
            True,
        ),
        ([pod("a", conditions=[condition("Ready"), condition("Warm")])], ("Ready", "Warm"), False),
    ],
    ids=[
        "no pods yet",
        "a pending pod",
        "only a failed pod",
        "one of them runs",
        "one has succeeded",
        "running, but a condition is asked for",
        "the condition decides, not the phase",
        "the condition is false",
        "conditions may not be split over pods",
        "one pod has them all",
    ],
)
def test_which_jobs_are_pending(pods, conditions, expected):
    assert counting.is_pending([each.body for each in pods], conditions) is expected


def test_pods_are_matched_to_their_jobs():
    jobs = [child("work-z-0", seen=-1), child("work-z-1", seen=-1)]
    pods = [pod("a", "Running", job="work-z-0"), pod("b", "Pending", job="work-z-1")]
    assert counting.count(jobs, pods, (), READING, NAMES) == JobCounts(2, pending=1, late=0, made=0, unstarted=1)


def test_a_job_that_changed_since_the_reading_may_have_started_since():
    pods = [pod("a", "Running", job="work-z-0")]
    assert counting.count([child("work-z-0", seen=1)], pods, (), READING, NAMES).unstarted == 1
    assert counting.count([child("work-z-0", seen=-1)], pods, (), READING, NAMES).unstarted == 0
