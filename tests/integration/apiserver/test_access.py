"""Tokens of service accounts, reviews and roles: on the embedded server and on a real one."""

import base64
import itertools
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.page.authorization import ALLOWED, PageAuthorization, Refused
from tests.integration.apiserver.client import Answer, Api, config_map, until
from tests.integration.apiserver.conftest import Kubectl
from tests.support.embedded import Embedded
from tests.support.tables import cases
from workers.api.kinds import CONFIG_MAP
from workers.client.rest import Cluster
from workers.errors import Forbidden

RBAC = "rbac.authorization.k8s.io"
REVIEWS = {"Token": "authentication", "SubjectAccess": "authorization", "SelfSubjectAccess": "authorization"}


RESOURCES = (
    *("/pods", "/pods/log", "/configmaps", "/secrets", "apps/deployments"),
    *("batch/jobs", "batch/jobs/status"),
)


@dataclass(frozen=True)
class Account:
    """A service account of the test's namespace."""

    api: Api
    name: str

    @classmethod
    def made(cls, api: Api, name: str = "builder") -> "Account":
        accounts = f"/api/v1/namespaces/{api.namespace}/serviceaccounts"
        api.create(accounts, {"metadata": {"name": name}})
        return cls(api, name)

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.api.namespace}/serviceaccounts/{self.name}"

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.api.namespace}:{self.name}"

    @property
    def subject(self) -> dict[str, str]:
        return {"kind": "ServiceAccount", "name": self.name, "namespace": self.api.namespace}

    def requested(self, **spec: Any) -> Answer:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return self.api("POST", f"{self.path}/token", body)

    def token(self, *audiences: str) -> str:
        answer = self.requested(audiences=list(audiences))
        assert answer.code == 201, answer.text
        return str(answer.body["status"]["token"])

    def acting(self, method: str, path: str, body: Any = None) -> Answer:
        """Sends a request with a token of the account."""
        own = Api.__new__(Api)
        own.__dict__.update({**self.api.__dict__, "token": self.token()})
        return own(method, path, body)


def role(api: Api, name: str, *rules: dict[str, Any], cluster: bool = False) -> None:
    place = "" if cluster else f"namespaces/{api.namespace}/"
    body = {"metadata": {"name": name}, "rules": list(rules)}
    api.create(f"/apis/{RBAC}/v1/{place}{'clusterroles' if cluster else 'roles'}", body)


def bind(api: Api, name: str, to: str, *subjects: dict[str, str], kind: str = "Role", cluster: bool = False) -> None:
    place = "" if cluster else f"namespaces/{api.namespace}/"
    reference = {"apiGroup": RBAC, "kind": kind, "name": to}
    given = [{**({} if each["kind"] == "ServiceAccount" else {"apiGroup": RBAC}), **each} for each in subjects]
    path = f"/apis/{RBAC}/v1/{place}{'clusterrolebindings' if cluster else 'rolebindings'}"
    api.create(path, {"metadata": {"name": name}, "roleRef": reference, "subjects": given})


def rule(verbs: str, resources: str, groups: str = "", **more: Any) -> dict[str, Any]:
    return {"verbs": verbs.split(), "resources": resources.split(), "apiGroups": groups.split(","), **more}


def review(api: Api, kind: str, spec: dict[str, Any]) -> Any:
    group, name = REVIEWS[kind], f"{kind}Review"
    body = {"apiVersion": f"{group}.k8s.io/v1", "kind": name, "spec": spec}
    return api.create(f"/apis/{group}.k8s.io/v1/{name.lower()}s", body)["status"]


def test_a_token_names_its_account_and_its_audiences(api: Api) -> None:
    account = Account.made(api)
    answer = account.requested(audiences=["penstock", "vault"], expirationSeconds=1200).body
    assert answer["spec"]["expirationSeconds"] == 1200
    token = answer["status"]["token"]
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert (claims["sub"], claims["aud"]) == (account.user, ["penstock", "vault"])
    assert claims["exp"] - claims["iat"] == 1200
    status = review(api, "Token", {"token": token, "audiences": ["penstock", "other"]})
    assert (status["authenticated"], status["audiences"]) == (True, ["penstock"])
    assert status["user"]["username"] == account.user
    uid = api.get(account.path).body["metadata"]["uid"]
    assert status["user"]["uid"] == uid
    groups = {"system:serviceaccounts", f"system:serviceaccounts:{api.namespace}", "system:authenticated"}
    assert set(status["user"]["groups"]) == groups


