"""The gateway of `penstock up`: where it listens, and what is told of it."""

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from deploy.cli import options
from deploy.local import up
from deploy.local.parts import UpOptions, plan
from deploy.processes.gateway import CertificateFiles
from tests.support.certificates import certificates
from tests.support.ports import free_port
from tests.support.tables import for_each
from workers.errors import UserError


def wanted(home: Path, **flags: Any) -> UpOptions:
    return UpOptions(options.load({"home": str(home), **flags}))


def test_it_listens_on_loopback_on_the_port_of_the_last_run(tmp_path: Path) -> None:
    host, _, port = up.gateway_address(wanted(tmp_path)).rpartition(":")
    assert host == "127.0.0.1"
    assert int(port) > 0
    last = free_port()
    url = tmp_path / "gateway.url"
    url.write_text(f"http://127.0.0.1:{last}\n")
    url.chmod(0o600)
    assert up.gateway_address(wanted(tmp_path)) == f"127.0.0.1:{last}"


@for_each(
    ({"gateway": "127.0.0.1:81"}, "127.0.0.1:81", "http://127.0.0.1:81"),
    ({"gateway": "0.0.0.0:81"}, "0.0.0.0:81", "http://127.0.0.1:81"),
    ({"gateway": "[::1]:81", "tls_cert": "/c"}, "[::1]:81", "https://[::1]:81"),
)
def test_it_listens_where_it_is_told(flags: dict[str, str], address: str, url: str, tmp_path: Path) -> None:
    found = wanted(tmp_path, **flags)
    assert up.gateway_address(found) == address
    assert up.gateway_url(found.settings, address) == url


def test_it_can_be_left_out(tmp_path: Path) -> None:
    assert not wanted(tmp_path, gateway="off").gateway
    names = [part.name for part in plan(wanted(tmp_path), "redis://h", None, "").processes]
    assert "gateway" not in names
    [part] = [part for part in plan(wanted(tmp_path), "redis://h", None, "h:1").processes if part.name == "gateway"]
    assert part.env["PENSTOCK_GATEWAY"] == "h:1"


@for_each(
    ({"tls_cert": "/c"}, "--tls-cert and --tls-key must come together"),
    ({"client_ca": "/c"}, "--client-ca needs --tls-cert"),
    ({"tls_cert": "/no/such", "tls_key": "/no/such"}, "--tls-cert: /no/such"),
)
def test_certificates_that_cannot_be_used_are_refused(flags: dict[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        CertificateFiles.of(wanted(tmp_path, **flags).settings)


def test_clients_are_asked_for_certificates_where_an_authority_is_named(tmp_path: Path) -> None:
    made = certificates()
    (tmp_path / "tls.crt").write_text(made.server)
    (tmp_path / "tls.key").write_text(made.server_key)
    (tmp_path / "ca.crt").write_text(made.authority)
    both = {"tls_cert": str(tmp_path / "tls.crt"), "tls_key": str(tmp_path / "tls.key")}
    plain = CertificateFiles.of(wanted(tmp_path, **both).settings)
    asking = CertificateFiles.of(wanted(tmp_path, **both, client_ca=str(tmp_path / "ca.crt")).settings)
    assert plain
    assert asking
    assert plain.context().verify_mode == ssl.CERT_NONE
    assert asking.context().verify_mode == ssl.CERT_OPTIONAL
    assert not asking.changed()
    (tmp_path / "ca.crt").write_text(certificates("others").authority)
    assert asking.changed()
    assert not asking.changed()


@for_each(
    ("gateway", "gateway", 0),
    ("health", "worker-1", 0),
    ("health", "beat", 4),
    ("metrics_port", "worker-1", 0),
    ("metrics_port", "scaler-1", 1),
)
def test_an_address_that_another_process_has_is_named_with_its_option(
    option: str, part: str, place: int, tmp_path: Path
) -> None:
    port = free_port()
    flags = {option: str(port - place) if option == "metrics_port" else f"127.0.0.1:{port - place}"}
    found = wanted(tmp_path, **flags)
    planned = plan(found, "redis://h", None, up.gateway_address(found)).processes
    [process] = [each for each in planned if each.name == part]
    says = rf"--{option.replace('_', '-')}: {part} cannot listen on 127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UserError, match=says):
        up.check_addresses([process])
    up.check_addresses([process])
