"""The priorities of new pods, from the PriorityClass that they name or from the default one."""

from collections.abc import Mapping

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.storage.object_store import ObjectStore
from workers.api.kinds import POD, PRIORITY_CLASS, Kind, Object

#: The values of the classes that every cluster has.
SYSTEM: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_FIELDS = {"priority": "integer value of priority", "preemptionPolicy": "string value of PreemptionPolicy"}
_PREEMPTS = "PreemptLowerPriority"


def admitted(kind: Kind, body: Object, store: ObjectStore) -> Object:
    """Returns a new object, with its priority if it is a pod of a class.

    Raises ApiError (403) for a pod whose class does not exist or stands for another priority than the pod's own, and
    for a second default class.
    """
    if kind.id == PRIORITY_CLASS.id and body.get("globalDefault") and (default := _default(store)) is not None:
        name = default["metadata"]["name"]
        why = f"PriorityClass {name} is already marked as default. Only one default can exist"
        raise api_errors.forbidden(kind, body["metadata"].get("name") or "", why)
    return _of_pod(body, store) if kind.id == POD.id else body


def _of_pod(body: Object, store: ObjectStore) -> Object:
    found = _class(body["spec"].get("priorityClassName") or "", body["metadata"].get("name") or "", store)
    computed = {"priority": found.get("value", 0), "preemptionPolicy": found.get("preemptionPolicy") or _PREEMPTS}
    for field, what in _FIELDS.items():
        if (given := body["spec"].get(field)) not in (None, computed[field]):
            why = (
                f"the {what} ({given}) must not be provided in pod spec; priority admission controller computed "
                f"{computed[field]} from the given PriorityClass name"
            )
            raise api_errors.forbidden(POD, body["metadata"].get("name") or "", why)
    if not found:
        return body
    return {**body, "spec": {**body["spec"], "priorityClassName": found["metadata"]["name"], **computed}}


def _class(name: str, pod: str, store: ObjectStore) -> Object:
    """Returns the named class, the default one without a name, an empty object where there is none."""
    if not name:
        return _default(store) or {}
    if name in SYSTEM:
        return system_class(name)
    if (record := store.latest(PRIORITY_CLASS.id, f"/{name}")) is None:
        raise api_errors.forbidden(POD, pod, f"no PriorityClass with name {name} was found")
    return record.body


def system_class(name: str) -> Object:
    """Returns one of the classes that every cluster has, without what the server sets."""
    description = "For pods that the cluster itself needs, which users' pods do not displace."
    return {
        "metadata": {"name": name},
        "value": SYSTEM[name],
        "description": description,
        "preemptionPolicy": _PREEMPTS,
    }


def _default(store: ObjectStore) -> Object | None:
    """Returns the default class, the lowest of several that are older than the rule that there is one."""
    bodies = (record.body for record in store.newest(PRIORITY_CLASS.id, ""))
    return min(
        (body for body in bodies if body.get("globalDefault")), key=lambda body: body.get("value", 0), default=None
    )
