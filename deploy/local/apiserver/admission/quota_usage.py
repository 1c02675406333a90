"""The usage of one object by the names of a ResourceQuota, and the scopes that decide which quotas apply to it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deploy.local.apiserver.strategies.cluster_policy import COMPUTED, NUMBER
from workers.api import quantities
from workers.api.kinds import Kind, Object
from workers.controllers.volcano import pod_requests
from workers.controllers.volcano.amounts import Amount, Amounts

#: Kinds that a quota may count by their plain names, too.
_PLAIN = frozenset({"services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas"})
#: Resources that every container must declare where a quota bounds them: usage is unknown otherwise.
_DEMANDED = tuple(f"{part}{name}" for part in ("", "limits.", "requests.") for name in ("cpu", "memory"))
_STORAGE = "requests.storage"
_OF_SERVICES = ("services.nodeports", "services.loadbalancers")

_ONE = Amount.parse("1")


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """The usage of one object. scopes: those of a pod; None for another kind, to which quotas with scopes never apply.

    priority: the PriorityClass of a pod.
    """

    amounts: Amounts
    scopes: frozenset[str] | None = None
    priority: str = ""


def of(kind: Kind, body: Object) -> QuotaUsage:
    """Returns the usage of an object."""
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
        found |= pod_requests.usage(spec)
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
    """True if neither the pod as a whole nor a container requests, or is limited in, cpu or memory."""
    resources = (each.get("resources") or {} for each in (spec, *_containers(spec)))
    return not any(
        quantities.parse(str(text)) > 0
        for each in resources
        for part in ("requests", "limits")
        for name, text in (each.get(part) or {}).items()
        if name in ("cpu", "memory")
    )


def is_counted(name: str) -> bool:
    """True for a name of a quota by which objects are counted."""
    known = name in COMPUTED or name in _PLAIN or name in (*NUMBER, _STORAGE, *_OF_SERVICES)
    return known or name.startswith(("count/", "hugepages-", "requests.hugepages-")) or "/" in name


def applies(spec: Object, usage: QuotaUsage) -> bool:
    """True if the scopes of a quota with this spec include the object."""
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


def undeclared(spec: Object, hard: Mapping[str, object]) -> str:
    """Returns the bounded resources that containers of a pod do not declare, in words; empty if there are none."""
    found: list[str] = []
    for name in sorted(each for each in _DEMANDED if each in hard):
        part, resource = ("limits", name[7:]) if name.startswith("limits.") else ("requests", name.split(".")[-1])
        if resource in _declared(spec, part):
            continue  # by the pod as a whole
        missing = [each["name"] for each in _containers(spec) if resource not in _declared(each, part)]
        found += [f"{name} for: {','.join(missing)}"] if missing else []
    return "; ".join(found)


def _declared(body: Object, part: str) -> Mapping[str, object]:
    """Returns the requests or limits of a container, or of a pod as a whole; a limit implies a request."""
    resources = body.get("resources") or {}
    limits = resources.get("limits") or {}
    return limits if part == "limits" else {**limits, **(resources.get("requests") or {})}
