"""Writing: create, update, patch and the status subresource.

Everything between reading the latest version and handing the next one to the store happens without waiting, so no
other request can come in between.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal
from uuid import uuid4

import orjson

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.admission import (
    image_warnings,
    placement_warnings,
    pod_priorities,
    template_fields,
    volcano_rules,
)
from deploy.local.apiserver.api_errors import ApiError, bad_request
from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.context import Context, written
from deploy.local.apiserver.discovery import crd_conditions
from deploy.local.apiserver.discovery.api_resources import RequestTarget, ServedResource
from deploy.local.apiserver.handlers import field_managers, not_acted_upon
from deploy.local.apiserver.handlers import read as reading
from deploy.local.apiserver.http import warning_headers
from deploy.local.apiserver.http.request import ApiRequest, Response, shallow
from deploy.local.apiserver.patch import PatchError, patches, strategic
from deploy.local.apiserver.patch.apply.managed_fields import ManagedFields
from deploy.local.apiserver.schema import schema, structural
from deploy.local.apiserver.storage.object_store import StoredObject
from workers.api import times
from workers.api.kinds import NODE, Kind, Object

#: Letters of generated name endings: no vowels and no digits that resemble one, so that no words appear.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
#: Longest generated name, and the number of attempts before the client has to retry.
GENERATED, ATTEMPTS = 63, 8
#: Metadata that only the server sets.
OURS = ("resourceVersion", "selfLink", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")

#: The options of a request, by its method.
_OPTIONS = {
    method: Kind("meta.k8s.io", "v1", f"{name}Options", "")
    for method, name in (("POST", "Create"), ("PUT", "Update"), ("PATCH", "Patch"))
}
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


def read(request: ApiRequest, target: RequestTarget) -> tuple[Object, list[str]]:
    """The client's object that is the request's body, and the warnings about it."""
    document = request.document()
    body, warnings = decoded(request, target, document)
    return body, [*warnings, *repeated(request, target, document)]


def repeated(request: ApiRequest, target: RequestTarget, document: Any) -> Sequence[str]:
    """Returns the warnings about keys that are repeated in the body. Raises ApiError (400) where that is an error."""
    if (strictness := _strictness(request)) == "Ignore" or not (again := request.repeated(document)):
        return ()
    if strictness == "Strict":
        kind = target.resource.kind
        prefix = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{prefix}: strict decoding error: {', '.join(again)}")
    return again


def decoded(
    request: ApiRequest, target: RequestTarget, document: Any, old: Object | None = None
) -> tuple[Object, list[str]]:
    """A client's object, checked to be of the resource's kind, and the warnings about it. old: what a patch began with.

    Raises ApiError (400).
    """
    kind = target.resource.kind
    if not isinstance(document, dict):
        raise bad_request(f"couldn't get version/kind; json parse error: cannot unmarshal into {kind.kind}")
    _check_type(target, document, patched=old is not None)
    whole = {**document, **kind.type_meta}
    try:
        body, warnings = target.resource.schema.decode(whole, strict=_strictness(request))
        warnings += _unknown_in_templates(request, target, body, old)
    except field_errors.DecodeError as error:
        raise bad_request(str(error)) from None
    if not isinstance(body.get("metadata"), dict):
        body["metadata"] = {}
    elif (document.get("metadata") or {}).get("managedFields") == []:
        body["metadata"]["managedFields"] = []  # an empty list says something here: forget all owners
    return body, [*warnings, *_distinct_owners(body["metadata"], patched=old is not None)]


def _distinct_owners(meta: Object, *, patched: bool) -> list[str]:
    """Removes owner references that stand before, whole, and returns the warning about them."""
    distinct: dict[bytes, Object] = {}
    # By their JSON: a body may have tens of thousands of them.
    again = [
        str(owner.get("uid") or "")
        for owner in meta.get("ownerReferences") or ()
        if distinct.setdefault(orjson.dumps(owner, option=orjson.OPT_SORT_KEYS), owner) is not owner
    ]
    if not again:
        return []
    meta["ownerReferences"] = [*distinct.values()]
    when = " after mutating admission happens" if patched else ""
    return [
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and "
        f"may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) "
        f"observed: {', '.join(again)}"
    ]


def _check_type(target: RequestTarget, document: Object, *, patched: bool) -> None:
    """Refuses a document of another kind or version (400), or of a custom resource's other kind (422).

    A document of a built-in kind may lack both. patched: it is what a patch has left.
    """
    kind, custom = target.resource.kind, target.resource.custom
    version, found = document.get("apiVersion"), document.get("kind")
    for field, value in (("apiVersion", version), ("kind", found)):
        if value is not None and not isinstance(value, str):
            why = f"cannot unmarshal {field_errors.shown(value)} into Go struct field .{field} of type string"
            raise bad_request(f"couldn't get version/kind; json parse error: json: {why}")
        if custom and not value:
            spelled = "Kind" if field == "kind" else field
            raise bad_request(f"Object '{spelled}' is missing in '{field_errors.shown(document)}'")
    fits = version in (None, "", kind.api_version), found in (None, "", kind.kind)
    if all(fits):
        return
    if not custom:
        raise bad_request(_other(kind, str(version or kind.api_version), str(found or kind.kind)))
    if not fits[0] and not patched:
        why = f"does not match the expected API version ({kind.api_version})"
        raise bad_request(f"the API version in the data ({version}) {why}")
    given = {"kind": (found, kind.kind), "apiVersion": (version, kind.api_version)}
    wrong = {at: both for at, both in given.items() if both[0] != both[1]}
    errors = [field_errors.invalid(at, value, f"must be {wanted}") for at, (value, wanted) in wrong.items()]
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    other = Kind(str(version).rpartition("/")[0], "", str(found), "")
    raise api_errors.invalid(other, str(name or target.name), errors)


def _unknown_in_templates(request: ApiRequest, target: RequestTarget, body: Object, old: Object | None) -> list[str]:
    """Returns a warning for each unknown field that a template brings. Raises DecodeError where that is an error."""
    kind = target.resource.kind
    if target.subresource or not target.resource.custom or (old is not None and old.get("spec") == body.get("spec")):
        return []
    kept = frozenset(template_fields.unknown(kind, old)) if old else frozenset()
    brought = [name for name in template_fields.unknown(kind, body) if name not in kept]
    prefix = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return schema.told(brought, _strictness(request), prefix)


def _other(kind: Kind, version: str, found: str) -> str:
    """Returns the refusal of an object of another kind or version."""
    short = version.rpartition("/")[2]
    return f'{found} in version "{short}" cannot be handled as a {kind.kind}: it is no {kind.api_version} {kind.kind}'


def _strictness(request: ApiRequest) -> Literal["Ignore", "Warn", "Strict"]:
    """Returns the treatment of unknown fields."""
    match request.query.get("fieldValidation", ""):
        case "Ignore":
            return "Ignore"
        case "" | "Warn":
            return "Warn"
        case "Strict":
            return "Strict"
        case other:
            error = field_errors.not_supported("fieldValidation", other, ("Ignore", "Warn", "Strict"))
            raise api_errors.invalid(_OPTIONS[request.method], "", [error])


def dry(request: ApiRequest) -> bool:
    """True for a dry run."""
    value = request.query.get("dryRun")
    if value and value != "All":
        text = f'Unsupported value: []string{{{field_errors.shown(value)}}}: supported values: "All"'
        errors = [field_errors.FieldError("dryRun", "FieldValueNotSupported", text)]
        raise api_errors.invalid(_OPTIONS[request.method], "", errors)
    return bool(value)


def check_options(request: ApiRequest) -> None:
    """Refuses (422) options of a write that do not exist, before anything is looked for."""
    field_managers.check(request)
    dry(request)


def _placed(target: RequestTarget, meta: Object) -> None:
    """Puts the object where the path says, refusing one that says otherwise."""
    if not target.resource.kind.namespaced:
        meta.pop("namespace", None)
        return
    if (found := meta.get("namespace")) not in (None, "", target.namespace):
        if target.name:
            why = f"of the object ({found}) does not match the namespace on the request ({target.namespace})"
        else:
            why = "of the provided object does not match the namespace sent on the request"
        raise bad_request(f"the namespace {why}")
    meta["namespace"] = target.namespace


def _open_namespace(ctx: Context, target: RequestTarget, name: str) -> None:
    """Refuses new objects in a namespace that is not there or on its way out."""
    kind = target.resource.kind
    if not kind.namespaced:
        return
    namespace = ctx.store.latest("namespaces", f"/{target.namespace}")
    if namespace is None:
        raise api_errors.not_found(Kind("", "v1", "Namespace", "namespaces", namespaced=False), target.namespace)
    if namespace.deleting:
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {target.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
        raise api_errors.forbidden(kind, name, why, [cause])


def _name(ctx: Context, target: RequestTarget, meta: Object) -> bool:
    """Gives an object that asks for it a name, a free one if there is one to be found; whether it did."""
    prefix = meta.get("generateName")
    if meta.get("name") or not prefix:
        return False
    for _ in range(ATTEMPTS):
        meta["name"] = prefix[: GENERATED - 5] + "".join(random.choices(LETTERS, k=5))
        if ctx.store.latest(target.resource.storage, f"{target.namespace}/{meta['name']}") is None:
            break
    return True


def _warned(response: Response, warnings: Sequence[str]) -> Response:
    return replace(response, headers={**response.headers, **warning_headers.of(warnings)}) if warnings else response


def _rule_warnings(ctx: Context, resource: ServedResource, body: Object, old: Object | None) -> list[str]:
    """The warnings about an acceptable object. old: the version it replaces."""
    options = ctx.admission
    schedulers = (options.pod_scheduler, *options.schedulers) if options.gangs else ()

    def nodes() -> list[str]:
        return [node.body["metadata"]["name"] for node in ctx.store.newest(NODE.id, "")]

    return [
        *resource.strategy.warnings(body, old),
        *volcano_rules.warned(resource, body, old),
        *placement_warnings.warned(resource.kind, body, old, schedulers, nodes),
        *image_warnings.warned(resource.kind, body, old, ctx.images),
    ]


def _problems(shape: list[FieldError], rules: list[FieldError]) -> list[FieldError]:
    """Everything that is wrong; what the schema has said of a field is not said again in other words.

    Of a value that none of several alternatives fits the schema says no more than that; the rules say what to do.
    """
    reported = {error.field for error in shape if not error.message.endswith(field_errors.NO_ALTERNATIVE)}
    return [*shape, *(error for error in rules if error.field not in reported)]


async def create(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """POST of a collection."""
    check_options(request)
    return await create_object(ctx, request, target, *read(request, target))


async def create_object(
    ctx: Context,
    request: ApiRequest,
    target: RequestTarget,
    body: Object,
    warnings: list[str],
    managed: ManagedFields | None = None,
) -> Response:
    """Stores a new object and answers with it. managed: who owns its fields, if that is known."""
    resource, kind = target.resource, target.resource.kind
    meta = body["metadata"]
    _placed(target, meta)
    for name in OURS:
        meta.pop(name, None)
    if resource.custom and crd_conditions.terminating(ctx.store, resource):
        raise ApiError(405, "MethodNotAllowed", "create not allowed while custom resource definition is terminating")
    generated = _name(ctx, target, meta)
    now = ctx.now()
    meta["uid"] = str(uuid4())
    meta["creationTimestamp"] = times.render(now)
    _open_namespace(ctx, target, meta.get("name") or "")
    strategy = resource.strategy
    body = volcano_rules.default(resource, resource.schema.default(body), ctx.store, ctx.admission)
    body = pod_priorities.admitted(kind, strategy.prepare_create(body, now), ctx.store)
    name = body["metadata"].get("name") or ""
    errors = _problems(resource.schema.validate(body), strategy.validate_create(body))
    if errors := errors or volcano_rules.validate(resource, body, None, ctx.store, ctx.admission):
        raise api_errors.invalid(kind, name, errors)
    ctx.quotas.admit(resource, body)
    key = f"{target.namespace}/{name}"
    if ctx.store.latest(resource.storage, key) is not None:
        raise api_errors.already_exists(kind, name, generated=generated)
    if kind.id == crd_conditions.ID:
        body = crd_conditions.established(body, now)
    warnings += _rule_warnings(ctx, resource, body, None)
    warnings += [resource.kept.warning] if resource.kept else []
    stored = resource.strip(field_managers.marked(target, body, managed))
    if dry(request):
        record = StoredObject.of(key, {**stored, "metadata": {**stored["metadata"], "resourceVersion": "0"}})
        return _warned(_dry(ctx, request, target, record, 201), warnings)
    record = await written(ctx.put(resource.storage, key, stored))
    not_acted_upon.report(ctx, resource, record)
    return _warned(reading.shown(ctx, request, resource, record, 201), warnings)


def _dry(ctx: Context, request: ApiRequest, target: RequestTarget, record: StoredObject, code: int) -> Response:
    body = record.body
    if body["metadata"]["resourceVersion"] == "0":
        del body["metadata"]["resourceVersion"]
    shown = StoredObject(record.key, orjson.dumps(body), record.version, record.uid, record.labels, (), record.deleting)
    return reading.shown(ctx, request, target.resource, shown, code)


async def update(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """PUT of an object or of its status."""
    check_options(request)
    # A body that cannot be read, or is another object's, is told before an object that is not there.
    body, warnings = read(request, target)
    _placed(target, body["metadata"])
    named(target, body["metadata"])
    return await replace_object(ctx, request, target, ctx.existing(target), body, warnings)


async def patch(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """PATCH of an object or of its status, by anything but an applied configuration."""
    change = patcher(request, target)
    check_options(request)
    record = ctx.existing(target)
    live = target.resource.present(record)
    patched = change(live)
    if not target.resource.custom and not patched.get("apiVersion"):
        # A real server then reads the document as its own internal version, in which names are spelled otherwise.
        raise _unnamed(target)
    try:
        body, warnings = decoded(request, target, patched, live)
    except ApiError as error:
        if error.code != 400:
            raise
        # As kube-apiserver: the prefix with kind and version is for whole objects, not for patches.
        reason = error.message.rpartition(f" cannot be handled as a {target.resource.kind.kind}: ")[2]
        errors = [field_errors.invalid("patch", orjson.dumps(patched).decode(), reason)]
        raise api_errors.invalid(Kind("", "", "", ""), "", errors) from None
    return await replace_object(ctx, request, target, record, body, warnings)


def patcher(request: ApiRequest, target: RequestTarget) -> Callable[[Object], Any]:
    """Returns the patch of the request's body as a function of an object. Raises ApiError (415) for an unknown type."""
    kind, custom = target.resource.kind, target.resource.custom
    media = request.media_type
    accepted = [JSON_PATCH, MERGE_PATCH] if custom else [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH]
    if media not in accepted:
        raise api_errors.unsupported_media_type(accepted)
    document = request.document()

    def apply(doc: Object) -> Any:
        try:
            if media == JSON_PATCH:
                result = patches.json_patch(doc, document)
                shallow(result)
                return result
            if media == MERGE_PATCH:
                return patches.merge_patch(doc, document)
            # As Go converts the numbers of these patches, and of no others.
            return _typed(doc, strategic.strategic_merge_patch(kind, doc, structural.without_fractions(document)))
        except PatchError as error:
            reason = {400: "BadRequest", 413: "RequestEntityTooLarge"}.get(error.status, "Invalid")
            raise ApiError(error.status, reason, str(error)) from None

    return apply


