"""The subresources of pods: binding and eviction; exec, attach and port-forward, which the kubelet answers itself."""

from dataclasses import replace

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.api_errors import ApiError, bad_request
from deploy.local.apiserver.codec.builtin import Decoder, decoder
from deploy.local.apiserver.codec.definitions import Type
from deploy.local.apiserver.codec.field_errors import DecodeError
from deploy.local.apiserver.context import Context, written
from deploy.local.apiserver.discovery.api_resources import RequestTarget
from deploy.local.apiserver.handlers import deletion
from deploy.local.apiserver.handlers.pod_logs import container_of
from deploy.local.apiserver.http.request import ApiRequest, Response, Upgrade, json_response
from deploy.local.apiserver.storage.object_store import StoredObject
from workers.api import times
from workers.api.kinds import Kind, Object

BINDING = Kind("", "v1", "Binding", "pods/binding")
_BINDING, _EVICTION = decoder(Type("V1Binding")), decoder(Type("V1Eviction"))
_DISRUPTED: Object = {
    "type": "DisruptionTarget",
    "status": "True",
    "lastProbeTime": None,
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_PROXY = (
    "the proxy is not offered here: pods are processes of this machine, so connect to <podIP>:<port> directly, "
    "or use kubectl port-forward"
)
#: What is not offered, by resource and subresource, and what to do instead.
NOT_OFFERED = {
    ("pods", "ephemeralcontainers"): (
        "ephemeral containers are not offered here, and with them kubectl debug: pods are processes of this machine, "
        "so kubectl exec finds every program that it has"
    ),
    ("pods", "resize"): "resizing is not offered here: resources of containers have no effect",
    **{(resource, "proxy"): _PROXY for resource in ("nodes", "pods", "services")},
}


def _read(decode: Decoder, request: ApiRequest, kind: str) -> Object:
    """The object in the body; 400 for anything else."""
    document = request.document()
    found = document.get("kind") if isinstance(document, dict) else None
    if found not in (None, "", kind):
        raise bad_request(f"{found} cannot be handled as a {kind}")
    try:
        return dict(decode(document, None, []))
    except DecodeError as error:
        raise bad_request(f"{kind} cannot be handled as a {kind}: {error}") from None


async def bind(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """POST of a pod's binding: the pod is to run on a node. A pod is bound once."""
    binding = _read(_BINDING, request, BINDING.kind)
    wanted = binding.get("target") or {}
    node = wanted.get("name")
    if not node or wanted.get("kind") not in (None, "", "Node"):
        raise bad_request("a binding needs a target of kind Node with a name")
    record = ctx.existing(target)
    body = record.body
    meta, spec = body["metadata"], body["spec"]
    uid = (binding.get("metadata") or {}).get("uid")
    if uid and uid != record.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}"
        raise api_errors.conflict(BINDING, target.name, why)
    for refused, why in (
        ("deletionTimestamp" in meta, "is being deleted, cannot be assigned to a host"),
        (spec.get("nodeName"), f'is already assigned to node "{spec.get("nodeName")}"'),
        (spec.get("schedulingGates"), "has non-empty .spec.schedulingGates"),
    ):
        if refused:
            raise api_errors.conflict(BINDING, target.name, f"pod {target.name} {why}")
    spec["nodeName"] = node
    status = body.setdefault("status", {})
    others = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    status["conditions"] = [*others, {**scheduled, "lastTransitionTime": times.render(ctx.now())}]
    await written(ctx.put(target.resource.storage, record.key, body))
    return json_response(api_errors.success(code=201), 201)


async def evict(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """POST of a pod's eviction: the pod is deleted, and says that it is not to blame.

    Disruption budgets are stored here, and not asked.
    """
    eviction = _read(_EVICTION, request, "Eviction")
    if (eviction.get("metadata") or {}).get("name", "") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = deletion.read(eviction.get("deleteOptions") or {}, request.query.get("dryRun"))
    record = ctx.existing(target)
    if not options.dry:
        deletion.check(target.resource.kind, target.name, record, options)
        record, options = _disrupted(ctx, target, record), replace(options, version=None)
    outcome = deletion.delete(ctx, target.resource, record, options, ctx.now())
    if outcome.future:
        await written(outcome.future)
    return json_response(api_errors.success(code=201), 201)


def _disrupted(ctx: Context, target: RequestTarget, record: StoredObject) -> StoredObject:
    """The pod with the condition by which others see that it did not end by itself, as a version of its own."""
    body = record.body
    conditions = body.setdefault("status", {}).get("conditions") or []
    if any(c["type"] == _DISRUPTED["type"] and c["status"] == "True" for c in conditions):
        return record
    others = [c for c in conditions if c["type"] != _DISRUPTED["type"]]
    body["status"]["conditions"] = [*others, {**_DISRUPTED, "lastTransitionTime": times.render(ctx.now())}]
    ctx.put(target.resource.storage, record.key, body)
    return ctx.existing(target)


def refuse(resource: str, subresource: str) -> None:
    """Raises ApiError (501) that names the subresource if it is one of those that are not offered."""
    if message := NOT_OFFERED.get((resource, subresource)):
        raise ApiError(501, "NotImplemented", message)


def upgrade(ctx: Context, request: ApiRequest, target: RequestTarget) -> Upgrade:
    """Returns where the kubelet offers the stream. Raises ApiError for a pod or container that is not there."""
    record = ctx.existing(target)
    parts = [target.subresource, record.uid]
    if target.subresource != "portforward":
        parts.append(container_of(record.body, request.query.get("container", "")))
    if not record.body["spec"].get("nodeName"):
        raise bad_request(f"pod {target.name} does not have a host assigned")
    return Upgrade("".join(f"/{part}" for part in parts))
