"""The rules of ScaledObjects one by one: activation, fallback, modifiers, proposals."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controllers.factories import NOW, sample
from tests.unit.controllers.keda.scaledobject.scaledobjects import spec
from workers.controllers.keda.scaledobject import activation, modifiers, trigger_metrics
from workers.controllers.keda.scaledobject.activation import ActivationState, ActivationVerdict
from workers.controllers.keda.scaledobject.trigger_metrics import Metric, Replicas, Tolerance
from workers.errors import UserError
from workers.formula import scaling_modifiers

FALLBACK = {"failureThreshold": 3, "replicas": 6}


@pytest.mark.parametrize(
    ("given", "state", "verdict"),
    [
        pytest.param({}, ActivationState(0, True), ActivationVerdict("A1", 1), id="A1: from zero to one"),
        pytest.param(
            {"minReplicaCount": 3},
            ActivationState(0, True),
            ActivationVerdict("A1", 3),
            id="A1: from zero to the minimum",
        ),
        pytest.param(
            {"minReplicaCount": 3, "idleReplicaCount": 1},
            ActivationState(1, True),
            ActivationVerdict("A1", 3),
            id="A1: from idle",
        ),
        pytest.param(
            {}, ActivationState(0, True, scale_out_paused=True), ActivationVerdict("A1"), id="A1: scaling out is paused"
        ),
        pytest.param(
            {}, ActivationState(0, True, failing=True), ActivationVerdict("A1", 1), id="A1: before a failing trigger"
        ),
        pytest.param({}, ActivationState(2, True, failing=True), ActivationVerdict("A2"), id="A2: a trigger fails"),
        pytest.param({}, ActivationState(2, True), ActivationVerdict("A3"), id="A3: left to the metrics"),
        pytest.param(
            {"minReplicaCount": 3}, ActivationState(2, True), ActivationVerdict("A3"), id="A3: below min without idle"
        ),
        pytest.param(
            {"fallback": FALLBACK},
            ActivationState(2, False, failing=True),
            ActivationVerdict("I1"),
            id="I1: a fallback waits",
        ),
        pytest.param(
            {}, ActivationState(2, False, failing=True), ActivationVerdict("I2"), id="I2: unknown is not zero"
        ),
        pytest.param(
            {"fallback": {**FALLBACK, "replicas": 0}},
            ActivationState(2, False, failing=True),
            ActivationVerdict("I3", 0),
            id="I3: a fallback of none",
        ),
        pytest.param({}, ActivationState(2, False), ActivationVerdict("I3", 0), id="I3: to zero"),
        pytest.param(
            {}, ActivationState(2, False, cooled=False), ActivationVerdict("I3", cooling=True), id="I3: in the cooldown"
        ),
        pytest.param(
            {}, ActivationState(2, False, scale_in_paused=True), ActivationVerdict("I3"), id="I3: scaling in is paused"
        ),
        pytest.param(
            {"minReplicaCount": 3, "idleReplicaCount": 1},
            ActivationState(4, False),
            ActivationVerdict("I3", 1),
            id="I3: to idle",
        ),
        pytest.param(
            {"minReplicaCount": 3}, ActivationState(2, False), ActivationVerdict("I4", 3), id="I4: up to the minimum"
        ),
        pytest.param(
            {"minReplicaCount": 3}, ActivationState(5, False), ActivationVerdict("I5"), id="I5: above the minimum"
        ),
        pytest.param({}, ActivationState(0, False), ActivationVerdict("I5"), id="I5: nothing there"),
        pytest.param(
            {"minReplicaCount": 3, "idleReplicaCount": 1},
            ActivationState(1, False),
            ActivationVerdict("I5"),
            id="I5: idle already",
        ),
    ],
)
def test_activation(given: dict[str, object], state: ActivationState, verdict: ActivationVerdict) -> None:
    assert activation.judge(spec(**given), state) == verdict


@pytest.mark.parametrize(
    ("given", "last", "after"),
    [
        pytest.param({}, None, 0, id="never active: from the creation"),
        pytest.param({"initialCooldownPeriod": 20}, None, 20, id="never active, with a period"),
        pytest.param({}, 100, 400, id="from the last activity"),
        pytest.param({"cooldownPeriod": 0, "initialCooldownPeriod": 500}, 100, 100, id="a cooldown of nothing"),
    ],
)
def test_cooldown(given: dict[str, object], last: int | None, after: int) -> None:
    last_active = None if last is None else NOW + timedelta(seconds=last)
    assert activation.cools_down(spec(**given), NOW, last_active) == NOW + timedelta(seconds=after)


# Fallback


def failed(failures: int = 4, **more: object) -> object:
    return sample(error="away", failures=failures, **more)


@pytest.mark.parametrize(
    ("behavior", "current", "wanted"),
    [
        pytest.param(None, 2, 6, id="static is the default"),
        pytest.param("static", 9, 6, id="static"),
        pytest.param("currentReplicas", 9, 9, id="what is there"),
        pytest.param("currentReplicasIfHigher", 9, 9, id="higher: what is there"),
        pytest.param("currentReplicasIfHigher", 2, 6, id="higher: the fallback"),
        pytest.param("currentReplicasIfLower", 9, 6, id="lower: the fallback"),
        pytest.param("currentReplicasIfLower", 2, 2, id="lower: what is there"),
    ],
)
@pytest.mark.parametrize("kind", ["AverageValue", "Value"])
def test_a_fallback_makes_the_metrics_ask_for_its_replicas(
    behavior: str | None, current: int, wanted: int, kind: str
) -> None:
    given = spec(
        fallback={**FALLBACK, "behavior": behavior},
        triggers=[{"type": "redis", "metadata": {}, "metricType": kind}],
    )
    replicas = Replicas(current, ready=current)
    (metric,) = trigger_metrics.of([failed()], given.triggers, given.fallback, replicas)
    assert (metric.error, metric.made_up, metric.active) == (None, True, True)
    assert trigger_metrics.propose([metric], replicas, Tolerance(0, 0)) == wanted


@pytest.mark.parametrize(
    ("failures", "made_up"),
    [pytest.param(3, False, id="as many as it bears"), pytest.param(4, True, id="one more")],
)
def test_a_fallback_bears_some_failures(failures: int, made_up: bool) -> None:
    given = spec(fallback=FALLBACK)
    (metric,) = trigger_metrics.of([failed(failures)], given.triggers, given.fallback, Replicas(1))
    assert (metric.made_up, metric.error is None) == (made_up, made_up)


def test_without_ready_pods_a_value_has_no_fallback() -> None:
    given = spec(fallback=FALLBACK, triggers=[{"type": "redis", "metadata": {}, "metricType": "Value"}])
    (metric,) = trigger_metrics.of([failed()], given.triggers, given.fallback, Replicas(2, ready=0))
    assert metric.error is not None


def test_a_fallback_of_none_activates_nothing() -> None:
    given = spec(fallback={**FALLBACK, "replicas": 0})
    (metric,) = trigger_metrics.of([failed()], given.triggers, given.fallback, Replicas(2))
    assert (metric.active, metric.value) == (False, 0)


# Modifiers


def modified(formula: str, *, behavior: str | None = None, bare: bool = False, **more: str) -> object:
    return spec(
        triggers=[{**{"type": "redis", "metadata": {}}, "name": name} for name in ("a", "b")],
        advanced={"scalingModifiers": {"formula": formula, "target": "2", **more}},
        **({} if bare else {"fallback": {**FALLBACK, "behavior": behavior}}),
    )


def applied(given: object, *samples: object, current: int = 2) -> Metric:
    composite = scaling_modifiers.read(given)
    assert composite is not None
    return modifiers.apply(composite, samples, given.fallback, Replicas(current, ready=current))


A, B = sample(6, name="s0-a"), sample(4, name="s1-b")


@pytest.mark.parametrize(
    ("given", "samples", "value", "active"),
    [
        pytest.param(modified("a + b"), [A, B], 10, True, id="the sum"),
        pytest.param(modified("b / 6"), [A, B], 0.666, True, id="cut off, not rounded"),
        pytest.param(modified("b - a"), [A, B], 0, False, id="never negative"),
        pytest.param(modified("a", activationTarget="6"), [A, B], 6, False, id="not above its activation"),
        pytest.param(modified("a", activationTarget="5"), [A, B], 6, True, id="above its activation"),
        pytest.param(modified("a + b"), [A, failed()], 12, True, id="fallback: replicas times target"),
        pytest.param(modified("nil", behavior="currentReplicas"), [A, B], 12, True, id="nil: whatever the behaviour"),
        pytest.param(
            modified("a + b", behavior="currentReplicas"), [A, failed()], 4, True, id="fallback: as many as there are"
        ),
        pytest.param(modified("a + (b ?? 1)", behavior="scalingModifiers"), [A, failed()], 7, True, id="fallback: nil"),
        pytest.param(
            modified("b ?? nil", behavior="scalingModifiers"), [A, failed()], 12, True, id="nil: fallback's replicas"
        ),
    ],
)
def test_modifiers(given: object, samples: list[object], value: float, active: bool) -> None:
    metric = applied(given, *samples)
    assert (metric.error, metric.value, metric.active) == (None, value, active)


@pytest.mark.parametrize(
    ("given", "samples", "how"),
    [
        pytest.param(modified("a  +\nb"), [A, B], "a + b, where a is 6, b is 4", id="in one line"),
        pytest.param(modified("b"), [A, B], "b, where b is 4", id="only what is asked for"),
        pytest.param(modified("7"), [A, B], "7, where nothing is asked for", id="nothing is"),
        pytest.param(
            modified("a + (b ?? 1)", behavior="scalingModifiers"),
            [A, failed()],
            "a + (b ?? 1), where a is 6, b is nil",
            id="nothing stands for a trigger that failed",
        ),
        pytest.param(modified("a + b"), [A, failed()], "", id="the fallback's, which no formula made"),
    ],
)
def test_what_the_formula_made_of_which_values_is_told(given: object, samples: list[object], how: str) -> None:
    metric = applied(given, *samples)
    assert metric.how == how
    assert how in [figure.how for figure in trigger_metrics.figures([metric], 1) if figure.name.startswith(metric.name)]


def test_a_long_formula_is_not_told_in_full() -> None:
    how = applied(modified(" + ".join(["a"] * 200)), A, B).how
    assert len(how) < 250
    assert how.endswith("..., where a is 6")


@pytest.mark.parametrize(
    ("given", "samples", "why"),
    [
        pytest.param(modified("a + b"), [A, failed(1)], "away", id="a failure the fallback bears"),
        pytest.param(modified("a + b", bare=True), [A, failed()], "away", id="no fallback"),
        pytest.param(modified("a / (b - 4)"), [A, B], "divides by zero", id="no result"),
        pytest.param(modified("nil", bare=True), [A, B], "nil", id="nil without a fallback"),
    ],
)
def test_modifiers_without_a_value(given: object, samples: list[object], why: str) -> None:
    metric = applied(given, *samples)
    assert why in str(metric.error)
    assert not metric.active


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        pytest.param("a +", "position 4", id="no formula"),
        pytest.param("a + c", "no trigger named c", id="an unknown trigger"),
    ],
)
def test_modifiers_that_are_refused(formula: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        scaling_modifiers.read(modified(formula))


def test_most_have_no_modifiers() -> None:
    assert scaling_modifiers.read(spec()) is None


# Proposals


def average(value: float, target: float = 10.0) -> Metric:
    return Metric("m", "AverageValue", target, value)


def total(value: float, target: float = 10.0) -> Metric:
    return Metric("m", "Value", target, value)


UNKNOWN = Metric("m", "AverageValue", 10.0, error="away")


@pytest.mark.parametrize(
    ("found", "replicas", "proposal"),
    [
        pytest.param([average(41)], Replicas(2), 5, id="average: rounded up"),
        pytest.param([average(0)], Replicas(2), 0, id="average: nothing"),
        pytest.param([average(45)], Replicas(5), 5, id="average: within the tolerance below"),
        pytest.param([average(44)], Replicas(5), 5, id="average: beyond it, rounded up to the same"),
        pytest.param([average(39)], Replicas(5), 4, id="average: beyond the tolerance below"),
        pytest.param([average(55)], Replicas(5), 5, id="average: within the tolerance above"),
        pytest.param([average(56)], Replicas(5), 6, id="average: beyond the tolerance above"),
        pytest.param([total(30)], Replicas(4, 4), 12, id="value: three times as many"),
        pytest.param([total(30)], Replicas(4, 2), 6, id="value: three times the ready"),
        pytest.param([total(30)], Replicas(9, 2), 9, id="value: above its target never fewer"),
        pytest.param([total(5)], Replicas(4, 4), 2, id="value: half"),
        pytest.param([total(10.9)], Replicas(4, 1), 4, id="value: within the tolerance"),
        pytest.param([total(30)], Replicas(0, 0), 3, id="value: from zero"),
        pytest.param([total(30)], Replicas(4), None, id="value: ready pods were not counted"),
        pytest.param([average(41), average(90)], Replicas(2), 9, id="the largest of several"),
        pytest.param([average(41), UNKNOWN], Replicas(2), 5, id="with one unknown: up"),
        pytest.param([average(11), UNKNOWN], Replicas(5), None, id="with one unknown: not down"),
        pytest.param([UNKNOWN], Replicas(5), None, id="all unknown"),
        pytest.param([average(5, target=0)], Replicas(5), None, id="a target of nothing"),
        pytest.param([], Replicas(5), None, id="no metrics"),
        pytest.param([average(1e308, target=1e-3)], Replicas(5), 2**63 - 1, id="more than there are numbers"),
        pytest.param([total(1e308, target=1e-3)], Replicas(5, 5), 2**63 - 1, id="value: more than there are numbers"),
        pytest.param([total(1e308, target=1e-3)], Replicas(0, 0), 2**63 - 1, id="value: from zero to the most"),
    ],
)
def test_proposals(found: list[Metric], replicas: Replicas, proposal: int | None) -> None:
    assert trigger_metrics.propose(found, replicas) == proposal


@given(
    kind=st.sampled_from([average, total]),
    values=st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)).map(sorted),
    target=st.floats(0.01, 1e3),
    current=st.integers(1, 200),
    data=st.data(),
)
def test_a_larger_value_never_proposes_less(kind, values, target, current, data) -> None:
    replicas = Replicas(current, data.draw(st.integers(0, current)))
    less, more = (trigger_metrics.propose([kind(value, target)], replicas) for value in values)
    assert less <= more
