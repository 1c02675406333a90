"""The owners of an object's fields at a write.

Owners are recorded from the first server-side apply of an object on, because they are often as long as the object
itself. That apply finds one owner of everything that was there before: `before-first-apply`.
"""

from typing import Any

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery.api_resources import RequestTarget
from deploy.local.apiserver.http.request import APPLY, ApiRequest
from deploy.local.apiserver.patch.apply import managed_fields, owners
from deploy.local.apiserver.patch.apply.managed_fields import ManagedFields
from deploy.local.apiserver.patch.apply.owners import Manager, OwnerOperation
from workers.api import times
from workers.api.kinds import Kind, Object

#: Most bytes of a manager's name.
LONGEST = 128
#: The owner of what was there before the first apply.
BEFORE = "before-first-apply"

_PATCH_OPTIONS = Kind("meta.k8s.io", "v1", "PatchOptions", "")


def check(request: ApiRequest) -> None:
    """Refuses (422) options about managers that a write does not take: `force` is for applies, which need a name."""
    name, errors = request.query.get("fieldManager", ""), list[FieldError]()
    if request.method == "PATCH" and request.media_type == APPLY:
        if not name:
            errors.append(field_errors.required("fieldManager", "is required for apply patch"))
    elif "force" in request.query:
        errors.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    if len(name.encode()) > LONGEST:
        errors.append(field_errors.too_long("fieldManager", LONGEST))
    if not name.isprintable():
        errors.append(field_errors.invalid("fieldManager", name, "should contain printable characters only"))
    if errors:
        raise api_errors.invalid(_PATCH_OPTIONS, "", errors)


def manager(request: ApiRequest, target: RequestTarget, operation: OwnerOperation) -> Manager:
    """Returns the manager that a request writes as: what it says, or the first word of the client's User-Agent."""
    name = request.query.get("fieldManager") or _first_word(request.headers.get("user-agent", ""))
    version = target.resource.kind.api_version if operation is OwnerOperation.UPDATE else ""
    return Manager(name or "unknown", operation, version, target.subresource)


def _first_word(agent: str) -> str:
    word = "".join(filter(str.isprintable, agent.partition("/")[0]))
    return word.encode()[:LONGEST].decode(errors="ignore")


def known(target: RequestTarget, live: Object) -> ManagedFields:
    """Returns the recorded owners of an object; without any, everything belongs to `BEFORE`."""
    found = _decoded(live["metadata"].get("managedFields"))
    if found.owners:
        return found
    before = Manager(BEFORE, OwnerOperation.UPDATE, target.resource.kind.api_version, target.subresource)
    return ManagedFields(owners.update(target.resource.merge_type, {}, before, {}, part(target, live)))


def _decoded(entries: Any) -> ManagedFields:
    try:
        return ManagedFields.decode(entries)
    except ValueError:
        return ManagedFields()


def part(target: RequestTarget, body: Object) -> Object:
    """Returns the part of an object that a write to the target can change."""
    if target.subresource == "status":
        return {name: body[name] for name in ("status",) if name in body}
    return {name: value for name, value in body.items() if name != "status" or not target.resource.strategy.status}


def updated(
    ctx: Context, request: ApiRequest, target: RequestTarget, old: Object, new: Object, sent: Any
) -> ManagedFields | None:
    """Returns the owners after an update, None while they are not recorded.

    sent: the client's managedFields, which replace the recorded ones if they can be read; a reset ends the recording.
    """
    recorded = old["metadata"].get("managedFields")
    if not (sent or recorded) or managed_fields.is_reset(sent):
        return None
    before = _decoded(sent)
    before = before if before.owners else _decoded(recorded)
    if not before.owners:
        return None
    client = manager(request, target, OwnerOperation.UPDATE)
    after = owners.update(target.resource.merge_type, before.owners, client, part(target, old), part(target, new))
    return before.changed(after, times.render(ctx.now()))


def marked(target: RequestTarget, body: Object, managed: ManagedFields | None) -> Object:
    """Returns the object with its owners, or without if none are recorded."""
    meta = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    if managed is not None and managed.owners:
        meta["managedFields"] = managed.encode(target.resource.kind.api_version)
    return {**body, "metadata": meta}
