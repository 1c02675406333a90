"""The example in the repository is a ScaledJob that works as it stands."""

from pathlib import Path

import yaml

from tests.unit.controllers.factories import NOW, reading, sample, snapshot
from workers.api import scaledjob
from workers.controllers.scaledjob import decide
from workers.plan import Create, Together

EXAMPLE = Path(__file__).parents[3] / "examples" / "scaledjob.yaml"


def test_the_example_makes_a_job_per_event():
    body = yaml.safe_load(EXAMPLE.read_text())
    body["metadata"] |= {"uid": "u", "generation": 1, "resourceVersion": "1", "finalizers": ["finalizer.keda.sh"]}
    assert scaledjob.parse(body).spec.max_replica_count == 10
    plan = decide(snapshot(body, reading=reading(sample(3))), NOW)
    (stage,) = (step for step in plan.steps if isinstance(step, Together))
    assert [type(step) for step in stage.steps] == [Create] * 3
