"""Everything that is wrong with a manifest is named at once, each problem by its field."""

import pytest

from tests.support.tables import cases
from tests.unit.api.test_scaledobject import TRIGGER, modifiers, trigger, usage
from tests.unit.api.test_scaledobject import body as scaled_object
from tests.unit.controllers.factories import scaled_job
from workers.api.keda import scaledjob, scaledobject
from workers.api.kinds import Object
from workers.api.model import Problems

TWINS = [TRIGGER | {"name": "a"}] * 2


@cases(
    (
        "bounds and triggers",
        {"minReplicaCount": 101, "triggers": TWINS, "idleReplicaCount": 200},
        ["spec.triggers[1].name", "spec.minReplicaCount", "spec.idleReplicaCount"],
    ),
    (
        "two wrong triggers",
        {"triggers": [*trigger(metricType="Utilization"), *usage("0")]},
        ["spec.triggers[0].metricType", "spec.triggers[1].metadata.value"],
    ),
    (
        "modifiers and bounds",
        {"minReplicaCount": 101, "advanced": modifiers(formula="a", target="0", activationTarget="x")},
        [
            "spec.minReplicaCount",
            "spec.advanced.scalingModifiers.target",
            "spec.advanced.scalingModifiers.activationTarget",
        ],
    ),
    (
        "usage alone",
        {"triggers": usage(), "minReplicaCount": 0, "fallback": {"failureThreshold": 1, "replicas": 1}},
        ["spec.minReplicaCount", "spec.fallback"],
    ),
)
def test_of_a_scaled_object(spec: Object, fields: list[str]) -> None:
    with pytest.raises(Problems) as refused:
        scaledobject.parse(scaled_object(**spec))
    assert [problem.field for problem in refused.value.found] == fields


def test_of_a_scaled_job() -> None:
    spec = {
        "triggers": [{**TRIGGER, "name": "a"}, {**TRIGGER, "name": "a", "metricType": "Value"}],
        "jobTargetRef": {},
        "fallback": {},
        "scalingStrategy": {"weights": {"x": 1, "y": 2}},
    }
    with pytest.raises(Problems) as refused:
        scaledjob.parse(scaled_job(**spec))
    assert [problem.field for problem in refused.value.found] == [
        "spec.jobTargetRef.template",
        "spec.triggers[1].name",
        "spec.triggers[1].metricType",
        "spec.fallback.replicas",
        "spec.scalingStrategy.weights.x",
        "spec.scalingStrategy.weights.y",
    ]
