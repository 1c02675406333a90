"""Pods: what the server computes for them, and how little of them may change."""

import copy
from datetime import datetime

from deploy.local.apiserver import fields, quantities
from deploy.local.apiserver.fields import FieldError
from deploy.local.apiserver.strategies import podspec
from deploy.local.apiserver.strategies.base import Strategy
from workers.api.kinds import Object

_CHANGES = (
    "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, "
    "`spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to existing tolerations)"
)


class PodStrategy(Strategy):
    """The strategy of core/v1 Pods."""

    def __init__(self) -> None:
        super().__init__(status=True)

    def prepare_create(self, body: Object, now: datetime) -> Object:
        """A new pod is Pending and belongs to a class of service."""
        result = super().prepare_create(body, now)
        return {**result, "status": {"phase": "Pending", "qosClass": qos_class(result["spec"])}}

    def validate(self, body: Object) -> list[FieldError]:
        return podspec.spec(body["spec"], "spec")

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        errors: list[FieldError] = []
        for part in ("containers", "initContainers"):
            if len(new["spec"].get(part) or ()) != len(old["spec"].get(part) or ()):
                return [fields.forbidden(f"spec.{part}", "pod updates may not add or remove containers")]
        deadline, before = (body["spec"].get("activeDeadlineSeconds") for body in (new, old))
        if before is not None and (deadline is None or deadline > before):
            errors.append(
                fields.invalid(
                    "spec.activeDeadlineSeconds",
                    deadline,
                    "must not update from a positive integer to nil value"
                    if deadline is None
                    else f"must be less than or equal to previous value {before}",
                )
            )
        tolerations = new["spec"].get("tolerations") or []
        if any(known not in tolerations for known in old["spec"].get("tolerations") or ()):
            errors.append(fields.forbidden("spec.tolerations", "existing toleration can not be modified"))
        if not errors and _fixed(new["spec"]) != _fixed(old["spec"]):
            errors.append(fields.forbidden("spec", _CHANGES))
        return errors


def _fixed(spec: Object) -> Object:
    """A pod's spec without the few parts that may change."""
    result = copy.deepcopy({k: v for k, v in spec.items() if k not in ("activeDeadlineSeconds", "tolerations")})
    if gates := result.pop("schedulingGates", None):
        result["nodeName"] = [gate["name"] for gate in gates]
    for part in ("containers", "initContainers"):
        for container in result.get(part) or ():
            container.pop("image", None)
    return result


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from the cpu and memory that the containers request and are limited to."""
    containers = [*(spec.get("initContainers") or ()), *spec.get("containers", ())]
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
