"""HorizontalPodAutoscalers in autoscaling/v1, of those that are stored as autoscaling/v2.

Version 1 has one number for the processor; metrics beyond it and the behavior stand in annotations, so that a client of
version 1 that writes back what it has read loses nothing.
"""

import orjson

from workers.api.kinds import Object

_PERCENT = "targetCPUUtilizationPercentage"
_METRICS, _BEHAVIOR = (f"autoscaling.alpha.kubernetes.io/{name}" for name in ("metrics", "behavior"))


def to_v1(body: Object) -> Object:
    """The form of version 1 of what is stored."""
    spec = dict(body.get("spec") or {})
    metrics = list(spec.pop("metrics", None) or ())
    noted: Object = {}
    for metric in metrics:
        if (percent := _percent(metric)) is not None:
            spec[_PERCENT] = percent
            metrics.remove(metric)
            break
    if metrics:
        noted[_METRICS] = orjson.dumps(metrics).decode()
    if behavior := spec.pop("behavior", None):
        noted[_BEHAVIOR] = orjson.dumps(behavior).decode()
    metadata = dict(body["metadata"])
    if noted:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **noted}
    status = {name: value for name, value in (body.get("status") or {}).items() if name in _STATUS}
    return {**body, "metadata": metadata, "spec": spec, **({"status": status} if "status" in body else {})}


def from_v1(body: Object) -> Object:
    """The stored form of an object of version 1."""
    spec, metadata = dict(body.get("spec") or {}), dict(body["metadata"])
    annotations = dict(metadata.pop("annotations", None) or {})
    metrics, behavior = (_read(annotations.pop(name, "")) for name in (_METRICS, _BEHAVIOR))
    found = metrics if isinstance(metrics, list) else []
    if (percent := spec.pop(_PERCENT, None)) is not None:
        found = [{"type": "Resource", "resource": {"name": "cpu", "target": _utilization(percent)}}, *found]
    if found:
        spec["metrics"] = found
    if isinstance(behavior, dict):
        spec["behavior"] = behavior
    return {**body, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}, "spec": spec}


#: The fields of the status that both versions have in the same form.
_STATUS = ("currentReplicas", "desiredReplicas", "lastScaleTime", "observedGeneration")


def _utilization(percent: int) -> Object:
    return {"type": "Utilization", "averageUtilization": percent}


def _percent(metric: Object) -> int | None:
    """Returns the number that version 1 has for a metric, None for a metric that it cannot express."""
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    percent = target.get("averageUtilization")
    exact = percent is not None and target == _utilization(percent)
    return percent if exact and resource.get("name") == "cpu" else None


def _read(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
