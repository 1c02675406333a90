"""Gauges whose series fade, and what is shown of ScaledJobs and their triggers."""

import pytest
from prometheus_client import REGISTRY, CollectorRegistry

from scalers import metrics as scaler_metrics
from tests.unit.controllers.factories import NOW, child, pod, reading, sample, scaled_job, snapshot
from tests.unit.controllers.scaledobjects import scale, scaled_object
from tests.unit.controllers.scaledobjects import snapshot as scaled_object_snapshot
from workers import fading, metrics
from workers.api.kinds import SCALED_JOB, SCALED_OBJECT, Ref
from workers.controllers.scaledjob import decide
from workers.controllers.scaledobject import decide as decide_scaled_object
from workers.fading import FadingGauge

WORK = Ref(SCALED_JOB, "default", "work")


class Shown:
    """One gauge in a registry of its own, and a clock."""

    def __init__(self):
        self.now = 0.0
        self.registry = CollectorRegistry()
        self.gauge = FadingGauge("g", "A gauge", ["object"], registry=self.registry, clock=lambda: self.now)

    def value(self, name):
        return self.registry.get_sample_value("g", {"object": name})


def test_the_last_value_is_shown_until_it_fades():
    shown = Shown()
    shown.gauge.set(1, "a")
    shown.now = fading.LIFE
    shown.gauge.set(2, "b")
    assert (shown.value("a"), shown.value("b")) == (1, 2)
    shown.gauge.set(3, "a")
    shown.now += fading.LIFE
    assert (shown.value("a"), shown.value("b")) == (3, 2)
    shown.now += 1
    assert (shown.value("a"), shown.value("b")) == (None, None)


def test_there_are_never_more_series_than_so_many(monkeypatch):
    monkeypatch.setattr(fading, "SERIES", 2)
    shown = Shown()
    for name in ("a", "b", "a", "c"):
        shown.gauge.set(1, name)
    assert [shown.value(name) for name in "abc"] == [1, None, 1]


def test_labels_are_counted():
    with pytest.raises(ValueError, match="object"):
        Shown().gauge.set(1, "a", "b")


def labels(ref, metric, scaler="redis", type="scaledjob"):
    return {
        "namespace": "default",
        "metric": metric,
        "scaledObject": ref.name,
        "scaler": scaler,
        "triggerIndex": "0",
        "type": type,
    }


def test_triggers_are_shown_under_kedas_names():
    ref = Ref(SCALED_JOB, "default", "shown")
    scaler_metrics.measured(ref, 0, sample(7), 0.25)
    of = labels(ref, "s0-redis-work")
    assert REGISTRY.get_sample_value("keda_scaler_metrics_value", of) == 7
    assert REGISTRY.get_sample_value("keda_scaler_active", of) == 1
    assert REGISTRY.get_sample_value("keda_scaler_metrics_latency_seconds", of) == 0.25


def test_triggers_of_a_scaled_object_too_by_their_own_names():
    ref = Ref(SCALED_OBJECT, "default", "shown")
    scaler_metrics.measured(ref, 0, sample(7, active=True), 0.25, "orders")
    of = labels(ref, "s0-redis-work", "orders", "scaledobject")
    assert REGISTRY.get_sample_value("keda_scaler_metrics_value", of) == 7
    assert REGISTRY.get_sample_value("keda_scaler_active", of) == 1
    failing = Ref(SCALED_OBJECT, "failing too", "work")
    scaler_metrics.measured(failing, 0, sample(error="no route"), 3.0)
    assert REGISTRY.get_sample_value("keda_scaled_object_errors_total", {"namespace": "failing too"}) == 1
    assert REGISTRY.get_sample_value("keda_scaled_job_errors_total", {"namespace": "failing too"}) is None


def test_of_a_targets_own_pods_polls_show_nothing():
    ref = Ref(SCALED_OBJECT, "default", "idle")
    scaler_metrics.measured(ref, 0, sample(0, type="cpu", name="s0-cpu"), 0.25)
    assert REGISTRY.get_sample_value("keda_scaler_active", labels(ref, "s0-cpu", "cpu", "scaledobject")) is None


@pytest.mark.parametrize(("paused", "shown"), [(True, 1), (False, 0)])
def test_whether_a_scaled_object_is_paused_is_shown(paused, shown):
    body = scaled_object(metadata={"annotations": {"autoscaling.keda.sh/paused": "true"}} if paused else {})
    plan = decide_scaled_object(scaled_object_snapshot(body, scale(1)), NOW)
    metrics.show(Ref(SCALED_OBJECT, "default", "work"), plan.levels)
    of = {"namespace": "default", "scaledObject": "work"}
    assert REGISTRY.get_sample_value("keda_scaled_object_paused", of) == shown


def test_a_failure_is_counted_and_is_no_value():
    ref = Ref(SCALED_JOB, "failing", "work")
    scaler_metrics.measured(ref, 0, sample(error="no route"), 3.0)
    of = {**labels(ref, "s0-redis-work"), "namespace": "failing"}
    assert REGISTRY.get_sample_value("keda_scaler_metrics_value", of) is None
    detail = {"namespace": "failing", "scaler": "redis", "type": "scaledjob"}
    assert REGISTRY.get_sample_value("keda_scaler_detail_errors_total", detail) == 1
    assert REGISTRY.get_sample_value("keda_scaled_job_errors_total", {"namespace": "failing"}) == 1


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [(None, {"scaledjob_running": 2}), ("accurate", {"scaledjob_running": 2, "scaledjob_pending": 1})],
    ids=["pods are not seen", "pods are seen"],
)
def test_a_decision_shows_its_jobs(strategy, expected):
    body = scaled_job(**({"scalingStrategy": {"strategy": strategy}} if strategy else {}))
    jobs = [child("work-z-0"), child("work-z-1"), child("work-z-2", "Complete"), pod("p", job="work-z-0")]
    plan = decide(snapshot(body, *jobs, reading=reading(sample(0))), NOW)
    assert dict(plan.levels) == expected
    metrics.show(WORK, plan.levels)
    of = {"namespace": "default", "scaledJob": "work"}
    assert REGISTRY.get_sample_value("penstock_scaledjob_running_jobs", of) == 2
