"""The typed TriggerAuthentication: what is accepted, what is refused, and that nothing tells a secret."""

from typing import Any

import pytest

from tests.support.tables import cases
from workers.api.keda import triggerauthentication
from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, SCALED_JOB, TRIGGER_AUTHENTICATION, Object
from workers.errors import UserError

ENTRY = {"parameter": "password", "name": "login", "key": "pw"}
SECRET_KEY = {"valueFrom": {"secretKeyRef": {"name": "client", "key": "secret"}}}
OAUTH = {"type": "clientCredentials", "clientId": "me", "clientSecret": SECRET_KEY, "tokenUrl": "https://token"}
VAULT: Object = {
    "address": "https://vault:8200",
    "authentication": "token",
    "credential": {"token": "hunter2"},
    "secrets": [{"parameter": "password", "path": "kv/data/login", "key": "pw", "type": "secretV2"}],
}


def parse(**spec: Any) -> triggerauthentication.AuthenticationSpec:
    body = {"metadata": {"namespace": "team", "name": "login"}, "spec": spec}
    return triggerauthentication.parse(TRIGGER_AUTHENTICATION, body).spec


def test_every_field_of_keda_is_read() -> None:
    spec = parse(
        env=[{"parameter": "username", "name": "USER", "containerName": "side"}],
        filePath="kafka.json",
        configMapTargetRef=[ENTRY],
        secretTargetRef=[ENTRY],
        hashiCorpVault={**VAULT, "namespace": "ns", "role": "r", "mount": "m"},
        azureKeyVault={"vaultURI": "x"},
        gcpSecretManager={"secrets": []},
        awsSecretManager={"secrets": []},
        boundServiceAccountToken=[{"parameter": "token", "serviceAccountName": "reader"}],
        oauth2={**OAUTH, "scopes": ["a"], "tokenUrlParams": {"audience": "b"}},
        podIdentity={"provider": "aws", "roleArn": "r", "externalID": "e", "identityOwner": "keda"},
    )
    assert spec.env[0].container_name == "side"
    assert (spec.config_map_target_ref[0].name, spec.secret_target_ref[0].key) == ("login", "pw")
    assert spec.hashi_corp_vault is not None
    assert (spec.hashi_corp_vault.mount, spec.hashi_corp_vault.secrets[0].type) == ("m", "secretV2")
    assert spec.bound_service_account_token[0].service_account_name == "reader"
    assert spec.oauth2 is not None
    assert (spec.oauth2.client_secret.value_from.secret_key_ref.name, spec.oauth2.scopes) == ("client", ("a",))
    assert spec.pod_identity is not None
    assert (spec.pod_identity.provider, spec.pod_identity.external_id) == ("aws", "e")
    assert (spec.file_path, spec.azure_key_vault) == ("kafka.json", {"vaultURI": "x"})


@cases(
    ("variable without a name", {"env": [{"parameter": "p"}]}, "spec.env[0].name: "),
    ("no key", {"secretTargetRef": [{**ENTRY, "key": ""}]}, "spec.secretTargetRef[0].key: "),
    ("no list", {"secretTargetRef": ENTRY}, "spec.secretTargetRef: "),
    ("login", {"hashiCorpVault": {**VAULT, "authentication": "ldap"}}, "hashiCorpVault.authentication: "),
    ("no secrets", {"hashiCorpVault": {**VAULT, "secrets": None}}, "hashiCorpVault.secrets: "),
    ("token", {"hashiCorpVault": {**VAULT, "credential": {"token": 7}}}, "hashiCorpVault.credential.token: "),
    ("another grant", {"oauth2": {**OAUTH, "type": "password"}}, "spec.oauth2.type: "),
    ("unknown provider", {"podIdentity": {"provider": "mine"}}, "spec.podIdentity.provider: "),
)
def test_what_is_wrong_is_refused_and_named(spec: Object, field: str) -> None:
    with pytest.raises(UserError) as refused:
        parse(**spec)
    assert str(refused.value).startswith("TriggerAuthentication team/login: ")
    assert field in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_no_text_of_it_shows_a_token() -> None:
    spec = parse(hashiCorpVault=VAULT)
    assert spec.hashi_corp_vault is not None
    assert spec.hashi_corp_vault.credential is not None
    token = spec.hashi_corp_vault.credential.token
    assert token is not None
    assert token.get_secret_value() == "hunter2"
    assert "hunter2" not in f"{spec} {spec!r} {spec.model_dump_json()}"


@cases(
    ("by default", None, TRIGGER_AUTHENTICATION),
    ("empty", "", TRIGGER_AUTHENTICATION),
    ("of the namespace", "TriggerAuthentication", TRIGGER_AUTHENTICATION),
    ("of the cluster", "ClusterTriggerAuthentication", CLUSTER_TRIGGER_AUTHENTICATION),
    ("something else", SCALED_JOB.kind, None),
)
def test_a_reference_names_one_of_two_kinds(text: str | None, kind: object) -> None:
    assert triggerauthentication.kind_of(text) == kind
