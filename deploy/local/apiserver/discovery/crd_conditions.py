"""CustomResourceDefinitions: accepted at once, and what they define is served at once."""

from datetime import datetime

from deploy.local.apiserver.discovery.api_resources import ResourceRegistry, ServedResource, custom
from deploy.local.apiserver.storage.object_store import ObjectStore, StoredChange
from workers.api import times
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, Object

ID = CUSTOM_RESOURCE_DEFINITION.id


def established(body: Object, now: datetime) -> Object:
    """The definition with the status that says that it is served."""
    spec = body["spec"]
    names = spec["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    status = body.get("status") or {}
    conditions = list(status.get("conditions") or ())
    have = {condition["type"] for condition in conditions}
    for kind, reason, message in (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ):
        if kind not in have:
            condition = {"type": kind, "status": "True", "reason": reason, "message": message}
            conditions.append({**condition, "lastTransitionTime": times.render(now)})
    stored = list(status.get("storedVersions") or ())
    stored += [v["name"] for v in spec["versions"] if v.get("storage") and v["name"] not in stored]
    return {**body, "status": {"conditions": conditions, "acceptedNames": names, "storedVersions": stored}}


def terminating(store: ObjectStore, resource: ServedResource) -> bool:
    """True while the definition of a custom resource is being deleted."""
    kind = resource.kind
    record = store.latest(ID, f"/{kind.plural}.{kind.group}")
    return record is not None and record.deleting


def unserved(definition: Object) -> ServedResource:
    """The resource that a definition stores, also when it serves none of its versions."""
    spec = definition["spec"]
    [stored] = [{**version, "served": True} for version in spec["versions"] if version.get("storage")]
    return next(custom({**definition, "spec": {**spec, "versions": [stored]}}))


def serve(registry: ResourceRegistry, definition: Object) -> None:
    """Serves what a definition asks for, in place of what its last version asked for."""
    spec = definition["spec"]
    registry.drop(spec["group"], spec["names"]["plural"])
    for resource in custom(definition):
        registry.add(resource)


def follow(store: ObjectStore, registry: ResourceRegistry) -> None:
    """Keeps the registry in step with the definitions in the store, from now on."""
    for record in store.table(ID).records.values():
        serve(registry, record.body)

    def changed(change: StoredChange) -> None:
        if change.resource != ID:
            return
        body = change.after.body
        if change.deleted:
            registry.drop(body["spec"]["group"], body["spec"]["names"]["plural"])
        elif change.before is None or change.before.body["spec"] != body["spec"]:
            serve(registry, body)

    store.listeners.append(changed)
