"""The scale subresource: the number of replicas of an object of any kind."""

from typing import Any

import orjson

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.api_errors import bad_request
from deploy.local.apiserver.codec import field_errors, selectors
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery.api_resources import RequestTarget, ScalePaths
from deploy.local.apiserver.handlers import field_managers, write
from deploy.local.apiserver.http.request import ApiRequest, Response, json_response
from deploy.local.apiserver.storage.object_store import StoredObject
from workers.api.kinds import Kind, Object

KIND = Kind("autoscaling", "v1", "Scale", "scales")
#: What a body may say that it is. The older versions of the kind of apps and extensions have the same fields.
_VERSIONS = ("autoscaling/v1", "apps/v1beta1", "apps/v1beta2", "extensions/v1beta1")
_KINDS = (None, "", KIND.kind)


def _at(body: Object, path: str | None) -> Any:
    """The value at a dotted path, None when it is not there."""
    found: Any = body
    for step in (path or "").split(".")[1:]:
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _selector(value: Any) -> str:
    """A selector as text: custom resources keep a text, built-in types keep an object."""
    return selectors.spelled(value) if isinstance(value, dict) else value or ""


def shown(body: Object, scale: ScalePaths) -> Object:
    """The Scale of an object."""
    meta = body["metadata"]
    status: Object = {"replicas": _at(body, scale.status) or 0}
    if text := _selector(_at(body, scale.selector)):
        status["selector"] = text
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in names if name in meta},
        # Kubernetes leaves a zero out.
        "spec": {"replicas": replicas} if (replicas := _at(body, scale.replicas)) else {},
        "status": status,
    }


def _existing(ctx: Context, target: RequestTarget) -> tuple[StoredObject, ScalePaths]:
    assert target.resource.scale is not None  # the app routes only resources with a scale here
    return ctx.existing(target), target.resource.scale


def get(ctx: Context, _request: ApiRequest, target: RequestTarget) -> Response:
    """GET of the scale."""
    record, scale = _existing(ctx, target)
    return json_response(shown(record.body, scale))


async def update(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """PUT of the scale."""
    write.check_options(request)
    document = request.document()
    if reason := _unreadable(document):
        raise bad_request(reason)
    if (name := (document.get("metadata") or {}).get("name")) not in (None, "", target.name):
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    return await _write(ctx, request, target, *_existing(ctx, target), document)


async def patch(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """PATCH of the scale."""
    change = write.patcher(request, target)
    write.check_options(request)
    record, scale = _existing(ctx, target)
    patched = change(shown(record.body, scale))
    if reason := _unreadable(patched):
        errors = [field_errors.invalid("patch", orjson.dumps(patched).decode(), reason)]
        raise api_errors.invalid(Kind("", "", "", ""), "", errors)
    return await _write(ctx, request, target, record, scale, patched)


def _unreadable(wanted: Any) -> str:
    """Returns the reason for which a document is no Scale, '' for one."""
    if not isinstance(wanted, dict) or not all(isinstance(wanted.get(key, {}), dict) for key in ("spec", "metadata")):
        return "the body is not a Scale"
    if (version := wanted.get("apiVersion") or KIND.api_version) not in _VERSIONS or wanted.get("kind") not in _KINDS:
        return f"{wanted.get('kind') or KIND.kind} in version {version} cannot be handled as a Scale"
    replicas = _replicas(wanted)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or not -(2**31) <= replicas < 2**31:
        return f"json: cannot unmarshal {orjson.dumps(replicas).decode()} into ScaleSpec.replicas of type int32"
    return ""


def _replicas(wanted: Object) -> Any:
    """The wanted number; null is none, as everywhere."""
    found = wanted.get("spec", {}).get("replicas")
    return 0 if found is None else found


async def _write(
    ctx: Context, request: ApiRequest, target: RequestTarget, record: StoredObject, scale: ScalePaths, wanted: Object
) -> Response:
    meta = wanted.get("metadata") or {}
    if meta.get("resourceVersion") not in (None, "", "0", str(record.version)):
        raise api_errors.conflict(target.resource.kind, target.name, api_errors.MODIFIED)
    replicas = _replicas(wanted)
    if errors := field_errors.non_negative("spec.replicas", replicas):
        raise api_errors.invalid(KIND, target.name, errors)
    resource = target.resource
    old = resource.present(record)
    new = resource.present(record)
    *path, last = scale.replicas.split(".")[1:]
    place = new
    for step in path:
        place = place.setdefault(step, {})
    place[last] = replicas
    managed = field_managers.updated(ctx, request, target, old, new, None)
    new = field_managers.marked(target, resource.strategy.prepare_update(new, old), managed)
    if errors := [*resource.schema.validate(new), *resource.strategy.validate_update(new, old)]:
        raise api_errors.invalid(resource.kind, target.name, errors)
    saved = await write.save(ctx, target, record, resource.strip(new), store=not write.dry(request))
    return json_response(shown(saved.body, scale))
