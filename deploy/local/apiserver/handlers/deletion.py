"""Deleting: what a deletion does to an object depends on its finalizers, on the policy and, for pods, on time."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.admission import volcano_rules
from deploy.local.apiserver.api_errors import bad_request
from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.builtin import decoder
from deploy.local.apiserver.codec.definitions import Type
from deploy.local.apiserver.context import Context, written
from deploy.local.apiserver.discovery.api_resources import RequestTarget, ServedResource
from deploy.local.apiserver.handlers import read as reading
from deploy.local.apiserver.handlers.write import remaining
from deploy.local.apiserver.http import warning_headers
from deploy.local.apiserver.http.request import ApiRequest, Response, json_response
from deploy.local.apiserver.storage.object_store import BATCH, StoredObject
from workers.api import times
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, Object
from workers.api.statuses import is_finished

#: The finalizers by which an object waits for the collector.
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
#: Keeps a CustomResourceDefinition until its objects are gone.
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
#: The longest time to stop that a pod is given, in seconds: a hundred years.
LONGEST_GRACE = 100 * 366 * 24 * 3600
#: Namespaces that are always there.
PERMANENT = ("default", "kube-system")
#: The warning for the deletion of a Job without a propagation policy.
ORPHANED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_OPTIONS = decoder(Type("V1DeleteOptions"))


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """DeleteOptions. grace: seconds. uid and version: what the object must be for the deletion to happen."""

    propagation: str | None = None
    grace: int | None = None
    uid: str | None = None
    version: str | None = None
    dry: bool = False


def options_of(request: ApiRequest) -> DeleteOptions:
    """The options of a DELETE: from its body if it has one, else from its query."""
    if request.body.strip():
        # As kube-apiserver: the query of a request with a body says nothing.
        return read(request.document(), None)
    query = request.query
    raw: Object = {name: query[name] for name in ("propagationPolicy",) if name in query}
    if (grace := request.number("gracePeriodSeconds")) is not None:
        raw["gracePeriodSeconds"] = grace
    if "orphanDependents" in query:
        raw["orphanDependents"] = request.flag("orphanDependents")
    if conditions := {name: query[name] for name in ("uid", "resourceVersion") if query.get(name)}:
        raw["preconditions"] = conditions
    return read(raw, query.get("dryRun"))


def read(document: Any, dry: str | None) -> DeleteOptions:
    """DeleteOptions as a client spells them; `dry` is the request's own `dryRun`.

    Raises ApiError: 400 for what are no options at all, 422 for values that do not exist.
    """
    try:
        raw = _OPTIONS(document, None, [])
    except field_errors.DecodeError as error:
        raise bad_request(f"couldn't decode DeleteOptions: {error}") from None
    propagation, orphan = raw.get("propagationPolicy"), raw.get("orphanDependents")
    kind = Kind("meta.k8s.io", "v1", "DeleteOptions", "")
    errors = []
    if propagation is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(field_errors.invalid("propagationPolicy", propagation, text))
    elif propagation not in (None, "Foreground", "Background", "Orphan"):
        values = ("Foreground", "Background", "Orphan", "nil")
        errors.append(field_errors.not_supported("propagationPolicy", propagation, values))
    runs = raw.get("dryRun") or ([dry] if dry else [])
    if runs and runs != ["All"]:
        errors.append(field_errors.not_supported("dryRun", runs, ("All",)))
    if errors:
        raise api_errors.invalid(kind, "", errors)
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    conditions = raw.get("preconditions") or {}
    grace = raw.get("gracePeriodSeconds")
    return DeleteOptions(propagation, grace, conditions.get("uid"), conditions.get("resourceVersion"), bool(runs))


@dataclass(frozen=True, slots=True)
class Deletion:
    """The result of a deletion. gone: the object is removed. body: the object's last or present state, as stored.

    future: ends when it is written; None when nothing had to be written.
    """

    gone: bool
    body: Object
    future: asyncio.Future[StoredObject] | None


def delete(
    ctx: Context,
    resource: ServedResource,
    record: StoredObject,
    options: DeleteOptions,
    now: datetime,
    *,
    admitted: bool = False,
) -> Deletion:
    """Begins or completes the deletion of an object. Raises ApiError when a precondition or a rule does not allow it.

    admitted: no rule is asked, because the kind of the object goes with it.
    """
    kind, body = resource.kind, record.body
    meta = body["metadata"]
    name = meta["name"]
    check(kind, name, record, options)
    if kind.id == "namespaces" and name in PERMANENT:
        raise api_errors.forbidden(kind, name, "this namespace may not be deleted")
    if not admitted:
        volcano_rules.check_deletion(resource, body, ctx.store)
    before = record.body
    # The definition must outlive its objects, whose kind would not be served any more.
    if kind.id == CUSTOM_RESOURCE_DEFINITION.id and CLEANUP not in (meta.get("finalizers") or ()):
        meta["finalizers"] = [*(meta.get("finalizers") or ()), *([] if record.deleting else [CLEANUP])]
    _finalize(resource, meta, options.propagation)
    gone = _pod(body, options.grace, now) if kind.id == "pods" else not _kept(body, now)
    if kind.id == "namespaces":
        body.setdefault("status", {})["phase"] = "Terminating"
    if gone and not meta.get("finalizers"):
        if kind.id == "pods" and body != before and not options.dry:
            # As on a real server, watchers see that the pod is being deleted before they see it gone.
            ctx.put(resource.storage, record.key, body)
        return Deletion(True, body, None if options.dry else ctx.remove(resource.storage, record.key))
    if gone:
        meta.setdefault("deletionTimestamp", times.render(now))
        meta["deletionGracePeriodSeconds"] = 0
    if body == before:
        return Deletion(False, body, None)
    if meta.get("generation") and "deletionTimestamp" not in before["metadata"]:
        meta["generation"] += 1
    return Deletion(False, body, None if options.dry else ctx.put(resource.storage, record.key, body))


def check(kind: Kind, name: str, record: StoredObject, options: DeleteOptions) -> None:
    """Refuses a deletion that is meant for another object, or for another version of it (409)."""
    for field, wanted, found in (
        ("UID", options.uid, record.uid),
        ("ResourceVersion", options.version, str(record.version)),
    ):
        if wanted and wanted != found:
            raise api_errors.precondition(kind, name, field, wanted, found)


def _finalize(resource: ServedResource, meta: Object, propagation: str | None) -> None:
    """Sets the finalizers the policy asks for; without one those that are there decide, then the kind's default."""
    found = meta.get("finalizers") or []
    orphan = propagation == "Orphan" or (
        propagation is None and (ORPHAN in found or (FOREGROUND not in found and resource.orphans))
    )
    foreground = propagation == "Foreground" or (propagation is None and FOREGROUND in found and not orphan)
    finalizers = [name for name in found if name not in (ORPHAN, FOREGROUND)]
    finalizers += [ORPHAN] * orphan + [FOREGROUND] * foreground
    meta.pop("finalizers", None)
    if finalizers:
        meta["finalizers"] = finalizers


