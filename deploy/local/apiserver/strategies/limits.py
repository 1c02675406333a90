"""Who may talk to whom, who comes first, how much there is for a namespace. The last the server keeps to itself."""

from deploy.local.apiserver.admission import quota_usage
from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies.base import Strategy
from workers.api import quantities
from workers.api.kinds import Object

#: The highest priority that is not the system's own.
_HIGHEST = 1_000_000_000


class NetworkPolicyStrategy(Strategy):
    """The strategy of NetworkPolicies."""

    def __init__(self) -> None:
        super().__init__(generation=True)

    def validate(self, body: Object) -> list[FieldError]:
        known = ("Ingress", "Egress")
        return [
            field_errors.not_supported(f"spec.policyTypes[{index}]", name, known)
            for index, name in enumerate(body["spec"].get("policyTypes") or ())
            if name not in known
        ]


class PriorityClassStrategy(Strategy):
    """The strategy of PriorityClasses, which never change what they stand for."""

    def __init__(self) -> None:
        super().__init__(generation=True)

    def validate(self, body: Object) -> list[FieldError]:
        errors: list[FieldError] = []
        if body["metadata"]["name"].startswith("system-"):
            reserved = "priority class names with 'system-' prefix are reserved for system use only"
            errors.append(field_errors.forbidden("metadata.name", reserved))
        if body.get("value", 0) > _HIGHEST:
            most = f"maximum allowed value of a user defined priority is {_HIGHEST}"
            errors.append(field_errors.forbidden("value", most))
        known = ("Never", "PreemptLowerPriority")
        if (policy := body.get("preemptionPolicy")) not in known:
            errors.append(field_errors.not_supported("preemptionPolicy", policy, known))
        return errors

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        errors = field_errors.immutable("preemptionPolicy", new.get("preemptionPolicy"), old.get("preemptionPolicy"))
        if new.get("value") != old.get("value"):
            errors.append(field_errors.forbidden("Value", "may not be changed in an update."))
        return errors


class QuotaStrategy(Strategy):
    """The strategy of ResourceQuotas."""

    def __init__(self) -> None:
        super().__init__(status=True, initial={})

    def validate(self, body: Object) -> list[FieldError]:
        spec = body.get("spec") or {}
        errors = [
            field_errors.invalid(f"spec.hard[{name}]", text, "must be greater than or equal to 0")
            for name, text in (spec.get("hard") or {}).items()
            if quantities.parse(str(text)) < 0
        ]
        return errors + [field_errors.invalid(*found) for found in quota_usage.misplaced(spec)]

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        given, before = ((body.get("spec") or {}).get("scopes") or [] for body in (new, old))
        return field_errors.immutable("spec.scopes", sorted(given), sorted(before))