def test_a_token_is_good_for_its_audiences_and_while_its_account_exists(api: Api) -> None:
    account = Account.made(api)
    ours, theirs = account.token(), account.token("penstock")
    assert review(api, "Token", {"token": ours})["authenticated"] is True
    refused = [(theirs, []), (ours, ["penstock"]), (ours[:-4] + "AAAA", []), ("x", []), (api.token, ["penstock"])]
    for token, audiences in refused:
        assert not review(api, "Token", {"token": token, "audiences": audiences}).get("authenticated")
    # One that was not asked about: a real server remembers answers for some seconds.
    unseen = account.token()
    api("DELETE", account.path)
    Account.made(api)
    until(lambda: not review(api, "Token", {"token": unseen}).get("authenticated"), "the token has ended")


@cases(
    ("too short", {"expirationSeconds": 599}, 422),
    ("too long", {"expirationSeconds": 1 << 33}, 422),
)
def test_a_token_of_another_life_is_refused(spec: Any, code: int, api: Api) -> None:
    assert Account.made(api).requested(**spec).code == code


def test_a_token_of_no_account_is_refused(api: Api) -> None:
    assert Account(api, "missing").requested().code == 404


def test_an_account_may_do_what_its_roles_say(api: Api) -> None:
    account = Account.made(api)
    refused = account.acting("GET", api.maps)
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    where = f'in API group "" in the namespace "{api.namespace}"'
    message = f'configmaps is forbidden: User "{account.user}" cannot list resource "configmaps" {where}'
    assert refused.message == message
    assert refused.body["details"] == {"kind": "configmaps"}
    role(api, "maps", rule("get create", "configmaps"))
    bind(api, "maps", "maps", account.subject)
    until(lambda: account.acting("POST", api.maps, config_map()).code == 201, "the role is obeyed")
    assert account.acting("GET", f"{api.maps}/one").code == 200
    named = account.acting("DELETE", f"{api.maps}/one")
    assert named.message.startswith(f'configmaps "one" is forbidden: User "{account.user}" cannot delete')
    assert named.body["details"] == {"name": "one", "kind": "configmaps"}
    for path in (api.maps, "/api/v1/configmaps", api.pods, "/api/v1/namespaces/default/configmaps/one", "/metrics"):
        assert account.acting("GET", path).code == 403, path
    for path in ("/api", "/apis", "/version"):
        assert account.acting("GET", path).code == 200, path


