"""What authenticationRefs supply: KEDA's fields and order, and errors that name what is missing and tell no secret."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scalers.auth.authenticator import Authenticator, Unreachable, Workload
from scalers.auth.secret_text import Hidden
from tests.support.tables import cases, for_each
from tests.unit.scalers.cluster import Cluster
from workers.api.kinds import SECRET, Object, Ref
from workers.errors import Forbidden, Unavailable, UserError


def optional(name: str) -> Object:
    """A variable whose Secret may be missing, and is."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": "none", "key": "pw", "optional": True}}}


TEMPLATE = {
    "spec": {
        "containers": [
            {"name": "main", "env": [{"name": "USER", "value": "bob"}]},
            {"name": "side", "env": [{"name": "USER", "value": "eve"}, optional("TOKEN")]},
        ]
    }
}
TEAM, OWN = {"name": "login"}, {"name": "login", "kind": "ClusterTriggerAuthentication"}


def entry(parameter: str = "password", name: str = "login", key: str = "pw") -> Object:
    return {"parameter": parameter, "name": name, "key": key}


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    for namespace, password in (("team", "hunter2"), ("penstock", "swordfish")):
        cluster.secret("login", namespace, pw=password, empty="")
        cluster.config_map("login", namespace, pw=f"public {namespace}")
    cluster.accounts["reader"] = "jwt-of-reader"
    return cluster


async def resolve(
    cluster: Cluster, reference: Object = TEAM, *, folder: Path | None = None, lenient: bool = False, **lookups: Any
) -> Hidden:
    workload = Workload("team", TEMPLATE)
    authenticator = Authenticator("penstock", folder=folder, missing_is_empty=lenient)
    return await authenticator.parameters(reference, workload, cluster.lookups(**lookups).view())


@cases(
    ("nothing", {}, {}),
    ("Secret", {"secretTargetRef": [entry()]}, {"password": "hunter2"}),
    ("empty entry", {"secretTargetRef": [entry(key="empty")]}, {"password": ""}),
    ("ConfigMap", {"configMapTargetRef": [entry()]}, {"password": "public team"}),
    ("variable", {"env": [{"parameter": "username", "name": "USER"}]}, {"username": "bob"}),
    (
        "variable of another container",
        {"env": [{"parameter": "username", "name": "USER", "containerName": "side"}]},
        {"username": "eve"},
    ),
    (
        "variable of an optional Secret that does not exist",
        {"env": [{"parameter": "password", "name": "TOKEN", "containerName": "side"}]},
        {"password": ""},
    ),
    (
        "token of a service account",
        {"boundServiceAccountToken": [{"parameter": "token", "serviceAccountName": "reader"}]},
        {"token": "jwt-of-reader"},
    ),
    (
        "client credentials",
        {
            "oauth2": {
                "type": "clientCredentials",
                "clientId": "me",
                "clientSecret": {"valueFrom": {"secretKeyRef": {"name": "login", "key": "pw"}}},
                "tokenUrl": "https://token",
                "scopes": ["a", "b"],
                "tokenUrlParams": {"audience": "x y"},
            }
        },
        {
            "clientID": "me",
            "clientSecret": "hunter2",
            "oauthTokenURI": "https://token",
            "scopes": "a,b",
            "endpointParams": "audience=x+y",
        },
    ),
    (
        "the later field wins",
        {
            "env": [{"parameter": "password", "name": "USER"}],
            "configMapTargetRef": [entry(), entry("host")],
            "secretTargetRef": [entry()],
        },
        {"password": "hunter2", "host": "public team"},
    ),
    ("no pod identity", {"podIdentity": {"provider": "none"}}, {}),
)
async def test_fields_supply_parameters(spec: Object, supplied: dict[str, str], cluster: Cluster) -> None:
    cluster.authentication(**spec)
    assert await resolve(cluster) == supplied


async def test_one_of_the_cluster_reads_in_our_own_namespace_but_the_workloads_environment(cluster: Cluster) -> None:
    cluster.authentication(
        namespace="",
        secretTargetRef=[entry()],
        configMapTargetRef=[entry("host")],
        env=[{"parameter": "username", "name": "USER"}],
    )
    assert await resolve(cluster, OWN) == {"password": "swordfish", "host": "public penstock", "username": "bob"}


async def test_two_of_one_name_are_told_apart_by_their_kind(cluster: Cluster) -> None:
    cluster.authentication(secretTargetRef=[entry()])
    cluster.authentication(namespace="", secretTargetRef=[entry()])
    assert await resolve(cluster, {**TEAM, "kind": "TriggerAuthentication"}) == {"password": "hunter2"}
    assert await resolve(cluster, OWN) == {"password": "swordfish"}


