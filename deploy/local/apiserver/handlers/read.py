"""Reading: get, list and watch."""

import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import orjson

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.api_errors import ApiError, bad_request
from deploy.local.apiserver.codec import field_errors, selectors
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery.api_resources import RequestTarget, ServedResource
from deploy.local.apiserver.http.request import (
    Accept,
    ApiRequest,
    Form,
    Response,
    Stream,
    json_response,
    negotiate,
)
from deploy.local.apiserver.printers import tables
from deploy.local.apiserver.storage import paging
from deploy.local.apiserver.storage.object_store import StoredObject
from deploy.local.apiserver.storage.watch_streams import Filter, WatchedChange, Watcher
from workers.api.kinds import Kind, Object

#: Seconds between bookmarks of an idle watch that asked for them. Informers probe a server that was silent for 2.5 s
#: with a list (`workers.cache.informers.pace`), which costs both more than a bookmark does.
BOOKMARK = 2.0
_METADATA_FORMS = (Form.METADATA, Form.METADATA_LIST)
_LIST_OPTIONS = Kind("meta.k8s.io", "v1", "ListOptions", "")
#: What a list can say about the version that it names.
_MATCHES = ("Exact", "NotOlderThan")
#: What the rows of a table may say of their objects.
_INCLUDED = ("Metadata", "Object", "None")


def get(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """One object as it is written."""
    record = ctx.store.get(target.resource.storage, target.key)
    if record is None:
        raise api_errors.not_found(target.resource.kind, target.name)
    version = request.query.get("resourceVersion")
    if version and version != "0" and _version(version) > ctx.store.version:
        raise api_errors.too_new(_version(version), ctx.store.version)
    return shown(ctx, request, target.resource, record, 200)


def shown(ctx: Context, request: ApiRequest, resource: ServedResource, record: StoredObject, code: int) -> Response:
    """One object in the form the client accepts."""
    accept = negotiate(request.headers.get("accept", ""))
    match accept.form:
        case Form.WHOLE:
            return Response(code, resource.encode(record), yaml=accept.yaml)
        case Form.METADATA:
            made = _partial(resource.present(record), accept.version)
        case Form.METADATA_LIST:
            why = f"the requested object is not a list ({resource.kind.kind})"
            raise api_errors.not_acceptable(f"you requested {accept.form.value}, but {why}")
        case Form.TABLE:
            made = _table(ctx, request, accept, resource, [record], str(record.version))
    return json_response(made, code, yaml=accept.yaml)


def _partial(body: Object, version: str) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": body["metadata"],
    }


def _table(
    ctx: Context,
    request: ApiRequest,
    accept: Accept,
    resource: ServedResource,
    records: Iterable[StoredObject],
    version: str,
) -> Object:
    include = request.query.get("includeObject") or "Metadata"
    if include not in _INCLUDED:
        why = f"Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: includeObject: {why}")
    made = tables.table(
        resource.kind,
        [resource.present(record) for record in records],
        now=ctx.now(),
        columns=resource.columns if resource.custom else None,
        resource_version=version,
        include=include,
    )
    return made | {"apiVersion": f"meta.k8s.io/{accept.version}"}


def _version(text: str) -> int:
    whole = text.isascii() and text.isdigit()
    if not whole or int(text) >= 2**64:
        why = "value out of range" if whole else "invalid syntax"
        raise bad_request(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}')
    return int(text)


