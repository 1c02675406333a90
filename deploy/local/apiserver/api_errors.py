"""The errors of the API: `Status` objects, worded and shaped as kube-apiserver's.

`ApiError` is the exception that becomes such a response. The functions below build those that
clients distinguish by code and reason.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from deploy.local.apiserver.codec.field_errors import FieldError
from workers.api.kinds import Kind, Object


class ApiError(Exception):
    """An error response. code: HTTP status. reason: the word clients branch on. details: as in `Status`.

    metadata: the list metadata of the `Status`, for the one error that carries a continue token.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Object | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = dict(headers or {})
        self.metadata: Object = {}

    def status(self) -> Object:
        """The `Status` object of this refusal."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def success(details: Object | None = None, code: int | None = None) -> Object:
    """The `Status` object that answers a deletion that is complete."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code is not None:
        body["code"] = code
    return body


def _details(kind: Kind, name: str, **more: Any) -> Object:
    named = {"name": name} if name else {}
    group = {"group": kind.group} if kind.group else {}
    spelled = {"kind": kind.plural} if kind.plural else {}
    return {**named, **group, **spelled, **more}


def not_found(kind: Kind, name: str) -> ApiError:
    """404 for an object."""
    return ApiError(404, "NotFound", f'{kind.id} "{name}" not found', _details(kind, name))


def no_resource(hint: str = "") -> ApiError:
    """404 for a path of the API that leads nowhere. hint: what to do about it."""
    message = "the server could not find the requested resource"
    return ApiError(404, "NotFound", f"{message}: {hint}" if hint else message, {})


def already_exists(kind: Kind, name: str, *, generated: bool = False) -> ApiError:
    """409: the name is taken; also if the server has made it up, and has found no free one."""
    message = f'{kind.id} "{name}" already exists'
    if not generated:
        return ApiError(409, "AlreadyExists", message, _details(kind, name))
    message = f"{message}, the server was not able to generate a unique name for the object"
    return ApiError(409, "AlreadyExists", message, _details(kind, name, retryAfterSeconds=1), {"Retry-After": "1"})


def conflict(kind: Kind, name: str, why: str) -> ApiError:
    """409: the caller's picture of the object is out of date."""
    message = f'Operation cannot be fulfilled on {kind.id} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(kind, name))


def precondition(kind: Kind, name: str, what: str, wanted: str, found: str) -> ApiError:
    """409: the object to be deleted is another one (what: UID), or another version (what: ResourceVersion)."""
    fate = "deleted and then recreated" if what == "UID" else "modified"
    why = (
        f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). "
        f"The object might have been {fate}"
    )
    message = f'Operation cannot be fulfilled on {_qualified(kind)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(kind, name) | {"kind": kind.kind})


#: Why an update with an old resourceVersion is refused.
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422: every wrong field, with its reason."""
    causes = [{"reason": e.reason, "message": e.message, "field": e.field} for e in errors]
    texts = [f"{e.field}: {e.message}" for e in errors]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(kind, name, causes=causes) | ({"kind": kind.kind} if kind.kind else {})
    return ApiError(422, "Invalid", f'{_qualified(kind)} "{name}" is invalid: {listed}', details)


def _qualified(kind: Kind) -> str:
    return f"{kind.kind}.{kind.group}" if kind.group else kind.kind


def bad_request(message: str) -> ApiError:
    """400: the request cannot be understood."""
    return ApiError(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str, causes: Sequence[Object] = ()) -> ApiError:
    """403: understood, and refused."""
    more: dict[str, Any] = {"causes": list(causes)} if causes else {}
    return ApiError(403, "Forbidden", f'{kind.id} "{name}" is forbidden: {why}', _details(kind, name, **more))


def unauthorized() -> ApiError:
    """401: no token, or a wrong one."""
    # Whoever has no token is not waited for: the rest of a body is not read.
    headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
    return ApiError(401, "Unauthorized", "Unauthorized", headers=headers)


def method_not_allowed() -> ApiError:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


_ACCEPTED = (
    "only the following media types are accepted: application/json, application/json;stream=watch, application/yaml"
)


def not_acceptable(message: str = _ACCEPTED) -> ApiError:
    """406: none of the asked-for representations exists."""
    return ApiError(406, "NotAcceptable", message)


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415: the body is in a form that is not understood here."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, "UnsupportedMediaType", message)


def too_large(limit: int) -> ApiError:
    """413."""
    message = f"Request entity too large: limit is {limit}"
    return ApiError(413, "RequestEntityTooLarge", message, {}, {"Connection": "close"})


def expired(message: str) -> ApiError:
    """410: the caller asks for a past that is no longer remembered; a new list helps."""
    return ApiError(410, "Expired", message)


def too_old(version: int, floor: int) -> ApiError:
    """410 for a watch that wants to resume before what is remembered."""
    return expired(f"too old resource version: {version} ({floor})")


def too_new(version: int, current: int) -> ApiError:
    """504 for a list that asks for a version this server has not seen."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return ApiError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1}, {"Retry-After": "1"})


def unavailable(message: str) -> ApiError:
    """503: the store does not answer; nothing is known to be written."""
    return ApiError(503, "ServiceUnavailable", message, {"retryAfterSeconds": 1}, {"Retry-After": "1"})


def timeout(message: str) -> ApiError:
    """504: no answer in time; the request may still take effect."""
    return ApiError(504, "Timeout", message, {})
