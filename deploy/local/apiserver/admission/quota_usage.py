"""What a ResourceQuota counts: of one object, by the quota's names, and whether a quota is about it at all."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deploy.local.apiserver.strategies.limits import COMPUTED, NUMBER
from workers.api import quantities
from workers.api.kinds import Kind, Object
from workers.controllers.volcano import demand
from workers.controllers.volcano.amounts import Amount, Amounts

#: Kinds that a quota may count by their plain names, too.
_PLAIN = frozenset({"services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas"})
#: Names of these must stand in every container where a quota bounds them, or nobody could tell what is used.
_DEMANDED = tuple(f"{part}{name}" for part in ("", "limits.", "requests.") for name in ("cpu", "memory"))
_STORAGE = "requests.storage"
_OF_SERVICES = ("services.nodeports", "services.loadbalancers")

_ONE = Amount.parse("1")


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """What one object counts. scopes: which of a pod's there are; None: of no pod, which quotas with scopes never mean.

    priority: the PriorityClass of a pod.
    """

    amounts: Amounts
    scopes: frozenset[str] | None = None
    priority: str = ""


def of(kind: Kind, body: Object) -> QuotaUsage:
    """What quotas count of an object."""
    found = {f"count/{kind.id}": _ONE}
    if kind.id == "pods":
        return _pod(body, found)
    if kind.id in _PLAIN:
        found[kind.id] = _ONE
    if kind.id == "services":
        found |= dict(zip(_OF_SERVICES, _ports(body.get("spec") or {}), strict=True))
    if kind.id == "persistentvolumeclaims":
        asked = ((body.get("spec") or {}).get("resources") or {}).get("requests") or {}
        found |= {_STORAGE: Amount.parse(asked["storage"])} if "storage" in asked else {}
    return QuotaUsage(found)


def _pod(body: Object, found: dict[str, Amount]) -> QuotaUsage:
    """Of a pod that has ended only its object counts."""
    spec = body["spec"]
    if (body.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
        found |= demand.usage(spec)
    scopes = {
        "NotTerminating" if spec.get("activeDeadlineSeconds") is None else "Terminating",
        "BestEffort" if _is_best_effort(spec) else "NotBestEffort",
    }
    priority = spec.get("priorityClassName") or ""
    return QuotaUsage(found, frozenset(scopes | ({"PriorityClass"} if priority else set())), priority)


def _ports(spec: Object) -> tuple[Amount, Amount]:
    """Node ports and load balancers of a Service."""
    balanced = spec.get("type") == "LoadBalancer"
    opened = len(spec.get("ports") or ()) if balanced or spec.get("type") == "NodePort" else 0
    return _ONE * opened, _ONE * balanced


def _containers(spec: Object) -> Iterator[Object]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _is_best_effort(spec: Object) -> bool:
    """Whether no container asks for, or is limited in, cpu or memory."""
    resources = (container.get("resources") or {} for container in _containers(spec))
    return not any(
        quantities.parse(str(text)) > 0
        for each in resources
        for part in ("requests", "limits")
        for name, text in (each.get(part) or {}).items()
        if name in ("cpu", "memory")
    )


def counts(name: str) -> bool:
    """Whether a name of a quota is one that anything is counted by."""
    known = name in COMPUTED or name in _PLAIN or name in (*NUMBER, _STORAGE, *_OF_SERVICES)
    return known or name.startswith(("count/", "hugepages-", "requests.hugepages-")) or "/" in name


def means(spec: Object, usage: QuotaUsage) -> bool:
    """Whether a quota with this spec is about the object."""
    terms = list(_terms(spec))
    if not terms:
        return True
    return usage.scopes is not None and all(_holds(term, usage) for term in terms)


def _terms(spec: Object) -> Iterator[Object]:
    yield from ({"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ())
    yield from (spec.get("scopeSelector") or {}).get("matchExpressions") or ()


def _holds(term: Object, usage: QuotaUsage) -> bool:
    values, there = term.get("values") or (), term["scopeName"] in (usage.scopes or ())
    match term["operator"]:
        case "In":
            return there and usage.priority in values
        case "NotIn":
            return usage.priority not in values
        case "DoesNotExist":
            return not there
    return there


def unspecified(spec: Object, hard: Mapping[str, object]) -> str:
    """What the containers of a pod do not say although a quota bounds it, in words; empty if nothing."""
    found: list[str] = []
    for name in sorted(each for each in _DEMANDED if each in hard):
        part, resource = ("limits", name[7:]) if name.startswith("limits.") else ("requests", name.split(".")[-1])
        silent = [each["name"] for each in _containers(spec) if resource not in _said(each, part)]
        found += [f"{name} for: {','.join(silent)}"] if silent else []
    return "; ".join(found)


def _said(container: Object, part: str) -> Mapping[str, object]:
    """What a container says; a limit says a request, too."""
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    return limits if part == "limits" else {**limits, **(resources.get("requests") or {})}
