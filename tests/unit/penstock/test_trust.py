"""Whom clients trust: the authorities that Go's clients trust, with every version of Python."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from redis.asyncio import SSLConnection

from penstock._trust import client_context
from scalers.sources.tls import TLS
from scheduler.broker.address import BrokerTLS
from tests.support.tables import for_each
from workers.client.tls_files import TlsContexts, TlsSources

NAME = "server.example"
KEY = ec.generate_private_key(ec.SECP256R1())


def named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def signed(subject: str, issuer: str, *extensions: x509.ExtensionType) -> str:
    """A certificate with neither a key usage nor identifiers of keys, as short recipes for openssl make them."""
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(named(issuer), named(subject), KEY.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


AUTHORITY = x509.BasicConstraints(ca=True, path_length=None)
SERVER = x509.SubjectAlternativeName([x509.DNSName(NAME)])
ROOT, INTERMEDIATE = signed("root", "root", AUTHORITY), signed("intermediate", "root", AUTHORITY)
#: The authority that a client is given, and the certificate that its server shows.
CASES = {
    "a root without a key usage": (ROOT, signed(NAME, "root", SERVER)),
    "an intermediate alone": (INTERMEDIATE, signed(NAME, "intermediate", SERVER)),
}


def of_a_trigger(authority: Path) -> ssl.SSLContext:
    return TLS(authority.read_text()).context()


def of_the_api_server(authority: Path) -> ssl.SSLContext:
    return TlsContexts(TlsSources(authority=authority)).current()


def of_the_broker(authority: Path) -> ssl.SSLContext:
    return SSLConnection(**BrokerTLS(ca=str(authority)).options()).ssl_context.get()


def of_a_file(authority: Path) -> ssl.SSLContext:
    return client_context(cafile=str(authority))


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts begin as strict as Python 3.13 makes them."""
    made = ssl.create_default_context

    def stricter(*args: object, **options: object) -> ssl.SSLContext:
        context = made(*args, **options)  # type: ignore[arg-type]
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", stricter)


def shake_hands(client: ssl.SSLContext, certificate: str, folder: Path) -> None:
    """Both sides of a handshake in memory. Raises SSLError if the client does not trust the server."""
    file = folder / "server.pem"
    private = KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_text(certificate + private.decode())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(back, there, server_hostname=NAME),
        server.wrap_bio(there, back, server_side=True),
    ]
    while sides:
        for side in tuple(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)


@for_each(of_a_trigger, of_the_api_server, of_the_broker, of_a_file)
@for_each(*CASES)
@pytest.mark.usefixtures("strict")
def test_an_authority_that_go_trusts_is_trusted(
    case: str, context: Callable[[Path], ssl.SSLContext], tmp_path: Path
) -> None:
    authority, certificate = CASES[case]
    file = tmp_path / "authority.pem"
    file.write_text(authority)
    shake_hands(context(file), certificate, tmp_path)


@for_each(*CASES)
def test_a_server_of_another_authority_is_not_trusted(case: str, tmp_path: Path) -> None:
    others = signed("others", "others", AUTHORITY)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client_context(cadata=others), CASES[case][1], tmp_path)