VAULT = {"address": "http://127.0.0.1:1", "secrets": []}
MISSING: dict[str, tuple[Object, str]] = {
    "no such Secret": ({"secretTargetRef": [entry(name="x")]}, "secretTargetRef[0]: Secret team/x does not exist"),
    "no such key": (
        {"secretTargetRef": [entry(), entry(key="pin")]},
        "secretTargetRef[1]: Secret team/login has no key pin",
    ),
    "no such ConfigMap": (
        {"configMapTargetRef": [entry(name="nope")]},
        "configMapTargetRef[0]: ConfigMap team/nope does not exist",
    ),
    "no such variable": (
        {"env": [{"parameter": "username", "name": "NOBODY"}]},
        "env[0]: the container does not set NOBODY, or only once it runs",
    ),
    "no such container": (
        {"env": [{"parameter": "username", "name": "USER", "containerName": "x"}]},
        "env[0]: envSourceContainerName: no container x; there are main, side",
    ),
    "no such service account": (
        {"boundServiceAccountToken": [{"parameter": "t", "serviceAccountName": "nope"}]},
        "boundServiceAccountToken[0]: ServiceAccount team/nope does not exist",
    ),
    "a file": ({"filePath": "x.json"}, "filePath: is for a ClusterTriggerAuthentication only"),
    "a listed file": (
        {"filePath": [{"parameter": "apiKey", "path": "x"}]},
        "filePath: is for a ClusterTriggerAuthentication only",
    ),
    "Azure's vault": ({"azureKeyVault": {"vaultURI": "x"}}, "azureKeyVault: is not supported"),
    "Google's secrets": ({"gcpSecretManager": {"secrets": []}}, "gcpSecretManager: is not supported"),
    "Amazon's secrets": ({"awsSecretManager": {"secrets": []}}, "awsSecretManager: is not supported"),
    **{
        provider: (
            {"podIdentity": {"provider": provider}},
            f"podIdentity.provider: {provider} is not supported, only none is",
        )
        for provider in ("azure-workload", "gcp", "aws", "aws-eks")
    },
    "no Vault token": (
        {"hashiCorpVault": {**VAULT, "authentication": "token", "secrets": [entry() | {"path": "kv/x"}]}},
        "hashiCorpVault: credential.token is required with authentication token",
    ),
}


@cases(MISSING)
async def test_what_is_missing_is_named(spec: Object, message: str, cluster: Cluster) -> None:
    cluster.authentication(**spec)
    with pytest.raises(UserError) as refused:
        await resolve(cluster)
    assert str(refused.value) == f"TriggerAuthentication team/login: spec.{message}"


async def test_all_that_is_missing_is_named_at_once(cluster: Cluster) -> None:
    both = {**MISSING["no such ConfigMap"][0], **MISSING["no such variable"][0]}
    cluster.authentication(**both)
    with pytest.raises(UserError) as refused:
        await resolve(cluster)
    messages = [MISSING[name][1] for name in ("no such variable", "no such ConfigMap")]
    assert str(refused.value) == f"TriggerAuthentication team/login: spec.{'; spec.'.join(messages)}"


@pytest.mark.parametrize("name", [name for name in MISSING if name.startswith("no such")])
async def test_kedas_way_supplies_an_empty_text(cluster: Cluster, name: str) -> None:
    spec = MISSING[name][0]
    cluster.authentication(**spec)
    [entries] = spec.values()
    supplied = await resolve(cluster, lenient=True)
    assert supplied[entries[-1]["parameter"]] == ""
    assert await resolve(cluster, {"name": "nope"}, lenient=True) == {}


@cases(
    ("namespace", {"name": "nope"}, "authenticationRef: TriggerAuthentication team/nope does not exist"),
    ("cluster", OWN, "authenticationRef: ClusterTriggerAuthentication login does not exist"),
    (
        "kind",
        {"name": "login", "kind": "Secret"},
        "authenticationRef.kind: must be TriggerAuthentication or ClusterTriggerAuthentication, not Secret",
    ),
)
async def test_a_reference_that_leads_nowhere_is_named(reference: Object, message: str, cluster: Cluster) -> None:
    with pytest.raises(UserError) as refused:
        await resolve(cluster, reference)
    assert str(refused.value) == message


async def test_a_malformed_authentication_is_named_with_its_field(cluster: Cluster) -> None:
    cluster.authentication(secretTargetRef=[{"parameter": "password"}])
    with pytest.raises(UserError, match=r"^TriggerAuthentication team/login: spec\.secretTargetRef\[0\]\.name"):
        await resolve(cluster)


@cases(
    ("away", Unavailable("the API server is away"), Unreachable),
    ("forbidden", Forbidden("may not read secrets", status=403), UserError),
)
async def test_a_cluster_that_does_not_answer_is_told_from_one_that_refuses(
    down: Any, kind: type[Exception], cluster: Cluster
) -> None:
    cluster.down = down
    with pytest.raises(kind, match=f"^TriggerAuthentication team/login: {down}$"):
        await resolve(cluster)


