"""deploy/rbac.yaml allows the requests of the processes, and no more than the tables here."""

from typing import Any

import pytest
import yaml

from deploy.manifests import process_rules, rbac
from scalers.scaler_registry import ScalerRegistry
from scalers.triggers.parse import Triggers
from tests.integration.scalers.every_trigger import EXAMPLES
from tests.support.paths import ROOT
from tests.support.tables import cases, for_each
from tests.unit.scalers.cluster import Cluster
from workers.api.kinds import (
    CRON_JOB,
    DEPLOYMENT,
    EVENT,
    EVENT_JOB,
    JOB,
    LEASE,
    POD,
    POD_METRICS,
    SCALED_JOB,
    SCALED_OBJECT,
    SECRET,
    SERVICE_ACCOUNT,
    TRIGGER_AUTHENTICATION,
    Kind,
    Ref,
)
from workers.decision.followed_kinds import followed

TOKEN_REVIEW = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
FILE = ROOT / "deploy" / "rbac.yaml"


def roles() -> dict[str, list[dict[str, Any]]]:
    """The rules of each role, by kind and name."""
    documents = list(yaml.safe_load_all(FILE.read_text()))
    return {f"{each['kind']} {each['metadata']['name']}": each["rules"] for each in documents if "rules" in each}


def allowed(role: str, verb: str, kind: Kind, subresource: str = "") -> bool:
    """As an API server authorizes."""
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    return any(
        verb in rule["verbs"]
        and (kind.group in rule["apiGroups"] or "*" in rule["apiGroups"])
        and (resource in rule["resources"] or f"*/{subresource}" in rule["resources"])
        for rule in roles()[role]
    )


def test_the_file_matches_the_needs_of_the_controllers() -> None:
    assert FILE.read_text() == rbac.render(), "run: python -m deploy.manifests.rbac > deploy/rbac.yaml"


@for_each(
    ("ClusterRole penstock-worker", "create", JOB, ""),
    ("ClusterRole penstock-worker", "create", POD, ""),
    ("ClusterRole penstock-worker", "create", EVENT, ""),
    ("ClusterRole penstock-worker", "patch", SCALED_JOB, "status"),
    ("ClusterRole penstock-worker", "update", SCALED_JOB, "finalizers"),
    ("ClusterRole penstock-worker", "patch", DEPLOYMENT, "scale"),
    ("ClusterRole penstock-worker", "patch", TRIGGER_AUTHENTICATION, "status"),
    ("ClusterRole penstock-worker", "patch", CRON_JOB, ""),
    ("ClusterRole penstock-scaler-secrets", "get", SECRET, ""),
    ("ClusterRole penstock-scaler-tokens", "create", SERVICE_ACCOUNT, "token"),
    ("Role penstock-watch", "update", LEASE, ""),
    ("ClusterRole penstock-gateway", "create", TOKEN_REVIEW, ""),
    ("ClusterRole penstock-gateway", "get", POD, "log"),
    ("ClusterRole penstock-gateway-secrets", "get", SECRET, ""),
    ("ClusterRole penstock-view", "watch", EVENT_JOB, ""),
    ("ClusterRole penstock-edit", "patch", SCALED_JOB, ""),
)
def test_allowed(role: str, verb: str, kind: Kind, subresource: str) -> None:
    assert allowed(role, verb, kind, subresource)


