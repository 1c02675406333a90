"""Who may reach the server, and how much they may send."""

import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3

from deploy.processes.https import HEAD_BYTES
from tests.integration.apiserver.client import DEFINITIONS, Api, config_map
from tests.support.embedded import Embedded, embedded_apiserver
from tests.support.tables import for_each


@for_each(None, "Bearer wrong", "Basic dXNlcjpwYXNz", "Bearer ")
def test_without_the_token_nothing_is_told(header: str | None, ours: Api) -> None:
    headers = {"Authorization": header} if header else {}
    for path in (ours.jobs, "/api", "/openapi/v2", DEFINITIONS, "/nothing"):
        answer = ours.pool.request("GET", f"{ours.url}{path}", headers=headers)
        assert (answer.status, answer.json()["reason"]) == (401, "Unauthorized")
        assert answer.headers["connection"] == "close"


def test_health_is_answered_to_anybody(ours: Api) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        answer = ours.pool.request("GET", f"{ours.url}{path}")
        assert (answer.status, answer.data) == (200, b"ok")


def test_a_check_of_health_that_does_not_exist_is_not_healthy(api: Api) -> None:
    assert api.get("/readyz/ping").code == 200
    assert api.get("/readyz/nope").code == 404


def test_the_certificate_stands_up_to_a_strict_client(embedded: Embedded) -> None:
    strict = ssl.create_default_context(cadata=embedded.authority)
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    with urllib3.PoolManager(ssl_context=strict) as pool:
        assert pool.request("GET", f"{embedded.url}/livez").status == 200
        assert pool.request("GET", f"{embedded.url.replace('127.0.0.1', 'localhost')}/livez").status == 200


def test_a_client_with_another_authority_refuses_the_server(embedded: Embedded, tmp_path: Path) -> None:
    with (
        embedded_apiserver(tmp_path / "other") as other,
        urllib3.PoolManager(ca_cert_data=other.authority) as pool,
        pytest.raises(urllib3.exceptions.SSLError),
    ):
        pool.request("GET", f"{embedded.url}/livez", retries=False)


def test_secrets_are_readable_by_their_owner_only(embedded: Embedded) -> None:
    for name in ("kubeconfig", "token", "apiserver.key"):
        mode = stat.S_IMODE((embedded.folder / name).stat().st_mode)
        assert mode == 0o600, name


def test_a_body_over_three_mebibytes_is_refused(ours: Api) -> None:
    body = config_map()
    body["data"]["a"] = "x" * (3 * 1024 * 1024)
    answer = ours("POST", ours.maps, body)
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    chunks = (b"x" * 65536 for _ in range(64))
    headers = {**ours.headers(), "Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    endless = ours.pool.request("POST", f"{ours.url}{ours.maps}", body=chunks, headers=headers, retries=False)
    assert endless.status == 413


def test_headers_without_end_are_refused_before_a_token_is_shown(ours: Api) -> None:
    answer = ours.pool.request("GET", f"{ours.url}/livez", headers={"x": "y" * (HEAD_BYTES + 1)}, retries=False)
    assert answer.status == 431
    assert ours.get("/livez").code == 200


@for_each("0.0.0.0", "::", "192.0.2.1", "localhost.example")
def test_it_listens_on_loopback_only(host: str, tmp_path: Path) -> None:
    folder = str(tmp_path)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "deploy.local.apiserver", "--store", "redis://127.0.0.1:1/0", "--host", host),
            *("--token-file", f"{folder}/token", "--kubeconfig", f"{folder}/kubeconfig", "--logs", folder),
        ],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert f"--host {host}: the embedded API server listens on a loopback address only" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="error: --store: "),
        embedded_apiserver(tmp_path / "own", "redis://127.0.0.1:1/0"),
    ):
        pass
