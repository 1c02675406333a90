"""ResourceQuotas: what goes beyond one is refused, and their status says what is used.

Both are counted from the objects as they are, writes on their way included, so that no sum can go wrong.
"""

import asyncio
from collections.abc import Iterator

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.admission import quota_usage
from deploy.local.apiserver.admission.quota_usage import QuotaUsage
from deploy.local.apiserver.discovery.api_resources import ResourceRegistry, ServedResource
from deploy.local.apiserver.storage.object_store import ObjectStore, Overloaded, StoredChange, StoredObject
from workers.api.kinds import RESOURCE_QUOTA, Object
from workers.controllers.volcano import amounts
from workers.controllers.volcano.amounts import Amount, Amounts

#: Seconds between two status updates: the objects of a burst are counted together.
PERIOD = 0.1


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
        asked = quota_usage.of(resource.kind, body) if quotas else None
        for quota in quotas:
            spec = quota.body.get("spec") or {}
            if asked is None or not quota_usage.applies(spec, asked):
                continue
            hard, name = spec.get("hard") or {}, body["metadata"]["name"]
            title = quota.body["metadata"]["name"]
            if resource.kind.id == "pods" and (missing := quota_usage.undeclared(body["spec"], hard)):
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
        hard = [name for name in spec.get("hard") or {} if quota_usage.is_counted(name)]
        found = dict.fromkeys(hard, Amount(0))
        for each in self._usages(namespace, hard):
            if quota_usage.applies(spec, each):
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
                        known = record.version, quota_usage.of(kind, record.body)
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