@for_each(
    ("ClusterRole penstock-scaler", "get", SECRET),
    ("ClusterRole penstock-watch", "get", SECRET),
    ("ClusterRole penstock-watch", "get", SCALED_JOB),
    ("ClusterRole penstock-worker", "get", POD_METRICS),
    ("ClusterRole penstock-watch", "patch", SCALED_JOB),
    ("ClusterRole penstock-worker", "get", SECRET),
    ("ClusterRole penstock-worker", "delete", SCALED_OBJECT),
    ("ClusterRole penstock-worker", "patch", DEPLOYMENT),
    ("ClusterRole penstock-scaler-secrets", "list", SECRET),
    ("ClusterRole penstock-scaler", "create", JOB),
    ("ClusterRole penstock-watch", "update", LEASE),
    ("ClusterRole penstock-gateway", "get", SECRET),
    ("ClusterRole penstock-gateway", "list", POD),
    ("ClusterRole penstock-gateway", "create", JOB),
    ("ClusterRole penstock-gateway", "patch", EVENT_JOB),
    ("ClusterRole penstock-gateway-secrets", "list", SECRET),
    ("ClusterRole penstock-view", "patch", SCALED_JOB),
    ("ClusterRole penstock-edit", "get", SECRET),
)
def test_refused(role: str, verb: str, kind: Kind) -> None:
    assert not allowed(role, verb, kind)


def granted(*options: str) -> set[tuple[str, str, str]]:
    """The bindings that the generator writes with these options: account, the bound role, and its namespace or `*`."""
    found = set()
    for each in yaml.safe_load_all(rbac.render(*rbac.options(options))):
        if each["kind"].endswith("Binding"):
            (account,) = each["subjects"]
            place = "*" if each["kind"] == "ClusterRoleBinding" else each["metadata"]["namespace"]
            found.add((account["name"], each["roleRef"]["name"], place))
    return found


def test_by_default_secrets_are_readable_in_the_own_namespace_only_and_tokens_nowhere() -> None:
    sensitive = {each for each in granted() if each[1].endswith(("-secrets", "-tokens"))}
    assert sensitive == {("penstock-scaler", "penstock-scaler-secrets", "penstock")}


@cases(
    ("Secrets of a namespace's pushers", "--pushers=team", "penstock-gateway-secrets", "team"),
    ("Secrets of all pushers", "--pushers=*", "penstock-gateway-secrets", "*"),
    ("Secrets of a namespace", "--secrets=team", "penstock-scaler-secrets", "team"),
    ("all Secrets", "--secrets=*", "penstock-scaler-secrets", "*"),
    ("tokens of one account", "--tokens=team/reader", "penstock-scaler-tokens-reader", "team"),
    ("tokens of a namespace", "--tokens=team", "penstock-scaler-tokens", "team"),
    ("tokens of all accounts", "--tokens=*", "penstock-scaler-tokens", "*"),
)
def test_more_is_granted_by_name(option: str, role: str, place: str) -> None:
    assert granted(option) - granted() == {("-".join(role.split("-")[:2]), role, place)}


def test_the_token_of_one_account_is_that_of_no_other() -> None:
    documents = yaml.safe_load_all(rbac.render(*rbac.options(["--tokens=team/reader"])))
    (role,) = (
        each for each in documents if each["metadata"]["name"] == "penstock-scaler-tokens-reader" and "rules" in each
    )
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "team")
    rule = {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"], "resourceNames": ["reader"]}
    assert role["rules"] == [rule]


@for_each("--tokens=", "--tokens=team/", "--tokens=a/b/c", "--secrets=", "--secrets=team/x", "x")
def test_a_wrong_option_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        rbac.options([option])
    assert "usage:" in capsys.readouterr().err


def test_every_followed_kind_may_be_listed_and_watched() -> None:
    for kind in followed(process_rules.controllers()):
        assert allowed("ClusterRole penstock-watch", "list", kind), kind
        assert allowed("ClusterRole penstock-watch", "watch", kind), kind


async def test_every_object_that_triggers_look_up_may_be_read() -> None:
    cluster = Cluster()
    cluster.config_map("settings", WORD="x")
    cluster.secret("login", pw="x")
    cluster.accounts["reader"] = "token"
    cluster.authentication(
        secretTargetRef=[{"parameter": "a", "name": "login", "key": "pw"}],
        configMapTargetRef=[{"parameter": "b", "name": "settings", "key": "WORD"}],
        boundServiceAccountToken=[{"parameter": "c", "serviceAccountName": "reader"}],
    )
    cluster.authentication("login", "", secretTargetRef=[])
    for kind in ("TriggerAuthentication", "ClusterTriggerAuthentication"):
        spec = {
            "type": "redis",
            "metadata": dict(EXAMPLES["redis"].trigger("redis", 1).metadata),
            "authenticationRef": {"name": "login", "kind": kind},
        }
        body = {"metadata": {"namespace": "team", "name": "work", "uid": kind}, "spec": {"triggers": [spec]}}
        parsed = await Triggers(ScalerRegistry(), cluster.lookups()).parse(Ref(SCALED_JOB, "team", "work"), body)
        assert parsed.problem is None
    asked = [each for each in cluster.asked if isinstance(each, Ref)]
    assert len(asked) == 4
    for ref in asked:
        role = "penstock-scaler-secrets" if ref.kind == SECRET else "penstock-scaler"
        assert allowed(f"ClusterRole {role}", "get", ref.kind), ref
    assert [path for path in cluster.asked if isinstance(path, str)] == [
        "/api/v1/namespaces/team/serviceaccounts/reader/token"
    ]


def test_scalers_and_gateway_may_be_bound_in_one_namespace() -> None:
    documents = list(yaml.safe_load_all(rbac.render(*rbac.options(["--secrets=team", "--pushers=team"]))))
    places = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in documents]
    assert len(set(places)) == len(places)


