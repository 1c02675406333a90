"""The arithmetic that is shown is the arithmetic that was done."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW, child, reading, sample, scaled_job, snapshot
from workers.api.keda.scaledjob import ScalingStrategy
from workers.controllers.keda.scaledjob import decide, scaling_strategies
from workers.controllers.keda.scaledjob.counting import JobCounts
from workers.controllers.keda.scaledjob.demand import Demand, JobBounds

_NAMES = {"min": min, "max": max, "int": int, "ceil": ceil}

few = st.integers(0, 12)


@st.composite
def counts(draw):
    running, late = draw(few), draw(few)
    pending = draw(st.integers(0, running))
    made = draw(st.integers(0, running + late))
    return JobCounts(running, pending, late, made, draw(st.integers(pending, running + late)))


@given(
    strategy=st.builds(
        ScalingStrategy,
        strategy=st.sampled_from([None, "default", "accurate", "eager", "custom"]),
        custom_scaling_queue_length_deduction=st.none() | st.integers(-3, 3),
        custom_scaling_running_job_percentage=st.sampled_from([None, "0.5", "nonsense"]),
    ),
    demand=st.builds(Demand, queue=few, scale=few, whole=few, active=st.booleans()),
    counts=counts(),
    bounds=st.builds(JobBounds, few, few),
)
def test_every_sum_gives_its_figure_and_the_last_figure_is_the_decision(strategy, demand, counts, bounds):
    figures = scaling_strategies.figures(strategy, demand, counts, bounds)
    for figure in figures:
        assert not figure.how or eval(figure.how, {"__builtins__": {}}, _NAMES) == figure.value, figure
    assert figures[-1].value == scaling_strategies.justified(strategy, demand, counts, bounds) >= 0


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


@cases(("default", "default", "the queue"), ("eager", "eager", "the maximum"))
def test_what_bounds_a_strategy_is_told(strategy, limit):
    body = scaled_job(maxReplicaCount=5, scalingStrategy={"strategy": strategy})
    figures = decide(snapshot(body, reading=reading(sample(12))), NOW).figures
    assert f"not above {limit}" in {figure.name for figure in figures}


@cases(
    ("one trigger", {}, (4,), 4, ""),
    ("the longest", {}, (4, 2), 4, "ceil(max(4, 2))"),
    ("the shortest", {"multipleScalersCalculation": "min"}, (4, 2), 2, "ceil(min(4, 2))"),
    ("the mean", {"multipleScalersCalculation": "avg"}, (4, 3), 4, "ceil((4 + 3) / 2)"),
    ("all that are active", {"multipleScalersCalculation": "sum"}, (4, 2, 0), 6, "ceil(4 + 2)"),
    ("weights", {"multipleScalersCalculation": "sum", "weights": {"t0": 0.5}}, (4, 2), 4, "ceil(4 * 0.5 + 2)"),
    ("one weight", {"multipleScalersCalculation": "sum", "weights": {"t0": 0.5}}, (5,), 3, "ceil(5 * 0.5)"),
    (
        "too few are active",
        {"activation": {"requireAll": True}},
        (4, 0),
        0,
        "0, for activation asks for more than the 1 of 2 triggers that are active",
    ),
)
def test_how_several_queues_became_one_is_told(spec, values, queue, how):
    (trigger,) = scaled_job()["spec"]["triggers"]
    triggers = [{**trigger, "name": f"t{index}"} for index in range(len(values))]
    measured = reading(*(sample(value, name=f"s{index}") for index, value in enumerate(values)))
    plan = decide(snapshot(scaled_job(triggers=triggers, scalingStrategy=spec), reading=measured), NOW)
    told = {figure.name: (figure.value, figure.how) for figure in plan.figures}
    assert told["queue"] == (queue, how)


@cases(
    ("all is known", (sample(2),), "2 waiting, 0 running"),
    ("nothing is known", (sample(error="no route"),), "0 waiting (1 of 1 trigger unknown), 0 running"),
    (
        "a part is known",
        (sample(2), sample(name="s1", error="no route")),
        "2 waiting (1 of 2 triggers unknown), 0 running",
    ),
)
def test_what_is_unknown_does_not_pass_for_an_empty_queue(samples, why):
    assert decide(snapshot(scaled_job(), reading=reading(*samples)), NOW).why.startswith(why)


@cases(("none", {}), ("a problem", {"reading": reading(problem="listName is required")}))
def test_without_a_measurement_there_is_no_arithmetic(of):
    assert decide(snapshot(scaled_job(), **of), NOW).figures == ()
