"""What polls measure, for Prometheus, under KEDA's names and labels."""

from prometheus_client import Counter

from workers.api.kinds import SCALED_JOB, Ref
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


def measured(ref: Ref, index: int, sample: Sample, seconds: float) -> None:
    """Show one trigger's sample. seconds: that its server took to answer.

    Errors carry fewer labels than KEDA's: a counter keeps a series for ever, and objects go.
    """
    type_ = "scaledjob" if ref.kind.id == SCALED_JOB.id else "scaledobject"
    labels = (ref.namespace, sample.name, ref.name, sample.type, str(index), type_)
    LATENCY.set(seconds, *labels)
    if sample.error is None:
        VALUE.set(sample.value, *labels)
        ACTIVE.set(float(sample.active), *labels)
        return
    ERRORS.labels(ref.namespace, sample.type, type_).inc()
    if ref.kind.id == SCALED_JOB.id:
        JOB_ERRORS.labels(ref.namespace).inc()