def test_standalone_may_do_what_its_parts_may() -> None:
    parts = process_rules.rules_of("watch") | process_rules.rules_of("worker") | process_rules.rules_of("scaler")
    assert process_rules.rules_of("standalone") == parts
    made = list(rbac.documents(rbac.NOTHING, rbac.Placement(processes=rbac.STANDALONE)))
    accounts = [each["metadata"]["name"] for each in made if each["kind"] == "ServiceAccount"]
    assert accounts == ["penstock-standalone", "penstock-gateway"]
    subjects = {each["subjects"][0]["name"] for each in made if "roleRef" in each}
    assert subjects == {*accounts}


def test_the_beat_has_no_token_and_no_role() -> None:
    made = [each for each in rbac.documents() if each["metadata"]["name"] == "penstock-beat"]
    assert [(each["kind"], each["automountServiceAccountToken"]) for each in made] == [("ServiceAccount", False)]


@pytest.mark.parametrize("process", process_rules.PROCESSES)
def test_a_process_has_one_role_and_one_in_its_own_namespace_at_most(process: str) -> None:
    made = list(rbac.documents(rbac.NOTHING, rbac.Placement(processes=(process,))))
    roles = [each["kind"] for each in made if "rules" in each and each["metadata"]["name"] == f"penstock-{process}"]
    assert roles in ([], ["ClusterRole"], ["ClusterRole", "Role"])


def test_single_namespaces_need_nothing_of_the_cluster() -> None:
    granted, placement = rbac.options(["--namespaces=a,b", "--own=ours", "--secrets=*", "--tokens=a/reader"])
    made = list(rbac.documents(granted, placement))
    assert {each["metadata"]["namespace"] for each in made} == {"a", "b", "ours"}
    assert {each["kind"] for each in made} == {"ServiceAccount", "Role", "RoleBinding"}
    places = [(each["kind"], each["metadata"]["namespace"], each["metadata"]["name"]) for each in made]
    assert len(set(places)) == len(places)
    assert {each["roleRef"]["kind"] for each in made if "roleRef" in each} == {"Role"}
    clusterwide = {
        resource
        for rules in (process_rules.rules_of(each) for each in placement.processes)
        for resource in rules.cluster
    }
    assert ("keda.sh", "clustertriggerauthentications") in clusterwide
    for each in made:
        for rule in each.get("rules", ()):
            pairs = {(group, resource) for group in rule["apiGroups"] for resource in rule["resources"]}
            assert not pairs & clusterwide


def test_the_clusters_roles_for_people_take_up_ours() -> None:
    documents = {each["metadata"]["name"]: each for each in yaml.safe_load_all(FILE.read_text()) if "rules" in each}
    for name in ("view", "edit"):
        labels = {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}
        assert documents[f"penstock-{name}"]["metadata"]["labels"] == labels
