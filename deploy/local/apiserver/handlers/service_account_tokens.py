"""The token subresource of service accounts: what `kubectl create token` asks for."""

from datetime import timedelta

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.access.account_tokens import API_AUDIENCE, LEAST, LIFE, MOST
from deploy.local.apiserver.api_errors import bad_request
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery.api_resources import RequestTarget
from deploy.local.apiserver.http.request import ApiRequest, Response, json_response
from workers.api import times
from workers.api.kinds import Kind

TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests")


def create(ctx: Context, request: ApiRequest, target: RequestTarget) -> Response:
    """POST of a TokenRequest: answers with a new token, which is kept nowhere."""
    document = request.document()
    if not isinstance(document, dict) or document.get("kind", TOKEN_REQUEST.kind) != TOKEN_REQUEST.kind:
        raise bad_request(f"the body is not a {TOKEN_REQUEST.kind}")
    account = ctx.existing(target)
    spec = document.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    seconds = LIFE if seconds is None else seconds
    errors = []
    if not isinstance(seconds, int) or seconds < LEAST:
        errors.append(_wrong("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    elif seconds > MOST:
        errors.append(_wrong("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    if spec.get("boundObjectRef"):
        errors.append(_wrong("spec.boundObjectRef", "...", "tokens are bound to their service account alone here"))
    if errors:
        raise api_errors.invalid(TOKEN_REQUEST, "", errors)
    audiences = spec.get("audiences") or [API_AUDIENCE]
    begin = ctx.now()
    begin_seconds = int(begin.timestamp())
    token = ctx.access.tokens.issue(
        target.namespace, target.name, account.uid, audiences, begin_seconds, begin_seconds + seconds
    )
    head = {"kind": TOKEN_REQUEST.kind, "apiVersion": TOKEN_REQUEST.api_version}
    metadata = {"name": target.name, "namespace": target.namespace, "creationTimestamp": times.render(begin)}
    shown = {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": None}
    status = {"token": token, "expirationTimestamp": times.render(begin + timedelta(seconds=seconds))}
    return json_response({**head, "metadata": metadata, "spec": shown, "status": status}, 201)


def _wrong(field: str, value: object, why: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {value}: {why}")