def _typed(doc: Object, patched: Object) -> Object:
    """Returns the patched document with the kind and version of `doc`.

    A strategic patch changes neither: a real server decodes its result into the type of the resource.
    """
    texts = {field: doc[field] for field in ("apiVersion", "kind") if isinstance(patched.get(field), str | None)}
    return {**patched, **texts}


def named(target: RequestTarget, meta: Object) -> None:
    """Refuses an object without a name, and one that is not called as the path says."""
    if not meta.get("name"):
        raise _unnamed(target)
    if meta["name"] != target.name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})")


def _unnamed(target: RequestTarget) -> ApiError:
    why = "was undeterminable: name must be provided"
    return bad_request(f"the name of the object ({target.name} based on URL) {why}")


def _preconditions(target: RequestTarget, record: StoredObject, meta: Object, *, patched: bool) -> None:
    """Refuses an update that was made for another object, or for another version of it.

    patched: by a patch, which has no preconditions beside a version: one that changes the uid is just wrong.
    """
    resource, kind = target.resource, target.resource.kind
    named(target, meta)
    other = meta.get("uid") not in (None, "", record.uid)
    if other and not patched:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {record.uid}"
        raise api_errors.conflict(kind, target.name, why)
    version = meta.get("resourceVersion")
    if version in (None, "", "0"):
        if resource.custom or kind.id in (crd_conditions.ID, "leases.coordination.k8s.io"):
            text = "Invalid value: 0x0: must be specified for an update"
            errors = [field_errors.FieldError("metadata.resourceVersion", "FieldValueInvalid", text)]
            raise api_errors.invalid(kind, target.name, errors)
    elif version != str(record.version):
        raise api_errors.conflict(kind, target.name, api_errors.MODIFIED)
    if other:
        raise api_errors.invalid(kind, target.name, field_errors.immutable("metadata.uid", meta["uid"], record.uid))


