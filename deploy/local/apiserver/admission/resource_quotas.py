"""ResourceQuotas: what goes beyond one is refused, and their status says what is used.

Both are counted from the objects as they are, writes on their way included, so that no sum can go wrong.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.discovery.api_resources import ResourceRegistry, ServedResource
from deploy.local.apiserver.storage.object_store import ObjectStore, Overloaded, StoredChange, StoredObject
from deploy.local.apiserver.strategies.cluster_policy import COMPUTED, NUMBER
from workers.api import quantities
from workers.api.kinds import RESOURCE_QUOTA, Kind, Object
from workers.api.statuses import is_finished
from workers.controllers.volcano import amounts, pod_requests
from workers.controllers.volcano.amounts import Amount, Amounts

#: Seconds between two status updates: the objects of a burst are counted together.
PERIOD = 0.1
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


class QuotaAdmission:
    """The quotas of a loaded store. The usage of an object is cached until it changes."""

    def __init__(self, store: ObjectStore, registry: ResourceRegistry) -> None:
        self._store, self._registry = store, registry
        self._known: dict[tuple[str, str], tuple[int, QuotaUsage]] = {}
        self._changed: set[str] = {key.partition("/")[0] for key in store.table(RESOURCE_QUOTA.id).records}
        self._wake = asyncio.Event()
        self._wake.set()
        store.listeners.append(self._listen)

    def admit(self, resource: ServedResource, body: Object) -> None:
        """Raises ApiError (403) for a new object that a quota of its namespace does not allow."""
        namespace = body["metadata"].get("namespace") or ""
        quotas = list(self._of(namespace)) if namespace else []
        asked = of(resource.kind, body) if quotas else None
        for quota in quotas:
            spec = quota.body.get("spec") or {}
            if asked is None or not applies(spec, asked):
                continue
            hard, name = spec.get("hard") or {}, body["metadata"]["name"]
            title = quota.body["metadata"]["name"]
            if resource.kind.id == "pods" and (missing := undeclared(body["spec"], hard)):
                raise api_errors.forbidden(resource.kind, name, f"failed quota: {title}: must specify {missing}")
            more = {key: amount for key, amount in asked.amounts.items() if key in hard and amount.value}
            if more and (why := self._exceeded(namespace, spec, more)):
                raise api_errors.forbidden(resource.kind, name, f"exceeded quota: {title}, {why}")

    def _exceeded(self, namespace: str, spec: Object, more: Amounts) -> str:
        used, hard = self.used(namespace, spec), amounts.parse(spec["hard"])
        beyond = [name for name in sorted(more) if used[name].value + more[name].value > hard[name].value]
        parts = (("requested", more), ("used", used), ("limited", hard))
        texts = (f"{part}: {','.join(f'{name}={of[name]}' for name in beyond)}" for part, of in parts)
        return ", ".join(texts) if beyond else ""

    def used(self, namespace: str, spec: Object) -> dict[str, Amount]:
        """Returns the usage of a quota, by those of its names that objects are counted by."""
        hard = [name for name in spec.get("hard") or {} if is_counted(name)]
        found = dict.fromkeys(hard, Amount(0))
        for each in self._usages(namespace, hard):
            if applies(spec, each):
                for name in each.amounts.keys() & found.keys():
                    found[name] = found[name] + each.amounts[name]
        return found

    def _usages(self, namespace: str, names: list[str]) -> Iterator[QuotaUsage]:
        """Yields the usages of the objects of a namespace that any of these names may count."""
        stored = {each.storage: each.kind for each in self._registry if each.storage == each.kind.id}
        for kind in stored.values():
            if kind.namespaced and _may_count(kind.id, names):
                for record in self._store.newest(kind.id, namespace):
                    known = self._known.get((kind.id, record.key))
                    if known is None or known[0] != record.version:
                        known = record.version, of(kind, record.body)
                        self._known[kind.id, record.key] = known
                    yield known[1]

    def _of(self, namespace: str) -> Iterator[StoredObject]:
        return self._store.newest(RESOURCE_QUOTA.id, namespace)

    def _listen(self, change: StoredChange) -> None:
        key = change.after.key
        if change.deleted:
            self._known.pop((change.resource, key), None)
        self._changed.add(key.partition("/")[0])
        self._wake.set()

    async def run(self) -> None:
        """Keeps the status of all quotas true, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            changed, self._changed = self._changed, set()
            await asyncio.gather(*(self._write(quota) for name in changed if name for quota in list(self._of(name))))
            await asyncio.sleep(PERIOD)

    async def _write(self, quota: StoredObject) -> None:
        """Writes what is used of one quota, if that is news."""
        body = quota.body
        spec, namespace = body.get("spec") or {}, body["metadata"]["namespace"]
        status = {
            "hard": spec.get("hard") or {},
            "used": {name: str(amount) for name, amount in sorted(self.used(namespace, spec).items())},
        }
        if status == body.get("status") or (not status["hard"] and not body.get("status")):
            return
        try:
            await self._store.put(RESOURCE_QUOTA.id, quota.key, {**body, "status": status})
        except Overloaded:
            self._changed.add(namespace)
            self._wake.set()


def _may_count(kind: str, names: list[str]) -> bool:
    """True if objects of a kind may be counted by any of these names."""
    if kind == "pods":
        return any(not name.startswith("count/") or name == "count/pods" for name in names)
    return any(name == f"count/{kind}" or name.partition(".")[0] == kind for name in names) or (
        kind == "persistentvolumeclaims" and "requests.storage" in names
    )


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
    if not is_finished(body):
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
