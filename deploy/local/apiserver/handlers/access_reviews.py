"""Reviews of tokens and of access: answered at once, kept nowhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.access.account_tokens import API_AUDIENCE
from deploy.local.apiserver.access.rbac_rules import AccessDecision
from deploy.local.apiserver.access.request_attributes import AccessAttributes
from deploy.local.apiserver.access.user_info import AUTHENTICATED, UserInfo
from deploy.local.apiserver.api_errors import bad_request
from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.http.request import ApiRequest, Response, json_response
from workers.api.kinds import Kind, Object

AUTHENTICATION, AUTHORIZATION, VERSION = "authentication.k8s.io", "authorization.k8s.io", "v1"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


@dataclass(frozen=True, slots=True)
class ReviewKind:
    """One kind of review. answer: returns the status for the spec that a request carries."""

    kind: Kind
    answer: Callable[[Context, ApiRequest, Object, str], Object]


def _token(ctx: Context, _request: ApiRequest, spec: Object, _namespace: str) -> Object:
    token = spec.get("token")
    if not isinstance(token, str) or not token:
        raise bad_request("token is required for TokenReview in authentication")
    audiences = spec.get("audiences") or [API_AUDIENCE]
    found = ctx.access.authenticate(token, audiences, ctx.now().timestamp())
    if found is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": found.user.body(), "audiences": list(found.audiences)}


def _subject(ctx: Context, _request: ApiRequest, spec: Object, namespace: str) -> Object:
    groups = tuple(spec.get("groups") or ())
    user = UserInfo(spec.get("user") or "", groups)
    if not user.name and not groups:
        raise _invalid(
            _LOCAL if namespace else _SUBJECT, "spec.user", "at least one of user or group must be specified"
        )
    wanted = _wanted(_LOCAL if namespace else _SUBJECT, spec)
    if namespace and (wanted.path or wanted.namespace != namespace):
        raise _invalid(_LOCAL, "spec.resourceAttributes.namespace", "must match metadata.namespace")
    return _status(ctx.access.authorizer.decide(user, wanted))


def _own_rules(ctx: Context, request: ApiRequest, spec: Object, _namespace: str) -> Object:
    if not spec.get("namespace"):
        raise bad_request("no namespace on request")
    if request.user.master:
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
    else:
        rules = list(ctx.access.authorizer.policy.rules(request.user, spec["namespace"]))
    return {
        "resourceRules": [rule for rule in rules if rule.get("resources")],
        "nonResourceRules": [
            {"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]}
            for rule in rules
            if rule.get("nonResourceURLs")
        ],
        "incomplete": False,
    }


def _kind(group: str, kind: str, *, namespaced: bool = False) -> Kind:
    return Kind(group, VERSION, kind, f"{kind.lower()}s", namespaced=namespaced)


_SUBJECT, _SELF = _kind(AUTHORIZATION, "SubjectAccessReview"), _kind(AUTHORIZATION, "SelfSubjectAccessReview")
_LOCAL = _kind(AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True)
#: All of them, by group and plural.
REVIEWS: Mapping[tuple[str, str], ReviewKind] = {
    (kind.group, kind.plural): ReviewKind(kind, answer)
    for kind, answer in (
        (_kind(AUTHENTICATION, "TokenReview"), _token),
        (
            _kind(AUTHENTICATION, "SelfSubjectReview"),
            lambda _ctx, request, _spec, _: {"userInfo": request.user.body()},
        ),
        (_SUBJECT, _subject),
        (_LOCAL, _subject),
        (
            _SELF,
            lambda ctx, request, spec, _: _status(ctx.access.authorizer.decide(request.user, _wanted(_SELF, spec))),
        ),
        (_kind(AUTHORIZATION, "SelfSubjectRulesReview"), _own_rules),
    )
}


def find(group: str, version: str, parts: list[str]) -> tuple[ReviewKind, str] | None:
    """Returns the review that a path addresses and its namespace; None if it addresses none."""
    match parts:
        case [plural]:
            namespace = ""
        case ["namespaces", namespace, plural]:
            pass
        case _:
            return None
    review = REVIEWS.get((group, plural)) if version == VERSION else None
    return (review, namespace) if review and review.kind.namespaced is bool(namespace) else None


def create(ctx: Context, request: ApiRequest, review: ReviewKind, namespace: str) -> Response:
    """POST of a review."""
    if request.method != "POST":
        raise api_errors.method_not_allowed()
    document = request.document()
    kind = review.kind
    if not isinstance(document, dict) or document.get("kind", kind.kind) != kind.kind:
        raise bad_request(f"the body is not a {kind.kind}")
    spec = document.get("spec") or {}
    if not isinstance(spec, dict):
        raise bad_request(f"{kind.kind} in version {VERSION!r} cannot be handled: spec is no object")
    status = review.answer(ctx, request, spec, namespace)
    head = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"creationTimestamp": None}}
    # A token is not shown again: answers end in logs.
    shown = {name: value for name, value in spec.items() if name != "token"}
    return json_response({**head, "spec": shown, "status": status}, 201)


def impersonated(headers: Mapping[str, str]) -> tuple[UserInfo, list[AccessAttributes]] | None:
    """Returns the user that a request asks to act as, and what its own user must be allowed for it. None if none.

    headers: by lower-case name.
    """
    name = headers.get("impersonate-user", "")
    given = [group.strip() for group in headers.get("impersonate-group", "").split(",") if group.strip()]
    if not name:
        if given or any(header.startswith("impersonate-") for header in headers):
            raise bad_request("requested impersonation without impersonating a user")
        return None
    groups = list(given)
    match name.split(":"):
        case ["system", "serviceaccount", namespace, account]:
            needed = [AccessAttributes("impersonate", resource="serviceaccounts", namespace=namespace, name=account)]
            groups = groups or ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        case _:
            needed = [AccessAttributes("impersonate", resource="users", name=name)]
    needed += [AccessAttributes("impersonate", resource="groups", name=group) for group in given]
    if AUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    return UserInfo(name, tuple(groups)), needed


def _wanted(kind: Kind, spec: Object) -> AccessAttributes:
    of_resource, of_path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(of_path, dict) and of_resource is None:
        return AccessAttributes(of_path.get("verb") or "", path=of_path.get("path") or "")
    if not isinstance(of_resource, dict) or of_path is not None:
        raise _invalid(kind, "spec.resourceAttributes", _ONE_OF)
    texts = {
        name: of_resource.get(name) or "" for name in ("verb", "group", "resource", "subresource", "namespace", "name")
    }
    return AccessAttributes(**texts)


def _status(decision: AccessDecision) -> Object:
    status: dict[str, Any] = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return status


def _invalid(kind: Kind, field: str, why: str) -> api_errors.ApiError:
    return api_errors.invalid(kind, "", [field_errors.FieldError(field, "FieldValueInvalid", f"Invalid value: {why}")])