def test_reviews_agree_with_a_real_server(api: Api) -> None:
    one, two = Account.made(api, "one"), Account.made(api, "two")
    unique = api.namespace
    role(api, "pods", rule("get list", "pods pods/log"), rule("*", "jobs", "batch"))
    role(api, "named", rule("get patch", "configmaps", resourceNames=["a"]))
    role(api, f"{unique}-status", rule("update", "*/status", "*"), cluster=True)
    role(api, f"{unique}-health", {"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]}, cluster=True)
    bind(api, "pods", "pods", one.subject, {"kind": "User", "name": "ann"})
    bind(api, "named", "named", {"kind": "Group", "name": f"system:serviceaccounts:{unique}"})
    bind(api, "viewers", "view", two.subject, kind="ClusterRole")
    bind(api, "editors", "edit", {"kind": "User", "name": "eve"}, kind="ClusterRole")
    bind(api, "admins", "admin", {"kind": "User", "name": "adam"}, kind="ClusterRole")
    bind(api, "gone", "gone", {"kind": "User", "name": "bob"})
    of_cluster: dict[str, Any] = {"kind": "ClusterRole", "cluster": True}
    bind(api, f"{unique}-status", f"{unique}-status", {"kind": "Group", "name": "dev"}, **of_cluster)
    bind(api, f"{unique}-health", f"{unique}-health", {"kind": "User", "name": "ann"}, **of_cluster)
    last = {"user": "ann", "nonResourceAttributes": {"verb": "get", "path": "/healthz/x"}}
    until(lambda: review(api, "SubjectAccess", last)["allowed"], "a real server knows the bindings of the cluster")
    users, verbs = (
        (one.user, two.user, "ann", "eve", "adam", "bob", "cid"),
        ("get", "list", "create", "patch", "update"),
    )
    found = {"-".join(key): key for key in itertools.product(users, verbs, RESOURCES)}
    expected = {name for name, (user, verb, what) in found.items() if expects(user, verb, what, one.user, two.user)}
    # It follows each kind by itself, and a controller of its own fills the roles edit and admin after its start.
    until(
        lambda: all(asked(api, *found[name])["allowed"] for name in expected), "a real server knows roles and bindings"
    )
    assert {name for name, key in found.items() if asked(api, *key)["allowed"]} == expected
    reason = f'RBAC: allowed by RoleBinding "pods/{unique}" of Role "pods" to ServiceAccount "one/{unique}"'
    assert asked(api, one.user, "get", "/pods")["reason"] == reason
    assert asked(api, "bob", "get", "/pods")["reason"] == 'RBAC: role.rbac.authorization.k8s.io "gone" not found'
    assert asked(api, "cid", "update", "batch/jobs/status", groups=["dev"])["allowed"]
    assert asked(api, "cid", "delete", "/nodes", groups=["system:masters"])["allowed"]


def asked(api: Api, user: str, verb: str, what: str, groups: list[str] | None = None) -> Any:
    group, resource, *part = what.split("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": api.namespace, "name": "a"}
    spec = {"user": user, "resourceAttributes": {**attributes, "subresource": "".join(part)}}
    if user.startswith("system:serviceaccount:"):
        groups = [f"system:serviceaccounts:{api.namespace}"]
    return review(api, "SubjectAccess", {**spec, **({"groups": groups} if groups else {})})


def expects(user: str, verb: str, what: str, one: str, two: str) -> bool:
    """The table that both servers have to agree with."""
    reads, status = verb in ("get", "list"), what.endswith("/status")
    own = what == "/configmaps" and verb in ("get", "patch") and user in (one, two)
    if user in (one, "ann"):
        return own or (reads and what in ("/pods", "/pods/log")) or what == "batch/jobs"
    if user == two:
        return own or (reads and what != "/secrets")
    if user in ("eve", "adam"):
        return reads or (not status and what != "/pods/log")
    return False


@cases(
    ("no attributes", {"user": "ann"}),
    ("no user", {"resourceAttributes": {"verb": "get", "resource": "pods"}}),
    (
        "both attributes",
        {
            "user": "ann",
            "resourceAttributes": {"verb": "get", "resource": "pods"},
            "nonResourceAttributes": {"verb": "get", "path": "/"},
        },
    ),
)
def test_a_malformed_review_is_refused(spec: Any, api: Api) -> None:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    assert api("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body).code == 422


def test_a_review_of_a_token_needs_one_and_does_not_show_it(ours: Api) -> None:
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}}
    assert ours("POST", path, body).code == 400
    token = Account.made(ours).token()
    assert token not in ours("POST", path, {**body, "spec": {"token": token}}).text.decode()
    assert ours("GET", path).code == 405


def test_reviews_are_for_those_who_may_ask(api: Api) -> None:
    account = Account.made(api)
    attributes = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": api.namespace}}
    own = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": attributes}
    answer = account.acting("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", own)
    assert (answer.code, answer.body["status"]["allowed"]) == (201, False)
    others = {**own, "kind": "SubjectAccessReview", "spec": {**attributes, "user": "ann"}}
    assert account.acting("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", others).code == 403
    assert account.acting("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}).code == 403


def test_a_namespaced_review_is_about_its_namespace(api: Api) -> None:
    path = f"/apis/authorization.k8s.io/v1/namespaces/{api.namespace}/localsubjectaccessreviews"
    attributes = {"verb": "get", "resource": "pods", "namespace": api.namespace}
    body: dict[str, Any] = {"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview"}
    body |= {"metadata": {"namespace": api.namespace}, "spec": {"user": "ann", "resourceAttributes": attributes}}
    assert api.create(path, body)["status"]["allowed"] is False
    attributes["namespace"] = "default"
    assert api("POST", path, body).code == 422


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed: NOT tested with it")
def test_kubectl_asks_and_acts_as_another(kubectl: Kubectl, ours: Api) -> None:
    kubectl("create", "serviceaccount", "builder")
    token = kubectl("create", "token", "builder", "--audience=penstock", "--duration=15m").strip()
    account = Account(ours, "builder")
    status = review(ours, "Token", {"token": token, "audiences": ["penstock"]})
    assert status["user"]["username"] == account.user
    kubectl("create", "rolebinding", "viewer", "--clusterrole=view", f"--serviceaccount={ours.namespace}:builder")
    acting = f"--as={account.user}"
    assert kubectl("auth", "can-i", "list", "pods", acting) == "yes\n"
    assert kubectl("auth", "can-i", "delete", "pods", acting, fails=True).startswith("no")
    assert "forbidden" in kubectl("get", "secrets", acting, fails=True)
    kubectl("get", "pods", acting)
    kubectl("get", "secrets", "--as=ann", "--as-group=dev", "--as-group=system:masters")
    listed = kubectl("auth", "can-i", "--list", acting)
    assert "pods/log" in listed
    assert kubectl("auth", "can-i", "delete", "ingresses") == "yes\n"


def test_only_those_who_may_act_as_another(ours: Api) -> None:
    account = Account.made(ours)
    headers = {"Authorization": f"Bearer {account.token()}", "Impersonate-User": "admin"}
    for more in ({}, {"Impersonate-Group": "system:masters"}):
        answer = ours.pool.request("GET", f"{ours.url}{ours.maps}", headers={**headers, **more})
        assert answer.status == 403
        assert 'cannot impersonate resource "users"' in answer.json()["message"]
    headers = {"Authorization": f"Bearer {ours.token}", "Impersonate-Group": "dev"}
    assert ours.pool.request("GET", f"{ours.url}{ours.maps}", headers=headers).status == 400


async def test_the_page_asks_with_the_visitors_token(embedded: Embedded, ours: Api) -> None:
    account = Account.made(ours)
    token = account.token()
    cluster = await Cluster.connect(kubeconfig=embedded.kubeconfig, anonymous=True)
    async with cluster:
        page = PageAuthorization(cluster)
        assert await page.user(token) == account.user
        assert await page.user(ours.token) == "admin"
        assert await page.user("wrong") is None
        assert await page.may(ours.token, "delete", CONFIG_MAP, ours.namespace, "one") == ALLOWED
        refused = await page.may(token, "delete", CONFIG_MAP, ours.namespace, "one")
        assert refused == Refused(f"the owner of the token may not delete configmaps in namespace {ours.namespace}")
        assert await page.may("wrong", "get", CONFIG_MAP, ours.namespace, "") == Refused("the token is not valid")
        with pytest.raises(Forbidden):
            await page.visitor(token).request("POST", ours.maps, body=config_map())
        await page.visitor(ours.token).request("POST", ours.maps, body=config_map())
        with pytest.raises(Forbidden):
            # The connection itself has no credentials.
            await cluster.request("GET", ours.maps)


def test_tokens_outlive_a_restart_but_not_a_new_token_of_the_home(own: Embedded, tmp_path: Path) -> None:
    api = Api(own.kubeconfig, "default")
    token = Account.made(api).token()
    own.stop()
    own.start()
    assert review(Api(own.kubeconfig), "Token", {"token": token})["authenticated"] is True
    own.stop()
    (own.folder / "token").unlink()
    own.start()
    assert not review(Api(own.kubeconfig), "Token", {"token": token}).get("authenticated")
