"""The Event about a new object of a kind that nothing acts on: it says so to those who describe the object later."""

from contextlib import suppress
from uuid import uuid4

from deploy.local.apiserver.api_errors import ApiError
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery.api_resources import ServedResource
from deploy.local.apiserver.storage.object_store import StoredObject
from workers.api import times
from workers.api.kinds import EVENT, Object, reference

REASON = "NotActedUpon"
_COMPONENT = "penstock-apiserver"


def report(ctx: Context, resource: ServedResource, record: StoredObject) -> None:
    """Records the Event, if the object is of such a kind. The object is stored whether the Event is or not."""
    row = resource.kept
    if row is None:
        return
    body = resource.present(record)
    namespace = body["metadata"].get("namespace") or "default"
    ending = "all" if row.once else record.uid
    key = f"{namespace}/{row.kind.plural}.{ending}"
    if ctx.store.latest(EVENT.id, key) is None:
        with suppress(ApiError):
            ctx.put(EVENT.id, key, _event(ctx, key, reference(row.kind, body), row.warning))


def _event(ctx: Context, key: str, about: Object, message: str) -> Object:
    namespace, _, name = key.partition("/")
    now = times.render(ctx.now())
    # Events stay for ever here; this one goes with its object.
    owner = {field: about[field] for field in ("apiVersion", "kind", "name", "uid")}
    metadata = {"name": name, "namespace": namespace, "uid": str(uuid4()), "creationTimestamp": now}
    return {
        "metadata": {**metadata, "ownerReferences": [owner]},
        "involvedObject": about,
        "reason": REASON,
        "message": message,
        "type": "Warning",
        "source": {"component": _COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "reportingComponent": _COMPONENT,
        "reportingInstance": "",
    }