def _replace_meta(meta: Object, old: Object) -> None:
    """Keeps what only the server sets."""
    for name in (*OURS, "uid", "creationTimestamp", "name"):
        meta.pop(name, None)
        if name in old:
            meta[name] = old[name]


async def replace_object(
    ctx: Context,
    request: ApiRequest,
    target: RequestTarget,
    record: StoredObject,
    body: Object,
    warnings: list[str],
    managed: ManagedFields | None = None,
) -> Response:
    """Stores a new version of an object, if it differs, and answers with what is there then.

    managed: who owns its fields after an apply; after an update that follows from what changed.
    """
    resource, kind = target.resource, target.resource.kind
    meta = body["metadata"]
    sent = meta.get("managedFields")
    _placed(target, meta)
    _preconditions(target, record, meta, patched=request.method == "PATCH")
    old = resource.present(record)
    _replace_meta(meta, old["metadata"])
    strategy = resource.strategy
    body = resource.schema.default(body)
    if managed is None:
        managed = field_managers.updated(ctx, request, target, old, body, sent)
    if target.subresource == "status":
        body = strategy.prepare_status(body, old)
        errors = _problems(resource.schema.validate(body), strategy.validate_status(body, old))
    else:
        prepare = strategy.prepare_finalize if target.subresource == "finalize" else strategy.prepare_update
        body = prepare(body, old)
        errors = _problems(resource.schema.validate(body), strategy.validate_update(body, old))
        errors = errors or volcano_rules.validate(resource, body, old, ctx.store, ctx.admission)
        warnings += _rule_warnings(ctx, resource, body, old)
    if errors:
        raise api_errors.invalid(kind, target.name, errors)
    if kind.id == crd_conditions.ID and not target.subresource:
        body = crd_conditions.established(body, ctx.now())
    stored = resource.strip(field_managers.marked(target, body, managed))
    new = await save(ctx, target, record, stored, store=not dry(request))
    return _warned(reading.shown(ctx, request, resource, new, 200), warnings)


async def save(
    ctx: Context, target: RequestTarget, record: StoredObject, stored: Object, *, store: bool = True
) -> StoredObject:
    """Stores the next version of an object; the same version again is not written.

    An object that is being deleted goes when its last finalizer goes.
    """
    resource = target.resource
    if stored == record.body:
        return record
    if not store:
        return StoredObject.of(record.key, stored)
    if record.deleting and not remaining(stored):
        gone = await written(ctx.remove(resource.storage, record.key))
        stored["metadata"]["resourceVersion"] = str(gone.version)
        return StoredObject.of(record.key, stored)
    return await written(ctx.put(resource.storage, record.key, stored))


def remaining(stored: Object) -> bool:
    """True while finalizers, a grace period or a namespace's content keep an object that is being deleted."""
    meta, spec = stored["metadata"], stored.get("spec")
    return bool(
        meta.get("finalizers")
        or meta.get("deletionGracePeriodSeconds")
        or (isinstance(spec, dict) and spec.get("finalizers"))
    )
