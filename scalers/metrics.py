"""The metrics of polls, under KEDA's names and labels."""

from prometheus_client import Counter, Gauge, Histogram

from workers.api.keda.scaledobject import RESOURCE_TRIGGERS
from workers.api.kinds import SCALED_JOB, Ref
from workers.decision.snapshot import TriggerSample
from workers.metrics.expiring import ExpiringCounter, ExpiringGauge

_LABELS = ("namespace", "metric", "scaledObject", "scaler", "triggerIndex", "type")

VALUE = ExpiringGauge("keda_scaler_metrics_value", "Value that a trigger measured last", _LABELS)
ACTIVE = ExpiringGauge("keda_scaler_active", "1 if a trigger is active, else 0", _LABELS)
LATENCY = ExpiringGauge("keda_scaler_metrics_latency_seconds", "Seconds that measuring its server took", _LABELS)
LATENESS = ExpiringGauge(
    "keda_internal_scale_loop_latency_seconds",
    "Seconds by which an object was polled later than its polling interval",
    ("namespace", "type", "resource"),
)
ERRORS = ExpiringCounter("keda_scaler_detail_errors_total", "Measurements of a trigger that failed", _LABELS)
JOB_ERRORS = ExpiringCounter(
    "keda_scaled_job_errors_total",
    "Measurements of triggers of a ScaledJob that failed",
    ("namespace", "scaledJob"),
)
OBJECT_ERRORS = ExpiringCounter(
    "keda_scaled_object_errors_total",
    "Measurements of triggers of a ScaledObject that failed",
    ("namespace", "scaledObject"),
)

RECEIVED = Counter(
    "penstock_events_received_total",
    "Requests that the gateway answered, by the route and the status",
    ["route", "code"],
)
INGEST_SECONDS = Histogram(
    "penstock_event_ingest_seconds",
    "Time from a push's last byte until its events were accepted",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
COMMIT_EVENTS = Histogram(
    "penstock_event_commit_size",
    "Events that one round trip brought to the broker",
    buckets=(1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 4_000),
)
IN_FLIGHT_REQUESTS = Gauge("penstock_gateway_in_flight_requests", "Pushes that are read or wait for the broker")
IN_FLIGHT_BYTES = Gauge("penstock_gateway_in_flight_bytes", "Bytes of their bodies")


def export_sample(ref: Ref, index: int, sample: TriggerSample, seconds: float, name: str = "") -> None:
    """Exports one trigger's sample. seconds: that its server took to answer. name: of the trigger, if it has one.

    Triggers about the target's own pods are not measured here. The error counters of a trigger that works are 0, not
    absent.
    """
    if sample.type in RESOURCE_TRIGGERS:
        return
    labels = (ref.namespace, sample.name, ref.name, name or sample.type, str(index), _type(ref))
    LATENCY.set(seconds, labels)
    failed = 0 if sample.error is None and sample.incomplete is None else 1
    if sample.error is None:
        VALUE.set(sample.value, labels)
        ACTIVE.set(float(sample.active), labels)
    ERRORS.add(failed, labels)
    (JOB_ERRORS if ref.kind == SCALED_JOB else OBJECT_ERRORS).add(failed, (ref.namespace, ref.name))


def export_lateness(ref: Ref, late: float) -> None:
    """Exports the seconds by which the poll of an object is later than its interval; a sooner one counts 0."""
    LATENESS.set(max(0.0, late), (ref.namespace, _type(ref), ref.name))


def _type(ref: Ref) -> str:
    return "scaledjob" if ref.kind == SCALED_JOB else "scaledobject"
