"""A ScaledJob with `cpu` or `memory` triggers: they do nothing, and the condition says so."""

from dataclasses import replace

from tests.support.tables import for_each
from tests.unit.controllers.factories import NOW, reading, sample, scaled_job, snapshot
from tests.unit.controllers.plans import condition, created
from workers.controllers.keda.scaledjob import decide
from workers.decision.snapshot import TriggerSample

CPU = sample(0, active=False, target=0.0, name="s1-cpu", type="cpu")


def ready(*samples: TriggerSample) -> str:
    plan = decide(snapshot(scaled_job(), reading=reading(*samples)), NOW)
    found = condition(plan, "Ready")
    return f"{found['status']}: {found['message']}"


def test_the_condition_names_what_has_no_effect() -> None:
    assert ready(sample(2)) == "True: defined correctly and ready to scale"
    below = sample(-3, active=False, name="s1-prometheus", type="prometheus")
    assert ready(sample(2), below).endswith("; below 0, which counts as no work: s1-prometheus")
    nothing = sample(3, target=0, name="s1-external", type="external")
    assert ready(sample(2), nothing).endswith("; without a targetSize above 0, which asks for no Jobs: s1-external")
    assert "targetSize" not in ready(sample(2), replace(nothing, active=False))
    assert "targetSize" not in ready(sample(2), replace(nothing, error="away"))
    assert ready(sample(2), CPU) == "True: defined correctly and ready to scale; without effect on a ScaledJob: s1-cpu"


@for_each("max", "min", "avg", "sum")
def test_it_takes_no_part_in_the_calculation(calculation: str) -> None:
    body = scaled_job(scalingStrategy={"multipleScalersCalculation": calculation})
    for samples in ((sample(3),), (sample(3), CPU)):
        assert len(created(decide(snapshot(body, reading=reading(*samples)), NOW))) == 3


def test_alone_it_makes_nothing_active() -> None:
    assert created(decide(snapshot(scaled_job(), reading=reading(CPU)), NOW)) == []
