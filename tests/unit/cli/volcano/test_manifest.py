"""deploy/volcano.yaml allows the requests for Volcano's kinds, and no more than the tables here."""

from typing import Any

import pytest
import yaml

from deploy.manifests import process_rules, volcano
from deploy.webhook.registration import MUTATING, VALIDATING, Place
from deploy.webhook.review_lookups import POD_TEMPLATE
from tests.support.paths import ROOT
from tests.support.tables import for_each
from workers.admission.rules import RULES
from workers.api import kinds
from workers.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    JOB_FLOW,
    JOB_TEMPLATE,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    RESOURCE_QUOTA,
    SECRET,
    SERVICE,
    VC_CRON_JOB,
    VC_JOB,
    Kind,
)
from workers.decision.followed_kinds import followed

FILE = ROOT / "deploy" / "volcano.yaml"
WATCH, WORKER, WEBHOOK = (f"ClusterRole penstock-{name}" for name in ("watch-volcano", "worker-volcano", "webhook"))


SSH = "ClusterRole penstock-worker-ssh"


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(FILE.read_text()))


def allowed(role: str, verb: str, kind: Kind, subresource: str = "") -> bool:
    """As an API server authorizes an account that has this role and, from deploy/rbac.yaml, its process's own."""
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    names = {role, role.removesuffix("-volcano")}
    every = (*documents(), *yaml.safe_load_all((FILE.parent / "rbac.yaml").read_text()))
    rules = [
        rule
        for each in every
        if f"{each['kind']} {each['metadata']['name']}" in names
        for rule in each.get("rules", ())
    ]
    return any(
        verb in rule["verbs"] and kind.group in rule["apiGroups"] and resource in rule["resources"] for rule in rules
    )


def test_the_file_matches_the_needs_of_the_controllers() -> None:
    assert FILE.read_text() == volcano.render(), "run: python -m deploy.manifests.volcano > deploy/volcano.yaml"


@pytest.mark.parametrize("kind", [VC_JOB, VC_CRON_JOB, QUEUE, JOB_FLOW, JOB_TEMPLATE], ids=lambda kind: kind.id)
def test_a_kind_that_is_run_is_seen_and_its_status_written(kind: Kind) -> None:
    assert allowed(WATCH, "watch", kind)
    assert allowed(WORKER, "patch", kind, "status")
    assert allowed(WORKER, "update", kind, "finalizers") == (kind not in (QUEUE, JOB_TEMPLATE))


@for_each(
    *(("create", kind) for kind in (POD, POD_GROUP, SERVICE, CONFIG_MAP, NETWORK_POLICY, VC_JOB, COMMAND)),
    *(("delete", kind) for kind in (POD, POD_GROUP, SERVICE, CONFIG_MAP, NETWORK_POLICY, VC_JOB, COMMAND)),
    *(("patch", kind) for kind in (POD, POD_GROUP, QUEUE)),
    ("create", PERSISTENT_VOLUME_CLAIM),
    ("create", kinds.EVENT),
)
def test_the_requests_of_plans_are_allowed(verb: str, kind: Kind) -> None:
    assert allowed(WORKER, verb, kind)


@for_each(
    *((WORKER, verb, SECRET) for verb in ("create", "delete", "get", "list", "patch")),
    *((SSH, verb, SECRET) for verb in ("list", "patch")),
    (WORKER, "delete", PERSISTENT_VOLUME_CLAIM),
    (WORKER, "delete", QUEUE),
    (WATCH, "patch", VC_JOB),
    (WATCH, "list", SECRET),
    (WEBHOOK, "get", SECRET),
    (WEBHOOK, "create", POD),
    (WEBHOOK, "delete", VALIDATING),
)
def test_refused(role: str, verb: str, kind: Kind) -> None:
    assert not allowed(role, verb, kind)


def test_secrets_of_key_pairs_are_allowed_by_namespace_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(allowed(SSH, verb, SECRET) for verb in ("create", "delete", "get"))
    places = {}
    for option in ("team", "*"):
        volcano.main(["--ssh", option])
        made = [each for each in yaml.safe_load_all(capsys.readouterr().out) if each not in documents()]
        (places[option],) = (
            (each["kind"], each["metadata"].get("namespace"), each["roleRef"]["name"]) for each in made
        )
    name = SSH.removeprefix("ClusterRole ")
    assert places == {"team": ("RoleBinding", "team", name), "*": ("ClusterRoleBinding", None, name)}


def test_every_followed_kind_may_be_listed_and_watched() -> None:
    found = followed(process_rules.volcano_controllers())
    assert {QUEUE, POD_GROUP, COMMAND, NODE, PRIORITY_CLASS, RESOURCE_QUOTA} <= set(found)
    for kind in found:
        assert allowed(WATCH, "list", kind), kind
        assert allowed(WATCH, "watch", kind), kind


def test_the_webhook_may_read_the_objects_of_its_rules() -> None:
    for rules in RULES.values():
        for kind in (*rules.judges, *rules.removes):
            assert isinstance(kind, Kind)
            assert allowed(WEBHOOK, "list", kind), kind
    assert allowed(WEBHOOK, "get", NAMESPACE)
    assert allowed(WEBHOOK, "create", POD_TEMPLATE)
    for kind in (MUTATING, VALIDATING):
        assert all(allowed(WEBHOOK, verb, kind) for verb in ("get", "create", "update"))
    assert all(allowed("Role penstock-webhook", verb, SECRET) for verb in ("get", "create", "update"))


def test_the_service_matches_the_webhook_configuration() -> None:
    (service,) = (each for each in documents() if each["kind"] == "Service")
    client = Place(service["metadata"]["namespace"], "penstock-webhook").client("/validate", "")["service"]
    assert (client["namespace"], client["name"]) == ("penstock", service["metadata"]["name"])
    assert client["port"] == service["spec"]["ports"][0]["port"]