def _kept(body: Object, now: datetime) -> bool:
    """Marks an object that something keeps; False when nothing does. A namespace is kept by its content."""
    meta = body["metadata"]
    if not remaining(body):
        return False
    meta.setdefault("deletionTimestamp", times.render(now))
    if meta.get("finalizers"):
        meta["deletionGracePeriodSeconds"] = 0
    return True


def _pod(body: Object, grace: int | None, now: datetime) -> bool:
    """Gives a running pod time to stop; True when it may go at once.

    A pod that runs nowhere yet, or has finished, needs no time. A pod that is stopping already can only be given less.
    """
    meta, spec = body["metadata"], body.get("spec") or {}
    if "deletionTimestamp" in meta:
        left = meta.get("deletionGracePeriodSeconds") or 0
        if not left:
            return True
        if grace is None or grace >= left:
            return False
        begun = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=left)
        meta["deletionTimestamp"] = times.render(begun + timedelta(seconds=max(grace, 0)))
        meta["deletionGracePeriodSeconds"] = max(grace, 0)
        return grace <= 0
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or is_finished(body):
        grace = 0
    # A datetime ends before 64 bits of seconds do; nobody waits for longer than this.
    grace = 1 if grace < 0 else min(grace, LONGEST_GRACE)
    meta["deletionTimestamp"] = times.render(now + timedelta(seconds=grace))
    meta["deletionGracePeriodSeconds"] = grace
    return grace == 0


async def one(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """DELETE of an object."""
    resource, kind = target.resource, target.resource.kind
    options = options_of(request)
    record = ctx.existing(target)
    outcome = delete(ctx, resource, record, options, ctx.now())
    if outcome.future:
        await written(outcome.future)
    headers = _warned(resource, options)
    if outcome.gone and not resource.returns:
        group = {"group": kind.group} if kind.group else {}
        details = {"name": target.name, **group, "kind": kind.plural, "uid": record.uid}
        return json_response(api_errors.success(details), headers=headers)
    shown = StoredObject.of(record.key, outcome.body)
    return Response(200, resource.encode(shown), headers=headers)


def _warned(resource: ServedResource, options: DeleteOptions) -> dict[str, str]:
    """Returns the Warning header for a deletion that leaves the pods of a Job behind by default."""
    unsaid = resource.orphans and options.propagation is None
    return warning_headers.of([ORPHANED]) if unsaid else {}


async def collection(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """DELETE of a collection: every object the selectors choose."""
    resource = target.resource
    options = options_of(request)
    test = reading.chooser(request, target)
    now = ctx.now()
    items: list[bytes] = []
    waiting: list[asyncio.Future[StoredObject]] = []
    # Those of a batch are waited for together, so that not all objects are held twice.
    for key in ctx.store.table(resource.storage).within(target.namespace):
        record = ctx.store.latest(resource.storage, key)
        if record is None or (test is not None and not test(record)):
            continue
        outcome = delete(ctx, resource, record, options, now)
        items.append(resource.encode(StoredObject.of(key, outcome.body)))
        if outcome.future:
            waiting.append(outcome.future)
        if len(waiting) >= BATCH:
            await _all_written(waiting)
    await _all_written(waiting)
    body = resource.encode_list(items, {"resourceVersion": str(ctx.store.version)})
    return Response(200, body, headers=_warned(resource, options))


async def _all_written(waiting: list[asyncio.Future[StoredObject]]) -> None:
    """Waits for these and forgets them."""
    for future in waiting:
        await written(future)
    waiting.clear()
