"""What only pods have: binding to a node, and eviction."""

from deploy.local.apiserver import answers, deletion
from deploy.local.apiserver.answers import bad_request
from deploy.local.apiserver.context import Context, written
from deploy.local.apiserver.request import Request, Response, Target, json_response
from deploy.local.apiserver.store import Record
from workers.api import times
from workers.api.kinds import Kind, Object

BINDING = Kind("", "v1", "Binding", "pods/binding")


def _pod(ctx: Context, target: Target) -> Record:
    record = ctx.store.latest(target.resource.storage, target.key)
    if record is None:
        raise answers.not_found(target.resource.kind, target.name)
    return record


def _document(request: Request) -> Object:
    document = request.document()
    if not isinstance(document, dict):
        raise bad_request("the body is not an object")
    return document


async def bind(ctx: Context, request: Request, target: Target) -> Response:
    """POST of a pod's binding: the pod is to run on a node. A pod is bound once."""
    document = _document(request)
    wanted = document.get("target") or {}
    node = wanted.get("name")
    if not node or wanted.get("kind") not in (None, "", "Node"):
        raise bad_request("a binding needs a target of kind Node with a name")
    record = _pod(ctx, target)
    body = record.body
    meta, spec = body["metadata"], body["spec"]
    uid = (document.get("metadata") or {}).get("uid")
    if uid and uid != record.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}"
        raise answers.conflict(BINDING, target.name, why)
    if "deletionTimestamp" in meta:
        raise answers.conflict(
            BINDING, target.name, f"pod {target.name} is being deleted, cannot be assigned to a host"
        )
    if spec.get("nodeName"):
        why = f'pod {target.name} is already assigned to node "{spec["nodeName"]}"'
        raise answers.conflict(BINDING, target.name, why)
    if spec.get("schedulingGates"):
        raise answers.conflict(BINDING, target.name, f"pod {target.name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    status = body.setdefault("status", {})
    others = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    status["conditions"] = [*others, {**scheduled, "lastTransitionTime": times.render(ctx.now())}]
    await written(ctx.put(target.resource.storage, record.key, body))
    return json_response(answers.success(code=201), 201)


async def evict(ctx: Context, request: Request, target: Target) -> Response:
    """POST of a pod's eviction: the pod is deleted; there are no disruption budgets here."""
    given = _document(request).get("deleteOptions") or {}
    conditions = given.get("preconditions") or {}
    options = deletion.Options(
        given.get("propagationPolicy"),
        given.get("gracePeriodSeconds"),
        conditions.get("uid"),
        conditions.get("resourceVersion"),
    )
    outcome = deletion.delete(ctx, target.resource, _pod(ctx, target), options, ctx.now())
    if outcome.future:
        await written(outcome.future)
    return json_response(answers.success(code=201), 201)
