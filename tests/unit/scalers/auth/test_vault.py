"""Secrets of a HashiCorp Vault server: a small one on loopback that answers as Vault does."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scalers.auth.secret_text import Hidden
from scalers.auth.vault import LARGEST, VaultError, Vaults
from scalers.ttl_cache import EVER
from tests.support.servers import answering
from tests.support.tables import cases
from tests.unit.scalers.cluster import Cluster
from workers.api.keda.triggerauthentication import Vault
from workers.errors import UserError

TOKEN, JWT = "s.hunter2", "jwt-of-reader"
KV1 = {"data": {"pw": "one", "number": 5}}
KV2 = {"data": {"data": {"pw": "two"}, "metadata": {"version": 3}}}


@dataclass
class Server:
    """secrets: answers by path. valid: tokens it accepts. asked: method and path of each request."""

    url: str = ""
    secrets: dict[str, Any] = field(default_factory=lambda: {"kv1/login": KV1, "kv2/data/login": KV2})
    valid: set[str] = field(default_factory=lambda: {TOKEN})
    asked: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    namespaces: list[str | None] = field(default_factory=list)
    logins: int = 0
    issued: int = 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path.removeprefix("/v1/")
        self.asked.append(f"{request.method} {path}")
        self.namespaces.append(request.headers.get("X-Vault-Namespace"))
        if request.method == "POST":
            self.bodies.append(await request.json())
        if path == "auth/k8s/login":
            return self._login()
        if request.headers.get("X-Vault-Token") not in self.valid:
            return web.json_response({"errors": ["permission denied"]}, status=403)
        if path == "pki/issue/web" and request.method == "POST":
            self.issued += 1
            data = {"certificate": f"cert-{self.issued}", "private_key": f"key-{self.issued}", "ca_chain": ["a", "b"]}
            return web.json_response({"lease_duration": 0, "data": {**data, "expiration": 1_000_000 + 2000}})
        if path == "elsewhere":
            raise web.HTTPFound(f"{self.url}/v1/kv1/login")
        if path not in self.secrets:
            return web.json_response({"errors": []}, status=404)
        return web.json_response(self.secrets[path])

    def _login(self) -> web.Response:
        if self.bodies[-1] != {"jwt": JWT, "role": "reader"}:
            return web.json_response({"errors": ["invalid role or token"]}, status=400)
        self.logins += 1
        self.valid = {f"login-{self.logins}"}
        return web.json_response({"auth": {"client_token": f"login-{self.logins}", "lease_duration": 600}})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    async with answering(server.answer) as server.url:
        yield server


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(accounts={"reader": JWT})


def secret(parameter: str = "password", path: str = "kv1/login", key: str = "pw", **more: Any) -> dict[str, Any]:
    return {"parameter": parameter, "path": path, "key": key, **more}


def vault(server: Server, *secrets: dict[str, Any], **fields: Any) -> Vault:
    body = {"address": server.url, "authentication": "token", "credential": {"token": TOKEN}, "secrets": list(secrets)}
    return Vault.model_validate(body | fields)


KUBERNETES = {"authentication": "kubernetes", "mount": "k8s", "role": "reader"}
NAMED = {**KUBERNETES, "credential": {"serviceAccountName": "reader"}}


async def read(vault: Vault, cluster: Cluster, lookups: Any = None, *, since: float = EVER, **options: Any) -> Hidden:
    vaults = Vaults(clock=lambda: 1_000_000.0, **options)
    try:
        return await vaults.read(vault, "team", (lookups or cluster.lookups()).view(since))
    finally:
        await vaults.close()


@cases(
    ("version 1, as it looks", {}, "one"),
    ("version 2, as it looks", {"path": "kv2/data/login"}, "two"),
    ("version 1", {"type": "secret"}, "one"),
    ("version 2", {"path": "kv2/data/login", "type": "secretV2"}, "two"),
    ("slashes around the path", {"path": "/kv1/login/"}, "one"),
)
async def test_a_key_of_a_secret_is_read(fields: Any, text: str, server: Server, cluster: Cluster) -> None:
    assert await read(vault(server, secret(**fields)), cluster) == {"password": text}


async def test_vaults_own_namespace_is_sent(server: Server, cluster: Cluster) -> None:
    await read(vault(server, secret(), namespace="ns1"), cluster)
    await read(vault(server, secret()), cluster)
    assert server.namespaces == ["ns1", None]


async def test_parameters_of_one_path_are_one_request(server: Server, cluster: Cluster) -> None:
    await read(vault(server, secret(), secret("again"), secret("other", "kv2/data/login")), cluster)
    assert server.asked == ["GET kv1/login", "GET kv2/data/login"]


async def test_a_certificate_and_its_key_come_from_one_issue(server: Server, cluster: Cluster) -> None:
    def pki(key: str) -> dict[str, Any]:
        return secret(key, "pki/issue/web", key, type="pki", pkiData={"commonName": "a.b", "ipSans": "10.0.0.1"})

    asked = vault(server, pki("certificate"), pki("private_key"), pki("ca_chain"))
    lookups = cluster.lookups()
    first = {"certificate": "cert-1", "private_key": "key-1", "ca_chain": "a\nb"}
    assert await read(asked, cluster, lookups) == first
    assert server.bodies == [{"common_name": "a.b", "ip_sans": "10.0.0.1"}]
    cluster.now += 999
    assert await read(asked, cluster, lookups) == first, "for half its life"
    assert await read(asked, cluster, lookups, since=cluster.now - 1000) == first, "whatever failed just after"
    cluster.now += 2
    assert (await read(asked, cluster, lookups))["certificate"] == "cert-2"
    assert (await read(asked, cluster, lookups, since=cluster.now + 29))["certificate"] == "cert-2"
    cluster.now += 31
    assert (await read(asked, cluster, lookups, since=cluster.now))["certificate"] == "cert-3", "it may be what failed"


@cases(
    ("key", {"key": "pin"}, "kv1/login: has no key pin"),
    ("number", {"key": "number"}, "kv1/login: key number is not a text"),
    ("wrong version", {"type": "secretV2"}, "kv1/login: is no secret of a key-value store of version 2"),
)
async def test_what_a_secret_lacks_is_named(fields: Any, message: str, server: Server, cluster: Cluster) -> None:
    with pytest.raises(UserError) as refused:
        await read(vault(server, secret(**fields)), cluster)
    assert str(refused.value) == message


@cases(
    ("no such path", "nope", TOKEN, "404 no reason given", False),
    ("refused", "kv1/login", "wrong-hunter", "403 permission denied", False),
    ("redirected: the token is not sent on", "elsewhere", TOKEN, "302 no reason given", False),
)
async def test_a_refusal_is_in_vaults_words(
    path: str, token: str, message: str, transient: bool, server: Server, cluster: Cluster
) -> None:
    with pytest.raises(VaultError) as refused:
        await read(vault(server, secret(path=path), credential={"token": token}), cluster)
    assert str(refused.value) == f"GET {server.url}/v1/{path}: {message}"
    assert refused.value.transient == transient
    assert token not in str(refused.value)
    assert len(server.asked) == 1


async def test_an_answer_without_end_is_not_read(server: Server, cluster: Cluster) -> None:
    server.secrets["kv1/login"] = {"data": {"pw": "x" * LARGEST}}
    with pytest.raises(VaultError, match="the answer is larger than 4 MiB"):
        await read(vault(server, secret()), cluster)


async def test_a_server_that_is_not_there_may_be_back(cluster: Cluster) -> None:
    with pytest.raises(VaultError, match=r"127\.0\.0\.1:1") as refused:
        await read(vault(Server("http://127.0.0.1:1"), secret()), cluster)
    assert refused.value.transient


async def test_an_address_that_is_none_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(VaultError, match="vault:8200"):
        await read(vault(Server("vault:8200"), secret()), cluster)


async def test_an_address_with_credentials_is_refused_and_not_quoted(cluster: Cluster) -> None:
    with pytest.raises(UserError, match=r"^address must hold no credentials$"):
        await read(vault(Server("https://me:hunter2@vault:8200"), secret()), cluster)


async def test_a_service_account_logs_in_once(server: Server, cluster: Cluster) -> None:
    lookups = cluster.lookups()
    for _ in range(2):
        assert await read(vault(server, secret(), **NAMED), cluster, lookups) == {"password": "one"}
    assert (server.logins, len(server.asked)) == (1, 2)
    cluster.now += 301
    await read(vault(server, secret(), **NAMED), cluster, lookups)
    assert server.logins == 2, "before the login ends"


async def test_a_login_that_ended_early_is_made_anew(server: Server, cluster: Cluster) -> None:
    lookups = cluster.lookups(seconds=1)
    await read(vault(server, secret(), **NAMED), cluster, lookups)
    server.valid = set()
    cluster.now += 2
    assert await read(vault(server, secret(), **NAMED), cluster, lookups) == {"password": "one"}
    assert server.logins == 2


async def test_two_identities_never_share_an_answer(server: Server, cluster: Cluster) -> None:
    lookups = cluster.lookups()
    await read(vault(server, secret()), cluster, lookups)
    with pytest.raises(VaultError, match="403"):
        await read(vault(server, secret(), credential={"token": "another"}), cluster, lookups)


@cases(
    ("role", {**NAMED, "role": ""}, "role is required with authentication kubernetes"),
    ("mount", {**NAMED, "mount": None}, "mount is required with authentication kubernetes"),
    (
        "account",
        {**KUBERNETES, "credential": {"serviceAccountName": "nope"}},
        "credential.serviceAccountName: there is no ServiceAccount team/nope",
    ),
    ("token", {"credential": None}, "credential.token is required with authentication token"),
)
async def test_what_a_login_lacks_is_named(fields: Any, message: str, server: Server, cluster: Cluster) -> None:
    with pytest.raises(UserError) as refused:
        await read(vault(server, secret(), **fields), cluster)
    assert str(refused.value) == message
    assert server.asked == []


# What is this process's own


async def test_our_own_token_comes_first_at_a_server_that_may_see_it(
    server: Server, cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    asked = vault(server, secret(), credential={"token": "another"})
    own: Any = {"token_file": tmp_path / "token", "servers": (f"{server.url}/",)}
    assert await read(asked, cluster, **own) == {"password": "one"}


async def test_our_own_token_is_shown_to_no_other_server(server: Server, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    own: Any = {"token_file": tmp_path / "token", "servers": ("https://vault",)}
    with pytest.raises(UserError, match=r"credential\.token is required"):
        await read(vault(server, secret(), credential=None), cluster, **own)
    assert server.asked == []


async def test_our_own_account_logs_in_at_a_server_that_may_see_it(
    server: Server, cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "jwt").write_text(JWT)
    asked = vault(server, secret(), **KUBERNETES, credential=None)
    own: Any = {"account": tmp_path / "jwt"}
    assert await read(asked, cluster, **own, servers=(server.url,)) == {"password": "one"}
    before = len(server.asked)
    with pytest.raises(UserError, match=r"may not be shown this process's own account \(PENSTOCK_VAULT_SERVERS\)"):
        await read(asked, cluster, **own)
    assert len(server.asked) == before


async def test_no_other_file_of_ours_is_sent_to_a_server(server: Server, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("hunter2")
    asked = vault(server, secret(), **{**KUBERNETES, "credential": {"serviceAccount": str(tmp_path / "private")}})
    with pytest.raises(UserError, match="serviceAccountName names another account"):
        await read(asked, cluster, servers=(server.url,))
    assert server.asked == []
