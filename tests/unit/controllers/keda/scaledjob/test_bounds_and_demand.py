"""Effective bounds, and what a reading asks for (KEDA's arithmetic)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import sample, scaled_job
from workers.api.keda import scaledjob
from workers.api.keda.scaledjob import Activation, ScalingStrategy
from workers.controllers.keda.scaledjob import demand, scaling_strategies
from workers.controllers.keda.scaledjob.counting import JobCounts
from workers.controllers.keda.scaledjob.demand import JobBounds
from workers.errors import UserError

TEN = JobBounds(0, 10)


@cases(
    ("nothing is set", {}, JobBounds(0, 100)),
    ("only a minimum: the default maximum stays whole", {"minReplicaCount": 5}, JobBounds(5, 100)),
    ("only a maximum", {"maxReplicaCount": 20}, JobBounds(0, 20)),
    ("the minimum is taken out of the maximum", {"minReplicaCount": 5, "maxReplicaCount": 20}, JobBounds(5, 15)),
    (
        "a minimum equal to the maximum leaves no room beyond it",
        {"minReplicaCount": 20, "maxReplicaCount": 20},
        JobBounds(20, 0),
    ),
    ("a minimum above the maximum is cut to it", {"minReplicaCount": 30, "maxReplicaCount": 20}, JobBounds(20, 0)),
    ("null is not set", {"minReplicaCount": None, "maxReplicaCount": None}, JobBounds(0, 100)),
)
def test_effective_bounds(given, expected):
    assert demand.effective_bounds(scaledjob.parse(scaled_job(**given)).spec) == expected


@cases(
    ("max takes the longest queue", "max", [sample(3), sample(7), sample(5)], 7, 7, True),
    (
        "max goes by the queue, not by the Jobs it asks for",
        "max",
        [sample(30, target=10), sample(20, target=1)],
        30,
        3,
        True,
    ),
    ("max: an active trigger with nothing waiting does not activate", "max", [sample(0, active=True)], 0, 0, False),
    ("inactive triggers take no part", "max", [sample(3), sample(9, active=False)], 3, 3, True),
    ("failing triggers take no part", "max", [sample(3), sample(9, error="no route")], 3, 3, True),
    ("no trigger at all", "max", [], 0, 0, False),
    ("Jobs are capped, the queue is not", "max", [sample(500)], 500, 10, True),
    ("half an event is an event", "max", [sample(2.1)], 3, 3, True),
    ("a Job takes as many events as the target says", "max", [sample(21, target=10)], 21, 3, True),
    ("a target of zero asks for no Jobs", "max", [sample(5, target=0)], 5, 0, True),
    ("min takes the shortest queue", "min", [sample(7), sample(3)], 3, 3, True),
    ("min: an empty queue seen first is replaced", "min", [sample(0, active=True), sample(5)], 5, 5, True),
    ("min: an empty queue seen last wins", "min", [sample(5), sample(0, active=True)], 0, 0, True),
    ("avg takes the mean and rounds up", "avg", [sample(2), sample(5)], 4, 4, True),
    ("avg takes the mean of what is capped", "avg", [sample(100), sample(2)], 51, 6, True),
    ("avg: active with nothing waiting", "avg", [sample(0, active=True)], 0, 0, True),
    ("sum adds up", "sum", [sample(3), sample(4)], 7, 7, True),
    ("sum is capped as a whole", "sum", [sample(8), sample(8)], 16, 10, True),
    ("sum leaves out inactive ones", "sum", [sample(3), sample(4, active=False)], 3, 3, True),
)
def test_combining_triggers(calculation, samples, queue, scale, active):
    asked = demand.of(samples, calculation, TEN)
    assert (asked.queue, asked.scale, asked.active) == (queue, scale, active)


A, B, C = (sample(value, name=name) for value, name in ((6, "a"), (3, "b"), (1, "c")))
IDLE, BROKEN = sample(0, name="d"), sample(name="e", error="no route")


@cases(
    ("one is enough when nothing is said", [A, IDLE], {}, {}, True),
    ("all are active", [A, B], {}, {"require_all": True}, True),
    ("one is idle", [A, IDLE], {}, {"require_all": True}, False),
    ("one is not known", [A, BROKEN], {}, {"require_all": True}, False),
    ("not all need to be", [A, IDLE], {}, {"require_all": False}, True),
    ("as many as are wanted", [A, B, IDLE], {}, {"min_weight": 2}, True),
    ("too few", [A, IDLE, BROKEN], {}, {"min_weight": 2}, False),
    ("too light together", [A, B], {"a": 0.4, "b": 0.5}, {"min_weight": 1}, False),
    ("one that is heavy enough", [A, IDLE], {"a": 3}, {"min_weight": 3}, True),
    ("both rules must hold", [A, B], {}, {"require_all": True, "min_weight": 3}, False),
    ("nothing weighs nothing, and is no work", [], {}, {"min_weight": 0}, False),
)
def test_when_triggers_together_are_work_to_do(samples, weights, activation, active):
    asked = demand.of(samples, "max", TEN, weights, Activation(**activation))
    assert asked.active is active
    assert bool(asked.queue) is active


@cases(
    ("a weighted sum", "sum", {"a": 0.5, "b": 2}, 10, 10),
    ("a weighted mean", "avg", {"a": 1, "b": 3}, 4, 4),
    ("a mean of nothing", "avg", {"a": 0, "b": 0, "c": 0}, 0, 0),
    ("a trigger left out", "sum", {"a": 0}, 4, 4),
    ("max as it is", "max", {"a": 0.1}, 6, 6),
    ("min as it is", "min", {"c": 9}, 1, 1),
)
def test_weights_count_in_sums_and_means(calculation, weights, queue, whole):
    asked = demand.of([A, B, C], calculation, TEN, weights)
    assert (asked.queue, asked.whole) == (queue, whole)


def test_weights_are_given_by_the_names_of_triggers():
    triggers = [{"type": "redis", "metadata": {}}, {"type": "redis", "metadata": {}, "name": "orders"}]
    spec = {"triggers": triggers, "scalingStrategy": {"weights": {"orders": 2}}}
    assert demand.weights(scaledjob.parse(scaled_job(**spec)).spec, [A, B]) == {"b": 2}
    with pytest.raises(UserError, match="no trigger named 'mails'"):
        scaledjob.parse(scaled_job(**{**spec, "scalingStrategy": {"weights": {"mails": 1}}}))


@given(
    values=st.lists(st.integers(0, 9), min_size=2, max_size=4),
    place=st.integers(0, 3),
    more=st.integers(1, 9),
    calculation=st.sampled_from(["max", "avg", "sum"]),
    min_weight=st.none() | st.floats(0, 4),
    strategy=st.sampled_from(["default", "accurate", "eager", "custom"]),
    running=st.integers(0, 6),
)
def test_a_longer_queue_never_makes_fewer_jobs(values, place, more, calculation, min_weight, strategy, running):
    """All triggers stay active, so that it is the length alone that changes."""
    longer = [value + more * (index == place % len(values)) for index, value in enumerate(values)]
    asked = ScalingStrategy(strategy=strategy, custom_scaling_running_job_percentage="0.5")
    numbers = []
    for queue in (values, longer):
        samples = [sample(value, name=f"s{index}", active=True) for index, value in enumerate(queue)]
        found = demand.of(samples, calculation, TEN, {}, Activation(min_weight=min_weight))
        numbers.append(scaling_strategies.justified(asked, found, JobCounts(running, 0, 0, 0, 0), TEN))
    assert numbers[0] <= numbers[1]
    assert running + numbers[1] <= max(running, TEN.maximum)


@for_each("max", "min", "avg", "sum")
@for_each(1e300, 1.7e308, 2.0**63)
def test_a_queue_longer_than_any_number_of_64_bits_is_the_longest(value, calculation):
    found = demand.of(
        [sample(value, target=1e-3), sample(value, name="s1", target=1e-3)], calculation, JobBounds(0, 10)
    )
    assert (found.queue, found.scale, found.whole, found.active) == (2**63 - 1, 10, 2**63 - 1, True)


def test_what_is_asked_for_is_also_known_without_the_cap():
    assert demand.of([sample(55, target=2)], "max", TEN).whole == 28
    assert demand.of([sample(8), sample(8)], "sum", TEN).whole == 16


def test_a_minimum_makes_it_active_whatever_the_triggers_say():
    asked = demand.of([sample(0)], "max", JobBounds(2, 10))
    assert asked.active
    assert asked.scale == 0
