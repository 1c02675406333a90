"""The rules of ScaledObjects one by one: activation, fallback, modifiers, proposals."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW, sample
from tests.unit.controllers.keda.scaledobject.scaledobjects import spec
from workers.controllers.keda.scaledobject import activation, modifiers, trigger_metrics
from workers.controllers.keda.scaledobject.activation import ActivationState as State
from workers.controllers.keda.scaledobject.activation import ActivationVerdict as Verdict
from workers.controllers.keda.scaledobject.trigger_metrics import Metric, Replicas, Tolerance
from workers.errors import UserError
from workers.formula import scaling_modifiers

FALLBACK = {"failureThreshold": 3, "replicas": 6}
IDLE = {"minReplicaCount": 3, "idleReplicaCount": 1}


@cases(
    ("A1: from zero to one", {}, State(0, True), Verdict("A1", 1)),
    ("A1: from zero to the minimum", {"minReplicaCount": 3}, State(0, True), Verdict("A1", 3)),
    ("A1: from idle", IDLE, State(1, True), Verdict("A1", 3)),
    ("A1: scaling out is paused", {}, State(0, True, scale_out_paused=True), Verdict("A1")),
    ("A1: before a failing trigger", {}, State(0, True, failing=True), Verdict("A1", 1)),
    ("A2: a trigger fails", {}, State(2, True, failing=True), Verdict("A2")),
    ("A3: left to the metrics", {}, State(2, True), Verdict("A3")),
    ("A3: below min without idle", {"minReplicaCount": 3}, State(2, True), Verdict("A3")),
    ("I1: a fallback waits", {"fallback": FALLBACK}, State(2, False, failing=True), Verdict("I1")),
    ("I2: unknown is not zero", {}, State(2, False, failing=True), Verdict("I2")),
    (
        "I1: a fallback of none waits too",
        {"fallback": {**FALLBACK, "replicas": 0}},
        State(2, False, failing=True),
        Verdict("I1"),
    ),
    ("I3: to zero", {}, State(2, False), Verdict("I3", 0)),
    ("I3: in the cooldown", {}, State(2, False, cooled=False), Verdict("I3", cooling=True)),
    ("I3: scaling in is paused", {}, State(2, False, scale_in_paused=True), Verdict("I3")),
    ("I3: to idle", IDLE, State(4, False), Verdict("I3", 1)),
    ("I4: up to the minimum", {"minReplicaCount": 3}, State(2, False), Verdict("I4", 3)),
    ("I5: above the minimum", {"minReplicaCount": 3}, State(5, False), Verdict("I5")),
    ("I5: nothing there", {}, State(0, False), Verdict("I5")),
    ("I5: idle already", IDLE, State(1, False), Verdict("I5")),
)
def test_activation(given: dict[str, object], state: State, verdict: Verdict) -> None:
    assert activation.judge(spec(**given), state) == verdict


@cases(
    ("never active: from the creation", {}, None, 0),
    ("never active, with a period", {"initialCooldownPeriod": 20}, None, 20),
    ("from the last activity", {}, 100, 400),
    ("a cooldown of nothing", {"cooldownPeriod": 0, "initialCooldownPeriod": 500}, 100, 100),
)
def test_cooldown(given: dict[str, object], last: int | None, after: int) -> None:
    last_active = None if last is None else NOW + timedelta(seconds=last)
    assert activation.cools_down(spec(**given), NOW, last_active) == NOW + timedelta(seconds=after)


# Fallback


def failed(failures: int = 4, **more: object) -> object:
    return sample(error="away", failures=failures, **more)


@cases(
    ("static is the default", None, 2, 6),
    ("static", "static", 9, 6),
    ("what is there", "currentReplicas", 9, 9),
    ("higher: what is there", "currentReplicasIfHigher", 9, 9),
    ("higher: the fallback", "currentReplicasIfHigher", 2, 6),
    ("lower: the fallback", "currentReplicasIfLower", 9, 6),
    ("lower: what is there", "currentReplicasIfLower", 2, 2),
)
@pytest.mark.parametrize("kind", ["AverageValue", "Value"])
def test_a_fallback_makes_the_metrics_ask_for_its_replicas(
    behavior: str | None, current: int, wanted: int, kind: str
) -> None:
    given = spec(
        fallback={**FALLBACK, "behavior": behavior}, triggers=[{"type": "redis", "metadata": {}, "metricType": kind}]
    )
    replicas = Replicas(current, ready=current)
    (metric,) = trigger_metrics.of([failed()], given.triggers, given.fallback, replicas)
    assert (metric.error, metric.made_up, metric.active) == (None, True, True)
    assert trigger_metrics.propose([metric], replicas, Tolerance(0, 0)) == wanted


@cases(("as many as it bears", 3, False), ("one more", 4, True))
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


def applied(given: Any, *samples: object, current: int = 2) -> Metric:
    composite = scaling_modifiers.read(given)
    assert composite is not None
    return modifiers.apply(composite, samples, given.fallback, Replicas(current, ready=current))


A, B = sample(6, name="s0-a"), sample(4, name="s1-b")


@cases(
    ("the sum", modified("a + b"), [A, B], 10, True),
    ("cut off, not rounded", modified("b / 6"), [A, B], 0.666, True),
    ("never negative", modified("b - a"), [A, B], 0, False),
    ("at most what 64 bits hold in thousandths", modified("a * 1e306"), [A, B], (2**63 - 1) / 1000, True),
    ("and beyond that never negative", modified("-a * 1e306"), [A, B], 0, False),
    ("not above its activation", modified("a", activationTarget="6"), [A, B], 6, False),
    ("above its activation", modified("a", activationTarget="5"), [A, B], 6, True),
    ("fallback: replicas times target", modified("a + b"), [A, failed()], 12, True),
    ("nil: whatever the behaviour", modified("nil", behavior="currentReplicas"), [A, B], 12, True),
    ("fallback: as many as there are", modified("a + b", behavior="currentReplicas"), [A, failed()], 4, True),
    ("fallback: nil", modified("a + (b ?? 1)", behavior="scalingModifiers"), [A, failed()], 7, True),
    ("nil: fallback's replicas", modified("b ?? nil", behavior="scalingModifiers"), [A, failed()], 12, True),
)
def test_modifiers(given: object, samples: list[object], value: float, active: bool) -> None:
    metric = applied(given, *samples)
    assert (metric.error, metric.value, metric.active) == (None, value, active)


@cases(
    ("in one line", modified("a  +\nb"), [A, B], "a + b, where a is 6, b is 4"),
    ("only what is asked for", modified("b"), [A, B], "b, where b is 4"),
    ("nothing is", modified("7"), [A, B], "7, where nothing is asked for"),
    (
        "nil for a failed trigger",
        modified("a + (b ?? 1)", behavior="scalingModifiers"),
        [A, failed()],
        "a + (b ?? 1), where a is 6, b is nil",
    ),
    ("the fallback's, which no formula made", modified("a + b"), [A, failed()], ""),
)
def test_what_the_formula_made_of_which_values_is_told(given: object, samples: list[object], how: str) -> None:
    metric = applied(given, *samples)
    assert metric.how == how
    assert how in [figure.how for figure in trigger_metrics.figures([metric], 1) if figure.name.startswith(metric.name)]


def test_a_long_formula_is_not_told_in_full() -> None:
    how = applied(modified(" + ".join(["a"] * 200)), A, B).how
    assert len(how) < 250
    assert how.endswith("..., where a is 6")


@cases(
    ("a failure the fallback bears", modified("a + b"), [A, failed(1)], "away"),
    ("no fallback", modified("a + b", bare=True), [A, failed()], "away"),
    ("no result", modified("a / (b - 4)"), [A, B], "divides by zero"),
    ("nil without a fallback", modified("nil", bare=True), [A, B], "nil"),
)
def test_modifiers_without_a_value(given: object, samples: list[object], why: str) -> None:
    metric = applied(given, *samples)
    assert why in str(metric.error)
    assert not metric.active


@cases(("no formula", "a +", "position 4"), ("an unknown trigger", "a + c", "no trigger named c"))
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


@cases(
    ("average: rounded up", [average(41)], Replicas(2), 5),
    ("average: nothing", [average(0)], Replicas(2), 0),
    ("average: within the tolerance below", [average(45)], Replicas(5), 5),
    ("average: beyond it, rounded up to the same", [average(44)], Replicas(5), 5),
    ("average: beyond the tolerance below", [average(39)], Replicas(5), 4),
    ("average: within the tolerance above", [average(55)], Replicas(5), 5),
    ("average: beyond the tolerance above", [average(56)], Replicas(5), 6),
    ("value: three times as many", [total(30)], Replicas(4, 4), 12),
    ("value: three times the ready", [total(30)], Replicas(4, 2), 6),
    ("value: above its target never fewer", [total(30)], Replicas(9, 2), 9),
    ("value: half", [total(5)], Replicas(4, 4), 2),
    ("value: within the tolerance", [total(10.9)], Replicas(4, 1), 4),
    ("value: from zero", [total(30)], Replicas(0, 0), 3),
    ("value: ready pods were not counted", [total(30)], Replicas(4), None),
    ("the largest of several", [average(41), average(90)], Replicas(2), 9),
    ("with one unknown: up", [average(41), UNKNOWN], Replicas(2), 5),
    ("with one unknown: not down", [average(11), UNKNOWN], Replicas(5), None),
    ("all unknown", [UNKNOWN], Replicas(5), None),
    ("a target of nothing", [average(5, target=0)], Replicas(5), None),
    ("no metrics", [], Replicas(5), None),
    ("more than there are numbers", [average(1e308, target=1e-3)], Replicas(5), 2**63 - 1),
    ("value: more than there are numbers", [total(1e308, target=1e-3)], Replicas(5, 5), 2**63 - 1),
    ("value: from zero to the most", [total(1e308, target=1e-3)], Replicas(0, 0), 2**63 - 1),
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
