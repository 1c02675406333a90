"""The `cpu` and `memory` triggers, of which polls measure nothing."""

from penstock.parameters import Trigger
from penstock.scaler import Connections, Measure
from scalers.sources.kubernetes.pod_resources import CPU, PodMemory, PodResource
from scalers.triggers.parse import Parsed, Triggers
from tests.support.tables import for_each
from tests.unit.scalers import malformed
from workers.api.kinds import SCALED_JOB, SCALED_OBJECT, Kind, Object, Ref


@for_each("much", "60%", "1.2.3", "-")
def test_what_is_no_quantity_is_refused(text: str) -> None:
    malformed.refused(CPU, Trigger(1, "cpu", metadata={"value": text}), "value", "must be a quantity")


@for_each("60", "500m", "1.5", "512Mi")
@for_each(CPU, PodMemory)
async def test_they_ask_for_nothing(scaler: type[PodResource], text: str) -> None:
    one = scaler.parse(Trigger(0, "t", metadata={"value": text}))
    assert await scaler.read([one], Connections()) == [Measure(0.0, active=False)]


async def parse(kind: Kind, *triggers: Object) -> Parsed:
    body = {
        "kind": kind.kind,
        "metadata": {"namespace": "team", "name": "work", "uid": "u"},
        "spec": {"triggers": list(triggers), "scaleTargetRef": {"name": "pool"}},
    }
    return await Triggers().parse(Ref(kind, "team", "work"), body)


@for_each("cpu", "memory")
@for_each({}, {"metricType": "Utilization"})
async def test_a_scaled_job_may_have_them(more: Object, type: str) -> None:
    parsed = await parse(SCALED_JOB, {"type": type, "metadata": {"value": "60"}, **more})
    assert parsed.problem is None
    assert [probe.name for probe in parsed.probes] == [f"s0-{type}"]


@for_each("cpu", "memory")
async def test_a_scaled_object_may_have_them(type: str) -> None:
    """Whoever decides on it sees what its target's pods consume: polls find nothing to do."""
    parsed = await parse(SCALED_OBJECT, {"type": type, "metricType": "Utilization", "metadata": {"value": "60"}})
    assert parsed.problem is None
    assert [probe.name for probe in parsed.probes] == [f"s0-{type}"]
