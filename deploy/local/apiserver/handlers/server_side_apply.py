"""Server-side apply: a PATCH with a configuration, of which the server remembers what its author owns."""

from typing import Any

import orjson

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.api_errors import ApiError, bad_request
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery.api_resources import RequestTarget
from deploy.local.apiserver.handlers import field_managers, write
from deploy.local.apiserver.http.request import APPLY, ApiRequest, Response
from deploy.local.apiserver.patch import PatchError
from deploy.local.apiserver.patch.apply import owners, typed_values
from deploy.local.apiserver.patch.apply.field_sets import FieldSet
from deploy.local.apiserver.patch.apply.managed_fields import ManagedFields
from deploy.local.apiserver.patch.apply.owners import ConflictError, Manager, OwnerOperation
from workers.api import times
from workers.api.kinds import Object

#: The manager and the annotation of `kubectl apply`, which turns from one kind of apply to the other.
_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def patch(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """PATCH of an object or of its status. An applied configuration creates an object that is not there."""
    if request.media_type != APPLY:
        return await write.patch(ctx, request, target)
    write.check_options(request)
    manager = field_managers.manager(request, target, OwnerOperation.APPLY)
    document = request.document()
    config = _config(target, document)
    warnings = list(write.repeated(request, target, document))
    record = ctx.store.latest(target.resource.storage, target.key)
    if record is None:
        return await _create(ctx, request, target, config, warnings, manager)
    live = target.resource.present(record)
    before = field_managers.known(target, live)
    old, wanted = field_managers.part(target, live), field_managers.part(target, config)
    merged, after = _applied(target, before, manager, old, wanted, force=request.flag("force"))
    kept = {name: value for name, value in live.items() if name not in old}
    body, more = write.decoded(request, target, {**kept, **merged}, live)
    managed = before.changed(after, times.render(ctx.now()))
    return await write.replace_object(ctx, request, target, record, body, [*warnings, *more], managed)


async def _create(
    ctx: Context, request: ApiRequest, target: RequestTarget, config: Object, warnings: list[str], manager: Manager
) -> Response:
    if target.subresource:
        raise api_errors.not_found(target.resource.kind, target.name)
    meta = config.get("metadata") or {}
    if uid := meta.get("uid"):
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise api_errors.conflict(target.resource.kind, target.name, why)
    _merged, after = _applied(target, ManagedFields(), manager, {}, field_managers.part(target, config), force=False)
    body, more = write.decoded(request, target, config)
    write.named(target, body["metadata"])
    managed = ManagedFields().changed(after, times.render(ctx.now()))
    return await write.create_object(ctx, request, target, body, [*warnings, *more], managed)


def _config(target: RequestTarget, document: Any) -> Object:
    """The applied configuration; 400 for anything else."""
    kind = target.resource.kind
    if not isinstance(document, dict):
        raise bad_request("error decoding YAML: json: cannot unmarshal into Go value of type map[string]interface {}")
    if not document.get("kind"):
        raise bad_request(f"Object 'Kind' is missing in '{orjson.dumps(document).decode()}'")
    if (version := document.get("apiVersion") or "") != kind.api_version:
        why = f"Specified patch version: {version}, expected: {kind.api_version}"
        raise bad_request(f"Incorrect version specified in apply patch. {why}")
    meta = document.get("metadata") or {}
    if not isinstance(meta, dict):
        raise bad_request("error decoding YAML: metadata is no object")
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    return document


def _applied(
    target: RequestTarget, before: ManagedFields, manager: Manager, live: Object, config: Object, *, force: bool
) -> tuple[Object, owners.Owners]:
    kind = target.resource.merge_type
    try:
        try:
            return owners.apply(kind, before.owners, manager, live, config, force=force)
        except ConflictError as conflict:
            allowed = _client_side(target, live) if manager.name == _KUBECTL else frozenset()
            if rest := {other: left for other, lost in conflict.fields.items() if (left := lost - allowed)}:
                raise ConflictError(rest) from None
            return owners.apply(kind, before.owners, manager, live, config, force=True)
    except ConflictError as conflict:
        raise ApiError(409, "Conflict", str(conflict), {"causes": conflict.causes}) from None
    except PatchError as error:
        what = f"{target.namespace}/{target.name}; {target.resource.kind.api_version}, Kind={target.resource.kind.kind}"
        raise bad_request(f"failed to create typed patch object ({what}): {error}") from None


def _client_side(target: RequestTarget, live: Object) -> FieldSet:
    """The fields that `kubectl apply` set before it applied on the server; they are its own."""
    text = (live.get("metadata") or {}).get("annotations", {}).get(_LAST_APPLIED)
    try:
        return typed_values.field_set(target.resource.merge_type, orjson.loads(text)) if text else frozenset()
    except (ValueError, AttributeError):
        return frozenset()
