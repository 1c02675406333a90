"""What the decision about a ScaledObject must see of the workload it scales."""

from workers.api.keda import scaledobject as manifest
from workers.api.kinds import Object
from workers.controllers.keda.scaledobject import usage
from workers.errors import UserError
from workers.reconcile.controller import ScaleTarget


def target(body: Object) -> ScaleTarget | None:
    """The workload to be seen; its ready pods only where a metric's target is for all of them together."""
    reference = (body.get("spec") or {}).get("scaleTargetRef") or {}
    try:
        spec = manifest.parse(body).spec
    except UserError:
        ready = consumed = False
    else:
        kinds = [trigger.metric_type for trigger in spec.triggers] + [spec.modifiers.metric_type]
        ready, consumed = "Value" in kinds, any(usage.is_resource(trigger) for trigger in spec.triggers)
    if not isinstance(reference.get("name"), str):
        return None
    return ScaleTarget(
        reference.get("apiVersion") or "apps/v1",
        reference.get("kind") or "Deployment",
        reference["name"],
        ready=ready,
        usage=consumed,
    )
