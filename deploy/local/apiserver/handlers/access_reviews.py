"""Access reviews: a client with the token may do everything."""

from deploy.local.apiserver.api_errors import bad_request
from deploy.local.apiserver.http.request import ApiRequest, Response, json_response

GROUP, VERSION = "authorization.k8s.io", "v1"
#: Resources of the group, by plural, and their kinds.
KINDS = {
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
}


def create(request: ApiRequest, plural: str) -> Response:
    """POST of a review: answered at once, kept nowhere."""
    document = request.document()
    if not isinstance(document, dict) or document.get("kind", KINDS[plural]) != KINDS[plural]:
        raise bad_request(f"the body is not a {KINDS[plural]}")
    if plural == "selfsubjectaccessreviews":
        status = {"allowed": True, "reason": "the token of the embedded cluster may do everything"}
    else:
        status = {
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }
    head = {"kind": KINDS[plural], "apiVersion": f"{GROUP}/{VERSION}", "metadata": {"creationTimestamp": None}}
    return json_response({**head, "spec": document.get("spec", {}), "status": status}, 201)
