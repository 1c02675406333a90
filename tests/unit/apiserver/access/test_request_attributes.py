"""What roles are asked about a request."""

from typing import Any

from deploy.local.apiserver.access import request_attributes
from deploy.local.apiserver.access.request_attributes import AccessAttributes
from tests.support.tables import cases

APPS = "/apis/apps/v1/namespaces/team/deployments"


@cases(
    ("list", "GET", "/api/v1/namespaces/team/pods", {}, ("list", "", "pods", "", "team")),
    ("list everywhere", "GET", "/api/v1/pods", {}, ("list", "", "pods")),
    ("get", "GET", "/api/v1/namespaces/team/pods/a", {}, ("get", "", "pods", "", "team", "a")),
    ("watch", "GET", "/api/v1/namespaces/team/pods", {"watch": "1"}, ("watch", "", "pods", "", "team")),
    ("watch by its name", "GET", "/api/v1/namespaces/team/pods", {"watch": ""}, ("watch", "", "pods", "", "team")),
    ("no watch", "GET", "/api/v1/namespaces/team/pods", {"watch": "0"}, ("list", "", "pods", "", "team")),
    ("watch in the path", "GET", "/api/v1/watch/namespaces/team/pods", {}, ("watch", "", "pods", "", "team")),
    (
        "list of one",
        *("GET", "/api/v1/namespaces/team/pods", {"fieldSelector": "a=b,metadata.name=x"}),
        ("list", "", "pods", "", "team", "x"),
    ),
    ("log", "GET", "/api/v1/namespaces/team/pods/a/log", {}, ("get", "", "pods", "log", "team", "a")),
    ("create", "POST", APPS, {}, ("create", "apps", "deployments", "", "team")),
    ("update", "PUT", f"{APPS}/a/status", {}, ("update", "apps", "deployments", "status", "team", "a")),
    ("patch", "PATCH", f"{APPS}/a", {}, ("patch", "apps", "deployments", "", "team", "a")),
    ("delete", "DELETE", f"{APPS}/a", {}, ("delete", "apps", "deployments", "", "team", "a")),
    ("delete all", "DELETE", APPS, {}, ("deletecollection", "apps", "deployments", "", "team")),
    ("a namespace", "GET", "/api/v1/namespaces/team", {}, ("get", "", "namespaces", "", "team", "team")),
    (
        "its finalizers",
        *("PUT", "/api/v1/namespaces/team/finalize", {}),
        ("update", "", "namespaces", "finalize", "team", "team"),
    ),
    ("namespaces", "GET", "/api/v1/namespaces", {}, ("list", "", "namespaces")),
    (
        "a proxied path",
        *("GET", "/api/v1/namespaces/team/pods/a/proxy/b/c", {}),
        ("get", "", "pods", "proxy", "team", "a"),
    ),
)
def test_requests_for_resources(method: str, path: str, query: Any, expected: tuple[str, ...]) -> None:
    assert request_attributes.of(method, path, query) == AccessAttributes(*expected)


@cases({path: path for path in ("/version", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/x")})
def test_other_requests(path: str) -> None:
    assert request_attributes.of("GET", path, {}) == AccessAttributes("get", path=path)
    assert request_attributes.of("GET", f"{path}/", {}).path == f"{path}/"


@cases(
    (
        "a collection",
        AccessAttributes("list", "", "pods", "", "team"),
        'pods is forbidden: User "u" cannot list resource "pods" in API group "" in the namespace "team"',
    ),
    (
        "a part of an object",
        AccessAttributes("update", "apps", "deployments", "scale", "team", "a"),
        'deployments.apps "a" is forbidden: User "u" cannot update resource "deployments/scale" in API group "apps"'
        ' in the namespace "team"',
    ),
    (
        "the cluster",
        AccessAttributes("list", "", "nodes"),
        'nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope',
    ),
    ("a path", AccessAttributes("get", path="/metrics"), 'forbidden: User "u" cannot get path "/metrics"'),
)
def test_refusals(wanted: AccessAttributes, message: str) -> None:
    assert wanted.refusal("u") == message
