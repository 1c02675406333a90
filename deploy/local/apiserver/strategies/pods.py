"""Pods: what the server computes for them, and how little of them may change."""

import copy
from collections.abc import Iterator
from datetime import datetime

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies.base import Strategy
from deploy.local.apiserver.strategies.pod_specs import podspec
from workers.api import quantities
from workers.api.kinds import Object
from workers.controllers.volcano import pod_requests

_CHANGES = (
    "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, "
    "`spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to existing tolerations)"
)
_GATED: Object = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


class PodStrategy(Strategy):
    """The strategy of core/v1 Pods."""

    status = True

    def prepare_create(self, body: Object, now: datetime) -> Object:
        """A new pod is Pending and has a QoS class; a gated one has the condition that says why it is not scheduled."""
        result = super().prepare_create(body, now)
        status: Object = {"phase": "Pending", "qosClass": qos_class(result["spec"])}
        if result["spec"].get("schedulingGates"):
            status["conditions"] = [dict(_GATED)]
        return {**result, "status": status}

    def validate(self, body: Object) -> list[FieldError]:
        return [*podspec.spec(body["spec"], "spec"), *_images(body["spec"])]

    def validate_create(self, body: Object) -> list[FieldError]:
        errors = super().validate_create(body)
        if body["spec"].get("nodeName") and body["spec"].get("schedulingGates"):
            errors.append(
                field_errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
            )
        return errors

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        errors: list[FieldError] = []
        for part in ("containers", "initContainers"):
            if len(new["spec"].get(part) or ()) != len(old["spec"].get(part) or ()):
                return [field_errors.forbidden(f"spec.{part}", "pod updates may not add or remove containers")]
        deadline, before = (body["spec"].get("activeDeadlineSeconds") for body in (new, old))
        if before is not None and (deadline is None or deadline > before):
            errors.append(
                field_errors.invalid(
                    "spec.activeDeadlineSeconds",
                    deadline,
                    "must not update from a positive integer to nil value"
                    if deadline is None
                    else f"must be less than or equal to previous value {before}",
                )
            )
        tolerations = new["spec"].get("tolerations") or []
        if any(known not in tolerations for known in old["spec"].get("tolerations") or ()):
            errors.append(field_errors.forbidden("spec.tolerations", "existing toleration can not be modified"))
        errors += _gates(new["spec"], old["spec"])
        gated = bool(old["spec"].get("schedulingGates"))
        if not errors and _fixed(new["spec"], gated=gated) != _fixed(old["spec"], gated=gated):
            errors.append(field_errors.forbidden("spec", _CHANGES))
        return errors


def _images(spec: Object) -> Iterator[FieldError]:
    """Images of pods have no blanks around them; in templates they may, for those who fill them in later."""
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            image = container.get("image", "")
            if image.strip() != image:
                detail = "must not have leading or trailing whitespace"
                yield field_errors.invalid(f"spec.{part}[{index}].image", image, detail)


def _gates(new: Object, old: Object) -> Iterator[FieldError]:
    """Gates are only ever taken away. Until the last one is, the choice of nodes may be narrowed."""
    known = [gate.get("name") for gate in old.get("schedulingGates") or ()]
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield field_errors.forbidden(f"spec.schedulingGates[{index}].name", detail)
    wanted, stored = new.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if known and not stored.items() <= wanted.items():
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield field_errors.invalid("spec.nodeSelector", wanted, detail)


def _fixed(spec: Object, *, gated: bool) -> Object:
    """A pod's spec without the few parts that may change. gated: the stored pod waits for its gates."""
    free = ("activeDeadlineSeconds", "tolerations", "schedulingGates", *(["nodeSelector"] * gated))
    result = copy.deepcopy({name: value for name, value in spec.items() if name not in free})
    for part in ("containers", "initContainers"):
        for container in result.get(part) or ():
            container.pop("image", None)
    return result


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from the cpu and memory that the containers request and are limited to.

    Resources of the pod as a whole take the place of its containers'.
    """
    containers = [*(spec.get("initContainers") or ()), *spec.get("containers", ())]
    if pod_requests.has_of_pod(spec):
        containers = [spec]
    guaranteed = bool(containers)
    anything = False
    for container in containers:
        resources = container.get("resources") or {}
        for name in ("cpu", "memory"):
            request, limit = (_amount(resources, part, name) for part in ("requests", "limits"))
            anything = anything or bool(request) or bool(limit)
            guaranteed = guaranteed and bool(limit) and request == limit
    return "Guaranteed" if guaranteed else "Burstable" if anything else "BestEffort"


def _amount(resources: Object, part: str, name: str) -> object:
    amount = (resources.get(part) or {}).get(name)
    try:
        return quantities.parse(amount) if amount else None
    except ValueError:
        return None
