"""Triggers cpu and memory: a HorizontalPodAutoscaler's arithmetic over what the target's pods consume."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW, at, reading, sample
from tests.unit.controllers.keda.scaledobject.scaledobjects import (
    TRIGGER,
    scale,
    scaled_object,
    scaling,
    snapshot,
    spec,
)
from tests.unit.controllers.plans import status_of, verdict
from workers.api.kinds import Object
from workers.controllers.keda.scaledobject import CONTROLLER, decide, usage
from workers.controllers.keda.scaledobject.trigger_metrics import Tolerance
from workers.decision.plan import ComeBack, Figure
from workers.decision.snapshot import Scalable

CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
MEMORY = {"type": "memory", "metricType": "AverageValue", "metadata": {"value": "100Mi"}}
IDLE = {"name": "s0-cpu", "type": "cpu", "active": False}


def pod(
    name: str, *, request: str | None = "100m", started: float = -3600, ready: float | None = -3500, **more
) -> Object:
    """A pod that requests CPU time. started: seconds from now. ready: since when, None for one that is not."""
    resources = {"requests": {"cpu": request}} if request else {}
    moment = started if ready is None else ready
    return {
        "metadata": {"name": name, **more.pop("metadata", {})},
        "spec": {"containers": [{"name": "main", "resources": resources}, *more.pop("containers", [])]},
        "status": {
            "phase": "Running",
            "startTime": at(started),
            "conditions": [
                {"type": "Ready", "status": "True" if ready is not None else "False", "lastTransitionTime": at(moment)}
            ],
            **more,
        },
    }


def metrics(name: str, cpu: str, memory: str = "0", *, measured: float = -5, container: str = "main") -> Object:
    """Returns the PodMetrics of a pod."""
    return {
        "metadata": {"name": name},
        "timestamp": at(measured),
        "window": "15s",
        "containers": [{"name": container, "usage": {"cpu": cpu, "memory": memory}}],
    }


def target(pods: list[Object], measured: list[Object] | None, replicas: int | None = None, error: str = "") -> Scalable:
    """A target with these pods."""
    by_name = None if measured is None else {each["metadata"]["name"]: each for each in measured}
    return scale(len(pods) if replicas is None else replicas, pods=tuple(pods), usage=by_name, usage_error=error)


UNKNOWN = target([pod(name) for name in "abc"], None, error="no API")


def proposed(trigger: Object, seen: Scalable, current: int) -> int | None:
    (found,) = usage.of(spec(triggers=[trigger]).triggers, seen, NOW)
    assert found.error is None, found.error
    return found.proposal(current, Tolerance())


def three(*cpu: str | None) -> Scalable:
    """Three ready pods, those with None not measured."""
    pods = [pod(name) for name in "abc"]
    return target(pods, [metrics(each["metadata"]["name"], used) for each, used in zip(pods, cpu, strict=True) if used])


YOUNG = {"started": -60.0, "ready": -55.0}


@cases(
    ("twice the target", three("100m", "100m", "100m"), 3, 6),
    ("at the target", three("50m", "50m", "50m"), 3, 3),
    ("a tenth above", three("55m", "55m", "55m"), 3, 3),
    ("more than a tenth above", three("56m", "56m", "56m"), 3, 4),
    ("half the target", three("25m", "25m", "25m"), 3, 2),
    ("nothing", three("0", "0", "0"), 3, 0),
    ("the sum counts", three("100m", "50m", "0"), 3, 3),
    ("whole percents", three("50.9m", "50.9m", "50.9m"), 3, 3),
    ("up: what is missing counts as nothing", three("100m", "100m", None), 3, 4),
    ("up: what is missing turns the direction", three("60m", "60m", None), 3, 3),
    ("down: what is missing counts as full", three("10m", "10m", None), 3, 3),
    ("down all the same", three("0", "0", None), 3, 2),
    ("at the target, one missing", three("50m", "50m", None), 3, 3),
    ("up: one starts", target([pod("a"), pod("b", phase="Pending", ready=None)], [metrics("a", "100m")]), 2, 2),
    ("up far", target([pod("a"), pod("b", phase="Pending", ready=None)], [metrics("a", "200m")]), 2, 4),
    ("down: one starts", target([pod("a"), pod("b", phase="Pending", ready=None)], [metrics("a", "10m")]), 2, 1),
    (
        "usage of its start does not count",
        target([pod("a"), pod("b", **YOUNG)], [metrics("a", "50m"), metrics("b", "900m", measured=-50)]),
        2,
        2,
    ),
    ("a later one does", target([pod("a"), pod("b", **YOUNG)], [metrics("a", "50m"), metrics("b", "900m")]), 2, 19),
    (
        "never ready since its start",
        target([pod("a"), pod("b", ready=None, started=-600)], [metrics("a", "50m"), metrics("b", "900m")]),
        2,
        2,
    ),
    (
        "one is being deleted",
        target([pod("a"), pod("b", metadata={"deletionTimestamp": at(-1)})], [metrics("a", "100m"), metrics("b", "1")]),
        2,
        2,
    ),
    ("one has failed", target([pod("a"), pod("b", phase="Failed")], [metrics("a", "150m"), metrics("b", "1")]), 2, 3),
)
def test_utilization(seen: Scalable, current: int, replicas: int) -> None:
    assert proposed(CPU, seen, current) == replicas


@cases(
    ("twice the target", ["200Mi", "200Mi"], 4),
    ("close enough", ["100Mi", "105Mi"], 2),
    ("less", ["10Mi", "20Mi"], 1),
    ("up: what is missing counts as nothing", ["300Mi", None], 3),
    ("down: what is missing counts as the target", ["10Mi", None], 2),
)
def test_average_value_needs_no_requests(used: list[str | None], replicas: int) -> None:
    pods = [pod("a", request=None), pod("b", request=None)]
    measured = [metrics(name, "0", each) for name, each in zip("ab", used, strict=True) if each]
    assert proposed(MEMORY, target(pods, measured), 2) == replicas


def test_one_container_alone() -> None:
    side = {"name": "side", "resources": {"requests": {"cpu": "1"}}}
    measured = metrics("a", "100m") | {
        "containers": [
            {"name": "main", "usage": {"cpu": "100m", "memory": "0"}},
            {"name": "side", "usage": {"cpu": "10m", "memory": "0"}},
        ]
    }
    seen = target([pod("a", containers=[side])], [measured])
    assert proposed(CPU, seen, 1) == 1
    assert proposed(CPU | {"metadata": {"value": "50", "containerName": "main"}}, seen, 1) == 2


@cases(
    ("nothing is measured", target([pod("a")], None, error="no API"), "", "no API"),
    ("no pods", target([], []), "", "there are no pods"),
    ("no measurement", target([pod("a")], []), "", "was measured yet"),
    ("no request", target([pod("a", request=None)], [metrics("a", "1")]), "", "main of pod a requests no cpu"),
    ("of nothing", target([pod("a", request="0")], [metrics("a", "1")]), "", "main of pod a requests no cpu"),
    (
        "a container that was not measured",
        target([pod("a", containers=[{"name": "side", "resources": {"requests": {"cpu": "1"}}}])], [metrics("a", "1")]),
        "side",
        "container side was not measured in pod a",
    ),
    ("no such container", target([pod("a")], [metrics("a", "1")]), "side", "pod a has no container side"),
)
def test_what_is_not_known_says_why(seen: Scalable, container: str, why: str) -> None:
    trigger = CPU | {"metadata": {"value": "50", "containerName": container}}
    (found,) = usage.of(spec(triggers=[trigger]).triggers, seen, NOW)
    assert found.error is not None
    assert why in found.error
    assert found.proposal(3, Tolerance()) is None


def test_figures_tell_what_is_known_and_why_the_rest_is_not() -> None:
    seen = target([pod("a", request=None)], [metrics("a", "10m", "50Mi")])
    found = usage.of(spec(triggers=[CPU, MEMORY]).triggers, seen, NOW)
    assert list(usage.figures(found)) == [
        Figure("cpu is not known: container main of pod a requests no cpu", 0),
        Figure("memory (target 1.04858e+08 per pod, 1 of 1 pods)", 50 * 2**20),
    ]


def test_of_pods_that_are_not_measured_each_counts_as_all_that_it_requests() -> None:
    pods = [pod(name, request="1000m") for name in "abcd"]
    percent = CPU | {"metadata": {"value": "100"}}
    assert proposed(percent, target(pods, [metrics("a", "20m")]), 4) == 3


def test_requests_of_a_whole_pod_take_the_place_of_its_containers() -> None:
    seen = target([pod("a")], [metrics("a", "100m")])
    assert proposed(CPU, seen, 1) == 2
    seen.pods[0]["spec"]["resources"] = {"requests": {"cpu": "200m"}}
    assert proposed(CPU, seen, 1) == 1
    assert proposed({**CPU, "metadata": {"value": "50", "containerName": "main"}}, seen, 1) == 2
    seen.pods[0]["spec"]["resources"] = {"requests": {"memory": "1Gi"}}
    (found,) = usage.of(spec(triggers=[CPU]).triggers, seen, NOW)
    assert found.error == "pod a requests no cpu as a whole"


def test_a_limit_without_a_request_is_one() -> None:
    body = pod("a", request=None)
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "100m"}}
    assert proposed(CPU, target([body], [metrics("a", "100m")]), 1) == 2


@given(
    used=st.lists(st.none() | st.integers(0, 300), min_size=1, max_size=6),
    starting=st.lists(st.booleans(), min_size=6, max_size=6),
    percent=st.integers(1, 200),
)
def test_what_is_not_known_never_turns_the_direction(used, starting, percent) -> None:
    """Replicas as many as pods: the proposal with gaps lies between what is there and the proposal without them."""
    pods = [
        pod(f"p{place}", **({"phase": "Pending", "ready": None} if starting[place] else {}))
        for place in range(len(used))
    ]
    measured = [metrics(f"p{place}", f"{each}m") for place, each in enumerate(used) if each is not None]
    trigger = CPU | {"metadata": {"value": str(percent)}}
    (found,) = usage.of(spec(triggers=[trigger]).triggers, target(pods, measured), NOW)
    known = [each for place, each in enumerate(used) if each is not None and not starting[place]]
    if not known:
        assert found.error
        return
    share, current = sum(known) / len(known), len(pods)
    proposal = found.proposal(current, Tolerance())
    assert proposal is not None
    assert proposal >= current if share > percent + 1 and len(known) < current else True
    assert proposal <= max(current, len(known) * -(-int(share + 1) // percent) + 1)
    assert proposal <= current if share < percent else True


@cases(
    ("cpu alone", {"triggers": [CPU]}, three("100m", "100m", "100m"), [sample(0, **IDLE)], 6),
    ("cpu alone: never at zero", {"triggers": [CPU]}, target([], []), [sample(0, **IDLE)], 1),
    ("the most", {"triggers": [CPU, TRIGGER]}, three("100m", "100m", "100m"), [sample(0, **IDLE), sample(4)], 6),
    ("the other", {"triggers": [CPU, TRIGGER]}, three("10m", "10m", "10m"), [sample(0, **IDLE), sample(5)], 5),
    ("to zero", {"triggers": [CPU, TRIGGER]}, three("90m", "90m", "90m"), [sample(0, **IDLE), sample(0)], 0),
    (
        "from zero: pods do not matter",
        {"triggers": [CPU, TRIGGER]},
        target([], None, error="no API"),
        [sample(0, **IDLE), sample(3)],
        1,
    ),
    (
        "unknown is not little",
        {"triggers": [CPU, TRIGGER], "minReplicaCount": 1},
        UNKNOWN,
        [sample(0, **IDLE), sample(1)],
        None,
    ),
    ("more by the other", {"triggers": [CPU, TRIGGER]}, UNKNOWN, [sample(0, **IDLE), sample(5)], 5),
)
def test_decisions(more: Object, seen: Scalable, samples: list, replicas: int | None) -> None:
    body = scaled_object(status={"memory": {}}, **more)
    step = scaling(decide(snapshot(body, seen, reading(*samples)), NOW))
    assert (step and step.replicas) == replicas


def test_the_status_tells_metrics_of_pods_from_others() -> None:
    body = scaled_object(triggers=[CPU, TRIGGER], fallback={"failureThreshold": 3, "replicas": 6})
    plan = decide(snapshot(body, three("50m", "50m", "50m"), reading(sample(0, **IDLE), sample(3, name="s1-q"))), NOW)
    status = status_of(plan)
    assert (status["resourceMetricNames"], status["externalMetricNames"]) == (["cpu"], ["s1-q"])
    assert list(status["health"]) == list(status["triggersActivity"]) == ["s1-q"]
    assert verdict(plan, "Ready") == ("True", "ScaledObjectReady")
    assert plan.steps[-1] == ComeBack(NOW + timedelta(seconds=15))
    assert {figure.name: figure.value for figure in plan.figures}["cpu (target 50% of the requests, 3 of 3 pods)"] == 50


def test_missing_requests_are_said_in_the_condition() -> None:
    seen = target([pod("a", request=None)], [metrics("a", "1")])
    plan = decide(snapshot(scaled_object(triggers=[CPU]), seen, reading(sample(0, **IDLE))), NOW)
    assert verdict(plan, "Ready") == ("Unknown", "PartialTriggerError")
    assert "main of pod a requests no cpu" in status_of(plan)["conditions"][0]["message"]
    assert scaling(plan) is None


def test_formulas_leave_them_out() -> None:
    modifiers = {"scalingModifiers": {"formula": "work * 2", "target": "1"}}
    body = scaled_object(triggers=[CPU, {**TRIGGER, "name": "work"}], advanced=modifiers, status={"memory": {}})
    step = scaling(decide(snapshot(body, three("50m", "50m", "50m"), reading(sample(0, **IDLE), sample(2))), NOW))
    assert step is not None
    assert step.replicas == 4


def test_pods_are_read_only_for_them() -> None:
    for trigger, wanted in ((CPU, True), (TRIGGER, False)):
        found = CONTROLLER.scales(scaled_object(triggers=[trigger]))
        assert found is not None
        assert found.usage is wanted