async def test_restricted_access_is_to_secrets_of_our_own_namespace(cluster: Cluster) -> None:
    cluster.authentication(secretTargetRef=[entry()])
    cluster.authentication(namespace="", secretTargetRef=[entry()])
    restriction: Any = {"own_namespace": "penstock", "restricted": True}
    with pytest.raises(UserError, match="Secret team/login may not be read: only Secrets of namespace penstock are"):
        await resolve(cluster, **restriction)
    assert Ref(SECRET, "team", "login") not in cluster.asked
    assert await resolve(cluster, OWN, **restriction) == {"password": "swordfish"}


# Files


async def test_a_file_replaces_everything_else(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "auth.json").write_text(json.dumps({"username": "bob"}))
    cluster.authentication(namespace="", filePath="deep/auth.json", secretTargetRef=[entry()])
    assert await resolve(cluster, OWN, folder=tmp_path) == {"username": "bob"}


async def test_a_list_of_files_supplies_a_text_each_between_variables_and_config_maps(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("of-the-file\n")
    paths = [{"parameter": name, "path": "key"} for name in ("apiKey", "username", "password")]
    variable = {"parameter": "username", "name": "USER"}
    cluster.authentication(namespace="", filePath=paths, env=[variable], configMapTargetRef=[entry()])
    supplied = {"apiKey": "of-the-file", "username": "of-the-file", "password": "public penstock"}
    assert await resolve(cluster, OWN, folder=tmp_path) == supplied


@for_each(("../x", "filePath[0]: ../x must be relative and without .."), ("odd", "filePath[0]: odd is not a text"))
async def test_a_listed_file_that_will_not_do_is_named(
    path: str, message: str, cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "odd").write_bytes(b"\xff")
    cluster.authentication(namespace="", filePath=[{"parameter": "apiKey", "path": path}])
    with pytest.raises(UserError, match=rf"spec\.{re.escape(message)}$"):
        await resolve(cluster, OWN, folder=tmp_path)


async def test_links_within_the_folder_are_followed_as_kubernetes_mounts_secrets(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "auth.json").write_text('{"username": "bob"}')
    (tmp_path / "auth.json").symlink_to("..2026/auth.json")
    cluster.authentication(namespace="", filePath="auth.json")
    assert await resolve(cluster, OWN, folder=tmp_path) == {"username": "bob"}


@cases(
    ("up", "../x.json", "{}", "../x.json must be relative and without .."),
    ("absolute", "/etc/passwd", "{}", "/etc/passwd must be relative and without .."),
    ("link that leads out", "out", None, "out leads out of the folder for such files"),
    ("missing", "nope.json", None, "nope.json cannot be read: No such file or directory"),
    ("no JSON", "x.json", "hunter2", "x.json is not JSON"),
    ("no object", "x.json", '["hunter2"]', "x.json is not a JSON object of texts"),
    ("no text", "x.json", '{"hunter2": 5}', "x.json is not a JSON object of texts"),
    ("too large", "x.json", " " * (1 << 20) + "{}", "x.json is larger than 1 MiB"),
)
async def test_a_file_that_will_not_do_is_named_and_not_quoted(
    path: str, content: str | None, message: str, cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "out").symlink_to("/etc/hostname")
    if content is not None and path == "x.json":
        (folder / path).write_text(content)
    cluster.authentication(namespace="", filePath=path)
    with pytest.raises(UserError) as refused:
        await resolve(cluster, OWN, folder=folder)
    assert str(refused.value) == f"ClusterTriggerAuthentication login: spec.filePath: {message}"


async def test_without_a_folder_no_file_is_read(cluster: Cluster) -> None:
    cluster.authentication(namespace="", filePath="x.json")
    with pytest.raises(UserError, match=r"no folder for such files is set \(PENSTOCK_AUTH_FOLDER\)"):
        await resolve(cluster, OWN)


# Hiding and remembering


async def test_no_text_of_what_is_supplied_shows_a_secret(cluster: Cluster) -> None:
    cluster.authentication(secretTargetRef=[entry()])
    lookups = cluster.lookups()
    supplied = await Authenticator().parameters(TEAM, Workload("team"), lookups.view())
    assert supplied["password"] == "hunter2"
    assert "hunter2" not in f"{supplied} {supplied!r} {lookups.cache._answers!r}"
    assert repr(supplied) == "Hidden(password)"


async def test_what_was_read_is_used_for_a_while_and_what_failed_is_not(cluster: Cluster) -> None:
    cluster.authentication(secretTargetRef=[entry(), entry("second", "other")])
    authenticator, lookups = Authenticator(), cluster.lookups(seconds=30)

    async def resolve() -> Hidden:
        return await authenticator.parameters(TEAM, Workload("team"), lookups.view())

    with pytest.raises(UserError, match="Secret team/other does not exist"):
        await resolve()
    cluster.secret("other", pw="new")
    assert await resolve() == {"password": "hunter2", "second": "new"}
    asked = len(cluster.asked)
    cluster.secret("login", pw="changed")
    cluster.now += 29
    assert await resolve() == {"password": "hunter2", "second": "new"}
    assert len(cluster.asked) == asked
    cluster.now += 2
    assert await resolve() == {"password": "changed", "second": "new"}
