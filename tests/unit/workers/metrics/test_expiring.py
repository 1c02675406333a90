"""Gauges whose series fade, and what is shown of ScaledJobs and their triggers."""

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client import exposition as text
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from scalers import metrics as scaler_metrics
from tests.support.tables import cases
from tests.unit.controllers.factories import NOW, child, pod, reading, sample, scaled_job, snapshot
from workers.api.kinds import SCALED_JOB, SCALED_OBJECT, Ref
from workers.controllers.keda.scaledjob import decide
from workers.metrics import expiring, process
from workers.metrics.expiring import ExpiringCounter, ExpiringGauge

WORK = Ref(SCALED_JOB, "default", "work")


class Shown:
    """One gauge in a registry of its own, and a clock."""

    def __init__(self):
        self.now = 0.0
        self.registry = CollectorRegistry()
        self.gauge = ExpiringGauge("g", "A gauge", ["object"], registry=self.registry, clock=lambda: self.now)

    def value(self, name):
        return self.registry.get_sample_value("g", {"object": name})


def test_the_last_value_is_shown_until_it_fades():
    shown = Shown()
    shown.gauge.set(1, ("a",))
    shown.now = expiring.LIFE
    shown.gauge.set(2, ("b",))
    assert (shown.value("a"), shown.value("b")) == (1, 2)
    shown.gauge.set(3, ("a",))
    shown.now += expiring.LIFE
    assert (shown.value("a"), shown.value("b")) == (3, 2)
    shown.now += 1
    assert (shown.value("a"), shown.value("b")) == (None, None)


def test_there_are_never_more_series_than_so_many(monkeypatch):
    monkeypatch.setattr(expiring, "SERIES", 2)
    shown = Shown()
    for name in ("a", "b", "a", "c"):
        shown.gauge.set(1, (name,))
    assert [shown.value(name) for name in "abc"] == [1, None, 1]


def test_labels_are_counted():
    with pytest.raises(ValueError, match="object"):
        Shown().gauge.set(1, ("a", "b"))


@cases(("a counter's name", "errors_total", "counter"), ("another", "phase_count", "unknown"))
def test_a_count_is_shown_under_exactly_its_name(name, type_):
    registry, now = CollectorRegistry(), [0.0]
    counter = ExpiringCounter(name, "A count", ["object"], registry=registry, clock=lambda: now[0])
    for amount in (0, 2, 3):
        counter.add(amount, ("a",))
    assert registry.get_sample_value(name, {"object": "a"}) == 5
    assert [family.type for family in registry.collect()] == [type_]
    for write, read in ((text.generate_latest, read_text), (openmetrics.generate_latest, read_openmetrics)):
        samples = [each for family in read(write(registry).decode()) for each in family.samples]
        assert [(each.name, each.labels, each.value) for each in samples] == [(name, {"object": "a"}, 5)]
    now[0] = expiring.COUNT_LIFE + 1
    counter.add(1, ("a",))
    assert registry.get_sample_value(name, {"object": "a"}) == 1


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
    scaler_metrics.export_sample(ref, 0, sample(7), 0.25)
    of = labels(ref, "s0-redis-work")
    assert REGISTRY.get_sample_value("keda_scaler_metrics_value", of) == 7
    assert REGISTRY.get_sample_value("keda_scaler_active", of) == 1
    assert REGISTRY.get_sample_value("keda_scaler_metrics_latency_seconds", of) == 0.25


def test_triggers_of_a_scaled_object_too_by_their_own_names():
    ref = Ref(SCALED_OBJECT, "default", "shown")
    scaler_metrics.export_sample(ref, 0, sample(7, active=True), 0.25, "orders")
    of = labels(ref, "s0-redis-work", "orders", "scaledobject")
    assert REGISTRY.get_sample_value("keda_scaler_metrics_value", of) == 7
    assert REGISTRY.get_sample_value("keda_scaler_active", of) == 1
    failing = Ref(SCALED_OBJECT, "failing too", "work")
    scaler_metrics.export_sample(failing, 0, sample(error="no route"), 3.0)
    errors = {"namespace": "failing too", "scaledObject": "work"}
    assert REGISTRY.get_sample_value("keda_scaled_object_errors_total", errors) == 1
    errors = {"namespace": "failing too", "scaledJob": "work"}
    assert REGISTRY.get_sample_value("keda_scaled_job_errors_total", errors) is None


def test_of_a_targets_own_pods_polls_show_nothing():
    ref = Ref(SCALED_OBJECT, "default", "idle")
    scaler_metrics.export_sample(ref, 0, sample(0, type="cpu", name="s0-cpu"), 0.25)
    assert REGISTRY.get_sample_value("keda_scaler_active", labels(ref, "s0-cpu", "cpu", "scaledobject")) is None


def test_failures_are_counted_from_zero_on_and_are_no_values():
    ref = Ref(SCALED_JOB, "failing", "work")
    of = {**labels(ref, "s0-redis-work"), "namespace": "failing"}
    errors = {"namespace": "failing", "scaledJob": "work"}
    for answer, failed, value in ((sample(7), 0, 7), (sample(error="no route"), 1, 7), (sample(8), 1, 8)):
        scaler_metrics.export_sample(ref, 0, answer, 3.0)
        assert REGISTRY.get_sample_value("keda_scaler_metrics_value", of) == value
        assert REGISTRY.get_sample_value("keda_scaler_detail_errors_total", of) == failed
        assert REGISTRY.get_sample_value("keda_scaled_job_errors_total", errors) == failed


@cases(("late", 1.5, 1.5), ("woken before its time", -20.0, 0.0))
def test_how_late_a_poll_is(late, shown):
    scaler_metrics.export_lateness(Ref(SCALED_OBJECT, "default", "work"), late)
    of = {"namespace": "default", "type": "scaledobject", "resource": "work"}
    assert REGISTRY.get_sample_value("keda_internal_scale_loop_latency_seconds", of) == shown


@cases(
    ("pods are not seen", None, {"scaledjob_running": 2}),
    ("pods are seen", "accurate", {"scaledjob_running": 2, "scaledjob_pending": 1}),
)
def test_a_decision_shows_its_jobs(strategy, expected):
    body = scaled_job(**({"scalingStrategy": {"strategy": strategy}} if strategy else {}))
    jobs = [child("work-z-0"), child("work-z-1"), child("work-z-2", "Complete"), pod("p", job="work-z-0")]
    plan = decide(snapshot(body, *jobs, reading=reading(sample(0))), NOW)
    assert dict(plan.levels) == expected
    process.show(WORK, plan.levels)
    of = {"namespace": "default", "scaledJob": "work"}
    assert REGISTRY.get_sample_value("penstock_scaledjob_running_jobs", of) == 2