def _check_match(request: ApiRequest) -> None:
    """Refuses (422) a resourceVersionMatch that says nothing about the list that is asked for."""
    field, version = "resourceVersionMatch", request.query.get("resourceVersion", "")
    match = request.query.get(field, "")
    if not match:
        return
    errors = []
    if request.flag("watch"):
        errors.append(field_errors.forbidden(field, f"{field} is forbidden for watch"))
    if not version:
        errors.append(field_errors.forbidden(field, f"{field} is forbidden unless resourceVersion is provided"))
    if request.query.get("continue"):
        errors.append(field_errors.forbidden(field, f"{field} is forbidden when continue is provided"))
    if match not in _MATCHES:
        errors.append(field_errors.not_supported(field, match, _MATCHES))
    elif match == "Exact" and version == "0":
        errors.append(field_errors.forbidden(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if errors:
        raise api_errors.invalid(_LIST_OPTIONS, "", errors)


def chooser(request: ApiRequest, target: RequestTarget) -> Callable[[StoredObject], bool] | None:
    """The test of a request's label and field selectors; None when everything matches. 400 for a malformed one."""
    resource = target.resource
    tests: list[Callable[[StoredObject], bool]] = []
    try:
        if text := request.query.get("labelSelector", ""):
            labels = selectors.label_selector(text)
            tests.append(lambda record: labels(record.labels))
        if text := request.query.get("fieldSelector", ""):
            tests.append(_fields(text, resource))
    except ValueError as error:
        raise bad_request(str(error)) from None
    if target.name:
        key = target.key
        tests.append(lambda record: record.key == key)
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda record: all(test(record) for test in tests)


def _fields(text: str, resource: ServedResource) -> Callable[[StoredObject], bool]:
    fields_match = selectors.field_selector(text, resource.kind)
    name, equals, wanted = text.partition("=")
    if name == "metadata.name" and equals and "," not in wanted:
        end = "/" + wanted.removeprefix("=")
        return lambda record: record.key.endswith(end)
    return lambda record: fields_match(resource.present(record))


def listing(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """The objects of a collection, all of them or a page of `limit`."""
    resource = target.resource
    accept = negotiate(request.headers.get("accept", ""))
    _check_match(request)
    request.number("timeoutSeconds")  # a list is never late, but the client is told of what is no number
    test = chooser(request, target)
    token = paging.Token.decode(text) if (text := request.query.get("continue")) else None
    version, records = _moment(ctx, request, target, token)
    start = token.start if token else ""
    limit = request.number("limit") or 0
    page: list[StoredObject] = []
    follows = False
    for record in records:
        if record.key < start or (test is not None and not test(record)):
            continue
        if limit and len(page) == limit:
            follows = True
            start = record.key
            break
        page.append(record)
    metadata: Object = {"resourceVersion": str(version)}
    if follows:
        first = token is None or token.version < 0
        ctx.snapshots.keep(resource.storage, target.namespace, version, records, first=first)
        metadata["continue"] = paging.Token(version, start).encode()
        if test is None:
            metadata["remainingItemCount"] = sum(record.key >= start for record in records)
    elif token:
        ctx.snapshots.read(resource.storage, target.namespace, token.version)
    return _collection(ctx, request, accept, resource, page, metadata)


def _moment(
    ctx: Context, request: ApiRequest, target: RequestTarget, token: paging.Token | None
) -> tuple[int, Sequence[StoredObject]]:
    """The version and the objects a list is about: the present, or the snapshot its earlier pages showed."""
    store, storage = ctx.store, target.resource.storage
    asked = request.query.get("resourceVersion", "")
    if token is not None and asked not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    if token and token.version >= 0:
        kept = ctx.snapshots.find(storage, target.namespace, token.version)
        if kept is None:
            raise paging.lost(token)
        return token.version, kept
    if asked not in ("", "0"):
        wanted = _version(asked)
        if wanted > store.version:
            raise api_errors.too_new(wanted, store.version)
        if request.query.get("resourceVersionMatch") == "Exact" and wanted < store.table(storage).changed:
            raise api_errors.expired(f"The provided resource version is too old: {wanted}")
    table = store.table(storage)
    return store.version, [table.records[key] for key in table.within(target.namespace)]


def _collection(
    ctx: Context,
    request: ApiRequest,
    accept: Accept,
    resource: ServedResource,
    page: Sequence[StoredObject],
    metadata: Object,
) -> Response:
    match accept.form:
        case Form.TABLE:
            made = _table(ctx, request, accept, resource, page, metadata["resourceVersion"])
            return json_response(made | {"metadata": metadata}, yaml=accept.yaml)
        case Form.METADATA_LIST:
            items = [_partial(resource.present(record), accept.version) for record in page]
            kind = {"kind": accept.form.value, "apiVersion": f"meta.k8s.io/{accept.version}"}
            return json_response({**kind, "metadata": metadata, "items": items}, yaml=accept.yaml)
        case Form.METADATA:
            why = f"the requested object is a list ({resource.kind.kind}List)"
            raise api_errors.not_acceptable(f"you requested {accept.form.value}, but {why}")
    # Items of a built-in kind carry no apiVersion and kind of their own in a list.
    whole = resource.custom or resource.outward
    body = resource.encode_list([resource.encode(record) if whole else record.raw for record in page], metadata)
    return Response(200, body, yaml=accept.yaml)


def watching(ctx: Context, request: ApiRequest, target: RequestTarget) -> Stream:
    """The changes of a collection, or of one object, as they are written."""
    if "sendInitialEvents" in request.query:
        text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        raise api_errors.invalid(_LIST_OPTIONS, "", [field_errors.forbidden("sendInitialEvents", text)])
    _check_match(request)
    accept = negotiate(request.headers.get("accept", ""))
    if accept.yaml:
        raise api_errors.not_acceptable()
    chosen = Filter(target.namespace, chooser(request, target))
    asked = request.query.get("resourceVersion", "")
    since = None if asked in ("", "0") else _version(asked)
    seconds = request.number("timeoutSeconds")
    if not seconds:
        seconds = random.randint(1800, 3600)
    encoder = _Frames(ctx, request, accept, target.resource)
    try:
        watcher = ctx.hub.open(target.resource.storage, chosen, since)
    except ApiError as error:
        return Stream(_refused(error))
    return Stream(_frames(ctx, target, watcher, encoder, seconds, bookmarks=request.flag("allowWatchBookmarks")))


async def _refused(error: ApiError) -> AsyncIterator[bytes]:
    """A watch that cannot begin says so in its first event, as kube-apiserver's watch cache does."""
    yield orjson.dumps({"type": "ERROR", "object": error.status()}) + b"\n"


async def _frames(
    ctx: Context, target: RequestTarget, watcher: Watcher, encoder: "_Frames", seconds: int, *, bookmarks: bool
) -> AsyncIterator[bytes]:
    end = time.monotonic() + seconds
    sent = ctx.store.version
    try:
        while (left := end - time.monotonic()) > 0:
            events = await watcher.next(min(left, BOOKMARK))
            if events:
                yield b"".join([encoder.event(event) for event in events])
            elif watcher.closed:
                return
            elif bookmarks:
                sent = ctx.store.version
                yield encoder.bookmark(sent)
        if bookmarks and ctx.store.version != sent:
            yield encoder.bookmark(ctx.store.version)
    finally:
        ctx.hub.done(target.resource.storage, watcher)


class _Frames:
    """Events as lines of one watch, in the form its client accepts."""

    def __init__(self, ctx: Context, request: ApiRequest, accept: Accept, resource: ServedResource) -> None:
        self._ctx, self._request, self._accept, self._resource = ctx, request, accept, resource
        self._headed = False

    def event(self, event: WatchedChange) -> bytes:
        """One change."""
        return b'{"type":"%b","object":%b}\n' % (event.type.encode(), self._object(event.record))

    def _object(self, record: StoredObject) -> bytes:
        resource, accept = self._resource, self._accept
        if accept.form is Form.TABLE:
            made = _table(self._ctx, self._request, accept, resource, [record], str(record.version))
            if self._headed:
                made["columnDefinitions"] = None
            self._headed = True
            return orjson.dumps(made)
        if accept.form in _METADATA_FORMS:
            return orjson.dumps(_partial(resource.present(record), accept.version))
        return resource.encode(record)

    def bookmark(self, version: int) -> bytes:
        """Returns the event that moves a client's resourceVersion up to this one."""
        kind = self._resource.kind
        body: Object = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
        }
        if self._accept.form in _METADATA_FORMS:
            body |= {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{self._accept.version}"}
        if self._accept.form is Form.TABLE:
            table = Accept(self._accept.form, self._accept.version)
            body = _table(self._ctx, self._request, table, self._resource, [], str(version))
        return orjson.dumps({"type": "BOOKMARK", "object": body}) + b"\n"
