"""What roles and bindings allow."""

from typing import Any

from deploy.local.apiserver.access.rbac_rules import RolePolicy, aggregated
from deploy.local.apiserver.access.request_attributes import AccessAttributes
from deploy.local.apiserver.access.user_info import ADMIN, AUTHENTICATED, UserInfo, account_groups, account_name
from tests.support.tables import cases
from workers.api.kinds import Object

ANN = UserInfo("ann", ("dev", "system:authenticated"))
BUILDER = UserInfo(account_name("team", "builder"), (*account_groups("team"), AUTHENTICATED))


def subject(kind: str, name: str, **more: str) -> Object:
    return {"kind": kind, "name": name, **more}


def binding(role: str, *subjects: Object, namespace: str = "", kind: str = "ClusterRole") -> Object:
    metadata = {"name": "b", **({"namespace": namespace} if namespace else {})}
    return {"metadata": metadata, "roleRef": {"kind": kind, "name": role}, "subjects": list(subjects)}


def rule(verbs: str = "get", resources: str = "pods", groups: str = "", **more: Any) -> Object:
    return {"verbs": verbs.split(), "resources": resources.split(), "apiGroups": groups.split(","), **more}


READER = {("", "reader"): [rule()], ("team", "reader"): [rule("list")]}
ANNS = subject("User", "ann")
GET = AccessAttributes("get", "", "pods", "", "team", "a")
LIST = AccessAttributes("list", "", "pods", "", "team")


@cases(
    ("in the cluster", {"": [binding("reader", ANNS)]}, ANN, GET, True),
    ("in the namespace", {"team": [binding("reader", ANNS, namespace="team")]}, ANN, GET, True),
    ("in another namespace", {"other": [binding("reader", ANNS, namespace="other")]}, ANN, GET, False),
    ("a role of the namespace", {"team": [binding("reader", ANNS, namespace="team", kind="Role")]}, *(ANN, LIST, True)),
    (
        "a role of another namespace",
        {"other": [binding("reader", ANNS, namespace="other", kind="Role")]},
        *(ANN, LIST, False),
    ),
    (
        "a binding of a namespace gives nothing in the cluster",
        {"team": [binding("reader", ANNS, namespace="team")]},
        *(ANN, AccessAttributes("get", "", "pods"), False),
    ),
    ("another user", {"": [binding("reader", subject("User", "bob"))]}, ANN, GET, False),
    ("a group", {"": [binding("reader", subject("Group", "dev"))]}, ANN, GET, True),
    ("a user called like a group", {"": [binding("reader", subject("User", "dev"))]}, ANN, GET, False),
    (
        "an account",
        {"": [binding("reader", subject("ServiceAccount", "builder", namespace="team"))]},
        *(BUILDER, GET, True),
    ),
    (
        "an account of the binding's namespace",
        {"team": [binding("reader", subject("ServiceAccount", "builder"), namespace="team")]},
        *(BUILDER, GET, True),
    ),
    (
        "an account of no namespace",
        {"": [binding("reader", subject("ServiceAccount", "builder"))]},
        *(BUILDER, GET, False),
    ),
    (
        "an account of the same name elsewhere",
        {"": [binding("reader", subject("ServiceAccount", "builder", namespace="other"))]},
        *(BUILDER, GET, False),
    ),
    (
        "all accounts of a namespace",
        {"": [binding("reader", subject("Group", "system:serviceaccounts:team"))]},
        *(BUILDER, GET, True),
    ),
    ("no subjects", {"": [binding("reader")]}, ANN, GET, False),
    ("nothing", {}, ANN, GET, False),
    ("masters", {}, ADMIN, GET, True),
)
def test_subjects(bindings: Any, user: UserInfo, wanted: AccessAttributes, allowed: bool) -> None:
    assert RolePolicy(READER, bindings).decide(user, wanted).allowed is allowed


LOG = AccessAttributes("get", "", "pods", "log", "team", "a")
JOBS = AccessAttributes("get", "batch", "jobs", "", "team", "a")
PATH = AccessAttributes("get", path="/healthz/etcd")


@cases(
    ("verb", rule("list"), GET, False),
    ("one of the verbs", rule("list get"), GET, True),
    ("all verbs", rule("*"), GET, True),
    ("other resource", rule(resources="jobs"), GET, False),
    ("all resources", rule(resources="*"), LOG, True),
    ("the object is not its part", rule(resources="pods"), LOG, False),
    ("the part", rule(resources="pods/log"), LOG, True),
    ("the part is not the object", rule(resources="pods/log"), GET, False),
    ("the part of all", rule(resources="*/log"), LOG, True),
    ("another part of all", rule(resources="*/status"), LOG, False),
    ("parts of all are not objects", rule(resources="*/"), GET, False),
    ("other group", rule(resources="jobs"), JOBS, False),
    ("group", rule(resources="jobs", groups="batch"), JOBS, True),
    ("all groups", rule(resources="jobs", groups="*"), JOBS, True),
    ("name", rule(resourceNames=["a", "b"]), GET, True),
    ("other name", rule(resourceNames=["b"]), GET, False),
    ("names exclude what has none", rule("create list", resourceNames=["a"]), LIST, False),
    ("no names", rule(resourceNames=[]), GET, True),
    ("path", {"verbs": ["get"], "nonResourceURLs": ["/healthz/etcd"]}, PATH, True),
    ("paths below", {"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]}, PATH, True),
    ("all paths", {"verbs": ["*"], "nonResourceURLs": ["*"]}, PATH, True),
    ("path above", {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}, PATH, False),
    ("resources are no paths", rule("*", "*", "*"), PATH, False),
    ("paths are no resources", {"verbs": ["*"], "nonResourceURLs": ["*"]}, GET, False),
)
def test_rules(given: Object, wanted: AccessAttributes, allowed: bool) -> None:
    policy = RolePolicy({("", "r"): [given]}, {"": [binding("r", ANNS)]})
    assert policy.decide(ANN, wanted).allowed is allowed


def test_the_reason_names_the_binding() -> None:
    account = subject("ServiceAccount", "builder", namespace="team")
    policy = RolePolicy(READER, {"team": [binding("reader", account, namespace="team")]})
    reason = 'RBAC: allowed by RoleBinding "b/team" of ClusterRole "reader" to ServiceAccount "builder/team"'
    assert policy.decide(BUILDER, GET).reason == reason
    assert policy.decide(BUILDER, LIST).reason == ""


def test_a_missing_role_is_told() -> None:
    decision = RolePolicy({}, {"": [binding("gone", ANNS)]}).decide(ANN, GET)
    assert not decision.allowed
    assert decision.reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'


def test_roles_have_the_rules_of_those_they_select() -> None:
    def role(name: str, labelled: str = "", selects: str = "", **more: Any) -> Object:
        made: Object = {"metadata": {"name": name, "labels": {labelled: "true"} if labelled else {}}, **more}
        if selects:
            made["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {selects: "true"}}]}
        return made

    roles = [
        role("edit", selects="edit"),
        role("view", "edit", selects="view"),
        role("pods", "view", rules=[rule()]),
        role("jobs", "edit", rules=[rule(resources="jobs")]),
        role("other", rules=[rule("*", "*", "*")]),
        role("circle", "circle", selects="circle", rules=[rule("list")]),
    ]
    found = aggregated({each["metadata"]["name"]: each for each in roles})
    assert found["view"] == [rule()]
    assert found["edit"] == [rule(), rule(resources="jobs")]
    assert found["circle"] == [rule("list")]
