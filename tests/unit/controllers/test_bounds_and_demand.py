"""Effective bounds, and what a reading asks for (KEDA's arithmetic)."""

import pytest

from tests.unit.controllers.factories import sample, scaled_job
from workers.api import scaledjob
from workers.controllers.scaledjob import bounds, demand
from workers.controllers.scaledjob.bounds import Bounds

TEN = Bounds(0, 10)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Bounds(0, 100)),
        ({"minReplicaCount": 5}, Bounds(5, 100)),
        ({"maxReplicaCount": 20}, Bounds(0, 20)),
        ({"minReplicaCount": 5, "maxReplicaCount": 20}, Bounds(5, 15)),
        ({"minReplicaCount": 20, "maxReplicaCount": 20}, Bounds(20, 0)),
        ({"minReplicaCount": 30, "maxReplicaCount": 20}, Bounds(20, 20)),
        ({"minReplicaCount": None, "maxReplicaCount": None}, Bounds(0, 100)),
    ],
    ids=[
        "nothing is set",
        "only a minimum: the default maximum stays whole",
        "only a maximum",
        "the minimum is taken out of the maximum",
        "a minimum equal to the maximum leaves no room beyond it",
        "a minimum above the maximum is cut to it",
        "null is not set",
    ],
)
def test_effective_bounds(given, expected):
    assert bounds.effective(scaledjob.parse(scaled_job(**given)).spec) == expected


@pytest.mark.parametrize(
    ("calculation", "samples", "queue", "scale", "active"),
    [
        ("max", [sample(3), sample(7), sample(5)], 7, 7, True),
        ("max", [sample(30, target=10), sample(20, target=1)], 30, 3, True),
        ("max", [sample(0, active=True)], 0, 0, False),
        ("max", [sample(3), sample(9, active=False)], 3, 3, True),
        ("max", [sample(3), sample(9, error="no route")], 3, 3, True),
        ("max", [], 0, 0, False),
        ("max", [sample(500)], 500, 10, True),
        ("max", [sample(2.1)], 3, 3, True),
        ("max", [sample(21, target=10)], 21, 3, True),
        ("max", [sample(5, target=0)], 5, 0, True),
        ("min", [sample(7), sample(3)], 3, 3, True),
        ("min", [sample(0, active=True), sample(5)], 5, 5, True),
        ("min", [sample(5), sample(0, active=True)], 0, 0, True),
        ("avg", [sample(2), sample(5)], 4, 4, True),
        ("avg", [sample(100), sample(2)], 51, 6, True),
        ("avg", [sample(0, active=True)], 0, 0, True),
        ("sum", [sample(3), sample(4)], 7, 7, True),
        ("sum", [sample(8), sample(8)], 16, 10, True),
        ("sum", [sample(3), sample(4, active=False)], 3, 3, True),
    ],
    ids=[
        "max takes the longest queue",
        "max goes by the queue, not by the Jobs it asks for",
        "max: an active trigger with nothing waiting does not activate",
        "inactive triggers take no part",
        "failing triggers take no part",
        "no trigger at all",
        "Jobs are capped, the queue is not",
        "half an event is an event",
        "a Job takes as many events as the target says",
        "a target of zero asks for no Jobs",
        "min takes the shortest queue",
        "min: an empty queue seen first is replaced",
        "min: an empty queue seen last wins",
        "avg takes the mean and rounds up",
        "avg takes the mean of what is capped",
        "avg: active with nothing waiting",
        "sum adds up",
        "sum is capped as a whole",
        "sum leaves out inactive ones",
    ],
)
def test_combining_triggers(calculation, samples, queue, scale, active):
    asked = demand.of(samples, calculation, TEN)
    assert (asked.queue, asked.scale, asked.active) == (queue, scale, active)


def test_what_is_asked_for_is_also_known_without_the_cap():
    assert demand.of([sample(55, target=2)], "max", TEN).whole == 28
    assert demand.of([sample(8), sample(8)], "sum", TEN).whole == 16


def test_a_minimum_makes_it_active_whatever_the_triggers_say():
    asked = demand.of([sample(0)], "max", Bounds(2, 10))
    assert asked.active
    assert asked.scale == 0
