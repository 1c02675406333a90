"""What polls measure, for Prometheus, under KEDA's names and labels."""

from prometheus_client import Counter

from workers.api.kinds import SCALED_JOB, Ref
from workers.api.scaledobject import RESOURCE_TRIGGERS
from workers.fading import FadingGauge
from workers.snapshot import Sample

_LABELS = ("namespace", "metric", "scaledObject", "scaler", "triggerIndex", "type")

VALUE = FadingGauge("keda_scaler_metrics_value", "Value a trigger measured last", _LABELS)
ACTIVE = FadingGauge("keda_scaler_active", "Whether a trigger is active", _LABELS)
LATENCY = FadingGauge("keda_scaler_metrics_latency_seconds", "How long measuring its server took", _LABELS)
ERRORS = Counter(
    "keda_scaler_detail_errors_total", "Triggers that could not be measured", ["namespace", "scaler", "type"]
)
JOB_ERRORS = Counter("keda_scaled_job_errors_total", "Triggers of ScaledJobs that could not be measured", ["namespace"])
OBJECT_ERRORS = Counter(
    "keda_scaled_object_errors_total", "Triggers of ScaledObjects that could not be measured", ["namespace"]
)


def measured(ref: Ref, index: int, sample: Sample, seconds: float, name: str = "") -> None:
    """Show one trigger's sample. seconds: that its server took to answer. name: of the trigger, if it has one.

    Of triggers about the target's own pods nothing is measured here. Errors carry fewer labels than KEDA's: a counter
    keeps a series for ever, and objects go.
    """
    if sample.type in RESOURCE_TRIGGERS:
        return
    type_ = "scaledjob" if ref.kind.id == SCALED_JOB.id else "scaledobject"
    labels = (ref.namespace, sample.name, ref.name, name or sample.type, str(index), type_)
    LATENCY.set(seconds, *labels)
    if sample.error is None:
        VALUE.set(sample.value, *labels)
        ACTIVE.set(float(sample.active), *labels)
        return
    ERRORS.labels(ref.namespace, sample.type, type_).inc()
    (JOB_ERRORS if ref.kind.id == SCALED_JOB.id else OBJECT_ERRORS).labels(ref.namespace).inc()
