"""The garbage collector: deletes objects whose owners are gone, and the content of deleted namespaces and definitions.

It stands in for the garbage collector and the controllers of namespaces and of protected claims of
kube-controller-manager, and for the finalizer of CustomResourceDefinitions. It sees every written change and works
through what follows from it beside the requests.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator

from deploy.local.apiserver.api_errors import ApiError
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery import crd_conditions
from deploy.local.apiserver.discovery.api_resources import ServedResource
from deploy.local.apiserver.handlers.deletion import CLEANUP, FOREGROUND, ORPHAN, DeleteOptions, delete
from deploy.local.apiserver.handlers.write import remaining
from deploy.local.apiserver.storage.object_store import StoredChange, StoredObject
from deploy.local.apiserver.strategies.core import CLAIM_IN_USE, CONTENT
from workers.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, Object, finalizers_of

log = logging.getLogger(__name__)

#: An object's place: resource id and key.
Place = tuple[str, str]
Work = tuple[Callable[[str, str], None], str, str]

#: Pieces of work begun before the writes they caused are awaited.
CHUNK = 500


def _claims_of(spec: Object) -> set[str]:
    """Returns the names of the PersistentVolumeClaims that a pod spec uses."""
    sources = (volume.get("persistentVolumeClaim") or {} for volume in spec.get("volumes") or ())
    return {source["claimName"] for source in sources if "claimName" in source}


class Collector:
    """Follows owners and dependents of a loaded store."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._living: dict[str, Place] = {}
        self._dependents: dict[str, set[Place]] = defaultdict(set)
        self._work: dict[Work, None] = {}
        self._emptying: set[str] = set()
        self._wake = asyncio.Event()
        self._writes: list[asyncio.Future[StoredObject]] = []
        store = ctx.store
        places = [(r, key, record) for r in store.resources() for key, record in store.table(r).records.items()]
        for resource, key, record in places:
            self._index(resource, key, record)
        for resource, _, record in places:
            self._consider(StoredChange(resource, None, record))
        store.listeners.append(self._changed)

    def _index(self, resource: str, key: str, record: StoredObject) -> None:
        self._living[record.uid] = (resource, key)
        for owner in record.owners:
            self._dependents[owner].add((resource, key))

    def _changed(self, change: StoredChange) -> None:
        place = (change.resource, change.after.key)
        before, after = change.before, change.after
        if before is not None and (change.deleted or before.owners != after.owners):
            for owner in before.owners:
                self._dependents[owner].discard(place)
                if not self._dependents[owner]:
                    del self._dependents[owner]
        if change.deleted:
            self._living.pop(after.uid, None)
            self._freed(change)
        else:
            self._index(*place, after)
            self._consider(change)

    def _add(self, work: Callable[[str, str], None], resource: str, key: str) -> None:
        self._work[work, resource, key] = None
        self._wake.set()

    def _freed(self, change: StoredChange) -> None:
        """Enqueues the work that waited for the end of an object."""
        after = change.after
        for dependent in self._dependents.get(after.uid, ()):
            self._add(self._attempt, *dependent)
        for owner in after.owners:
            if owner in self._living:
                self._add(self._release, *self._living[owner])
        namespace = after.key.partition("/")[0]
        if namespace in self._emptying and not self._populated(namespace):
            self._add(self._empty_namespace, "namespaces", f"/{namespace}")
        if change.resource == "namespaces":
            self._emptying.discard(after.key[1:])
        store = self._ctx.store
        if change.resource == POD.id:
            claims = store.table(PERSISTENT_VOLUME_CLAIM.id)
            for key in claims.within(namespace):
                if claims.records[key].deleting:
                    self._add(self._unprotect, PERSISTENT_VOLUME_CLAIM.id, key)
        if f"/{change.resource}" in store.table(crd_conditions.ID).records and not store.table(change.resource).records:
            self._add(self._empty_definition, crd_conditions.ID, f"/{change.resource}")

    def _consider(self, change: StoredChange) -> None:
        """Enqueues the work that a change of an object may cause."""
        place = (change.resource, change.after.key)
        after = change.after
        if after.owners and (change.before is None or change.before.owners != after.owners):
            self._add(self._attempt, *place)
        if not after.deleting:
            return
        self._add(self._release, *place)
        if change.resource == "namespaces":
            self._emptying.add(after.key[1:])
            self._add(self._empty_namespace, *place)
        if change.resource == crd_conditions.ID:
            self._add(self._empty_definition, *place)
        if change.resource == PERSISTENT_VOLUME_CLAIM.id:
            self._add(self._unprotect, *place)

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._work:
                for _ in range(min(len(self._work), CHUNK)):
                    work = next(iter(self._work))
                    del self._work[work]
                    self._do(work)
                writes, self._writes = self._writes, []
                await asyncio.gather(*writes)
                # Futures keep what was written.
                writes.clear()
                await asyncio.sleep(0)

    def _do(self, work: Work) -> None:
        task, resource, key = work
        try:
            task(resource, key)
        except ApiError as error:
            # Only a store that is behind refuses the collector: the rest of its work waits with it.
            log.warning("collecting later", extra={"key": key, "error": error.message})
            asyncio.get_running_loop().call_later(1.0, self._add, task, resource, key)

    def _delete(
        self, resource: ServedResource, record: StoredObject, propagation: str | None, *, admitted: bool = False
    ) -> None:
        options = DeleteOptions(propagation, uid=record.uid)
        outcome = delete(self._ctx, resource, record, options, self._ctx.now(), admitted=admitted)
        if outcome.future:
            self._writes.append(outcome.future)

    def _save(self, resource: str, record: StoredObject, body: Object) -> None:
        """Writes an object back, or removes it when nothing keeps it any more."""
        if record.deleting and not remaining(body):
            self._writes.append(self._ctx.remove(resource, record.key))
        elif body != record.body:
            self._writes.append(self._ctx.put(resource, record.key, body))

    def _attempt(self, resource: str, key: str) -> None:
        """Deletes an object whose owners are all gone or wait for it; drops references to owners that are gone."""
        record = self._ctx.store.latest(resource, key)
        served = self._ctx.registry.by_storage(resource)
        if record is None or served is None or not record.owners:
            return
        if record.deleting:
            self._release(resource, key)
            return
        body = record.body
        references = body["metadata"]["ownerReferences"]
        states = [self._state(record, reference) for reference in references]
        if "solid" in states:
            kept = [reference for reference, state in zip(references, states, strict=True) if state == "solid"]
            body["metadata"]["ownerReferences"] = kept
            self._save(resource, record, body)
        elif "waiting" in states and record.uid in self._dependents:
            self._delete(served, record, "Foreground")
        else:
            finalizers = finalizers_of(body)
            self._delete(served, record, None if {ORPHAN, FOREGROUND} & set(finalizers) else "Background")

    def _state(self, record: StoredObject, reference: Object) -> str:
        """Returns solid (the owner exists), waiting (it exists and waits for its dependents to go) or gone.

        An owner of a kind that is not served cannot be looked up and counts as there.
        """
        place = self._living.get(reference["uid"])
        owner = self._ctx.store.latest(*place) if place else None
        if owner is None or owner.uid != reference["uid"]:
            known = self._ctx.registry.by_owner(reference.get("apiVersion", ""), reference.get("kind", ""))
            return "gone" if known else "solid"
        namespace = owner.key.partition("/")[0]
        if namespace and namespace != record.key.partition("/")[0]:
            return "gone"
        if owner.deleting and FOREGROUND in finalizers_of(owner.body):
            return "waiting"
        return "solid"

    def _release(self, resource: str, key: str) -> None:
        """Goes on with an object that waits for the collector: its dependents are let go, or deleted before it."""
        record = self._ctx.store.latest(resource, key)
        if record is None or not record.deleting:
            return
        body = record.body
        finalizers = finalizers_of(body)
        if ORPHAN in finalizers:
            # The references first, the finalizer after them: a crash in between repeats both.
            for place, dependent in self._of(record):
                orphan = dependent.body
                references = [r for r in orphan["metadata"]["ownerReferences"] if r["uid"] != record.uid]
                orphan["metadata"]["ownerReferences"] = references
                if not references:
                    del orphan["metadata"]["ownerReferences"]
                self._save(place[0], dependent, orphan)
            self._finalized(resource, record, body, ORPHAN)
        elif FOREGROUND in finalizers:
            blocking = False
            for place, dependent in self._of(record):
                references = dependent.body["metadata"]["ownerReferences"]
                blocking |= any(r["uid"] == record.uid and r.get("blockOwnerDeletion") for r in references)
                if not dependent.deleting:
                    self._add(self._attempt, *place)
            if not blocking:
                self._finalized(resource, record, body, FOREGROUND)

    def _of(self, owner: StoredObject) -> Iterator[tuple[Place, StoredObject]]:
        """The dependents of an object, in their latest versions."""
        for place in tuple(self._dependents.get(owner.uid, ())):
            dependent = self._ctx.store.latest(*place)
            if dependent is not None and owner.uid in dependent.owners:
                yield place, dependent

    def _finalized(self, resource: str, record: StoredObject, body: Object, finalizer: str) -> None:
        meta = body["metadata"]
        meta["finalizers"] = [name for name in meta.get("finalizers") or () if name != finalizer]
        if not meta["finalizers"]:
            del meta["finalizers"]
        self._save(resource, record, body)

    def _unprotect(self, resource: str, key: str) -> None:
        """Lets a claim that is being deleted go once no pod with a node uses it. A pod that has ended uses it still."""
        record = self._ctx.store.latest(resource, key)
        if record is None or not record.deleting or CLAIM_IN_USE not in finalizers_of(record.body):
            return
        namespace, _, name = key.partition("/")
        pods = (pod.body["spec"] for pod in self._ctx.store.newest(POD.id, namespace))
        if not any(spec.get("nodeName") and name in _claims_of(spec) for spec in pods):
            self._finalized(resource, record, record.body, CLAIM_IN_USE)

    def _empty_namespace(self, resource: str, key: str) -> None:
        """Deletes what is in a namespace that is being deleted, then lets the namespace go."""
        store, namespace = self._ctx.store, key[1:]
        record = store.latest(resource, key)
        if record is None or not record.deleting:
            return
        cleared = [self._clear(storage, namespace) for storage in store.resources()]
        if all(cleared):
            body = record.body
            spec = body.get("spec", {})
            left = [name for name in spec.pop("finalizers", ()) if name != CONTENT]
            if left:
                spec["finalizers"] = left
            self._save(resource, record, body)

    def _populated(self, namespace: str) -> bool:
        """True while a namespace contains objects."""
        store = self._ctx.store
        return any(store.table(storage).within(namespace) for storage in store.resources())

    def _clear(self, storage: str, namespace: str) -> bool:
        """Deletes a resource's objects in one namespace, or everywhere; True when there is none left."""
        store = self._ctx.store
        definition = store.latest(crd_conditions.ID, f"/{storage}")
        # Objects of a kind none of whose versions is served any more must go, too.
        unserved = crd_conditions.unserved(definition.body) if definition else None
        served = self._ctx.registry.by_storage(storage) or unserved
        keys = store.table(storage).within(namespace)
        for key in keys:
            record = store.latest(storage, key)
            if served is not None and record is not None and not record.deleting:
                # With their kind all objects go, also those that a rule protects, as in a real API server: it empties
                # a definition below admission. A namespace is emptied by requests that are judged.
                self._delete(served, record, "Background", admitted=not namespace)
        return not keys

    def _empty_definition(self, resource: str, key: str) -> None:
        """Deletes the objects of a CustomResourceDefinition that is being deleted, then lets the definition go."""
        store = self._ctx.store
        definition = store.latest(resource, key)
        if definition is None or not definition.deleting:
            return
        if self._clear(key[1:], ""):
            self._finalized(resource, definition, definition.body, CLEANUP)
