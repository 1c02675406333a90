"""Strategies of NetworkPolicies, PriorityClasses and ResourceQuotas. Of these, quotas alone have an effect here."""

from collections.abc import Iterator

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies.base import Strategy
from workers.api import names, quantities
from workers.api.kinds import Object

#: Resources that a quota with scopes may bound; one for BestEffort pods only their number.
NUMBER = frozenset({"pods", "count/pods"})
_COMMON = ("cpu", "memory", "ephemeral-storage")
COMPUTED = frozenset({*_COMMON, *(f"{part}.{name}" for part in ("requests", "limits") for name in _COMMON)})
#: Objects that are counted by their plain names, and all other names without a domain that a quota may bound.
_COUNTED = frozenset(
    {
        *("pods", "services", "services.nodeports", "services.loadbalancers", "replicationcontrollers", "configmaps"),
        *("secrets", "persistentvolumeclaims", "resourcequotas"),
    }
)
_PLAIN = _COUNTED | COMPUTED | {"requests.storage"}
_PAGES = ("hugepages-", "requests.hugepages-")
#: The scopes that are understood, and those of them that contradict each other.
_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass")
_CONTRARY = (("Terminating", "NotTerminating"), ("BestEffort", "NotBestEffort"))
#: The highest priority that is not the system's own.
_HIGHEST = 1_000_000_000


class NetworkPolicyStrategy(Strategy):
    """The strategy of NetworkPolicies."""

    generation = True

    def validate(self, body: Object) -> list[FieldError]:
        known = ("Ingress", "Egress")
        return [
            field_errors.not_supported(f"spec.policyTypes[{index}]", name, known)
            for index, name in enumerate(body["spec"].get("policyTypes") or ())
            if name not in known
        ]


class PriorityClassStrategy(Strategy):
    """The strategy of PriorityClasses, which never change what they stand for."""

    generation = True

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
            errors.append(field_errors.forbidden("value", "may not be changed in an update."))
        return errors


class QuotaStrategy(Strategy):
    """The strategy of ResourceQuotas."""

    status, initial = True, {}

    def validate(self, body: Object) -> list[FieldError]:
        spec = body.get("spec") or {}
        errors = [
            error
            for name, text in (spec.get("hard") or {}).items()
            for error in _bound(f"spec.hard[{name}]", name, str(text))
        ]
        return errors + [field_errors.invalid(*found) for found in _misplaced(spec)]

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        given, before = ((body.get("spec") or {}).get("scopes") or [] for body in (new, old))
        return field_errors.immutable("spec.scopes", sorted(given), sorted(before))


def _bound(field: str, name: str, text: str) -> Iterator[FieldError]:
    """Yields what is wrong with one bound of a quota: a name that nothing is counted by, or the amount."""
    domain = "/" in name
    yield from field_errors.malformed(field, name, names.qualified_name)
    if not domain and name not in _PLAIN and not name.startswith(_PAGES):
        yield field_errors.invalid(field, name, "must be a standard resource for quota")
    amount = quantities.parse(text)
    if amount < 0:
        yield field_errors.invalid(field, text, "must be greater than or equal to 0")
    if (name in _COUNTED or (domain and not name.startswith("requests."))) and amount % quantities.parse("1"):
        yield field_errors.invalid(field, text, "must be an integer")


def _misplaced(spec: Object) -> Iterator[tuple[str, str, str]]:
    """Yields the errors of a quota's scopes: field, value, message."""
    for field, name, operator in _scopes(spec):
        if name not in _SCOPES:
            yield field, name, f"unsupported scope: there are {', '.join(_SCOPES)}"
        elif name != "PriorityClass" and operator != "Exists":
            yield field, operator, f"must be 'Exists' when scope is any of {', '.join(_SCOPES[:4])}"
    names = {name for _, name, _ in _scopes(spec)}
    for pair in _CONTRARY:
        if names.issuperset(pair):
            yield "spec.scopes", ",".join(pair), "conflicting scopes"
    allowed = NUMBER if "BestEffort" in names else NUMBER | COMPUTED
    for name in sorted(spec.get("hard") or {}) if names else ():
        if name not in allowed and not name.startswith(("hugepages-", "requests.")):
            yield "spec.scopes", name, "unsupported scope applied to resource"


def _scopes(spec: Object) -> Iterator[tuple[str, str, str]]:
    for index, name in enumerate(spec.get("scopes") or ()):
        yield f"spec.scopes[{index}]", name, "Exists"
    for index, term in enumerate((spec.get("scopeSelector") or {}).get("matchExpressions") or ()):
        yield f"spec.scopeSelector.matchExpressions[{index}]", term["scopeName"], term["operator"]
