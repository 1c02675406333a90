"""The arithmetic that is shown is the arithmetic that was done."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controllers.factories import NOW, child, reading, sample, scaled_job, snapshot
from workers.api.scaledjob import ScalingStrategy
from workers.controllers.scaledjob import creation, decide
from workers.controllers.scaledjob.bounds import Bounds
from workers.controllers.scaledjob.counting import Counts
from workers.controllers.scaledjob.demand import Demand

_NAMES = {"min": min, "max": max, "int": int, "ceil": ceil}

few = st.integers(0, 12)


@st.composite
def counts(draw):
    running, late = draw(few), draw(few)
    pending = draw(st.integers(0, running))
    made = draw(st.integers(0, running + late))
    return Counts(running, pending, late, made, draw(st.integers(pending, running + late)))


@given(
    strategy=st.builds(
        ScalingStrategy,
        strategy=st.sampled_from([None, "default", "accurate", "eager", "custom"]),
        custom_scaling_queue_length_deduction=st.none() | st.integers(-3, 3),
        custom_scaling_running_job_percentage=st.sampled_from([None, "0.5", "nonsense"]),
    ),
    demand=st.builds(Demand, queue=few, scale=few, whole=few, active=st.booleans()),
    counts=counts(),
    bounds=st.builds(Bounds, few, few),
)
def test_every_sum_gives_its_figure_and_the_last_figure_is_the_decision(strategy, demand, counts, bounds):
    figures = creation.worked_out(strategy, demand, counts, bounds)
    for figure in figures:
        assert not figure.how or eval(figure.how, {"__builtins__": {}}, _NAMES) == figure.value, figure
    assert figures[-1].value == creation.justified(strategy, demand, counts, bounds) >= 0


def test_a_decision_tells_what_it_went_by():
    seen = snapshot(
        scaled_job(maxReplicaCount=5),
        child("work-z-0"),
        reading=reading(sample(12), sample(name="s1", error="no route")),
    )
    told = {figure.name: (figure.value, figure.how) for figure in decide(seen, NOW).figures}
    assert told["s0-redis-work waiting (1 per Job)"] == (12, "")
    assert told["s1 is not known: no route"] == (0, "")
    assert told["Jobs not finished"] == (1, "")
    assert told["strategy default"] == (4, "5 - 1")
    assert told["to create"] == (4, "max(0, min(4, 11))")


@pytest.mark.parametrize("of", [{}, {"reading": reading(problem="listName is required")}], ids=["none", "a problem"])
def test_without_a_measurement_there_is_no_arithmetic(of):
    assert decide(snapshot(scaled_job(), **of), NOW).figures == ()
