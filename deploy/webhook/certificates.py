"""Certificates of the webhook: each of an authority that signs this one certificate and is forgotten."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: How long a certificate is good for.
LIFETIME = timedelta(days=90)
#: Clocks of other machines may be behind by so much.
_SKEW = timedelta(hours=1)
_NAME = "penstock webhook"


@dataclass(frozen=True, slots=True, repr=False)
class WebhookCertificate:
    """PEM texts: what clients trust, what the server shows, and its private key."""

    authority: str
    certificate: str
    key: str


def make(names: Sequence[str], now: datetime) -> WebhookCertificate:
    """A new certificate for these names and addresses, and an authority of its own."""
    begin, end = now - _SKEW, now + LIFETIME
    root, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    # Two authorities in one bundle are told apart by their names.
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_NAME} {now:%Y-%m-%dT%H:%M:%SZ}")])
    authority = (
        _builder(issuer, issuer, root.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(root.public_key()), critical=False)
        .sign(root, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    certificate = (
        _builder(subject, issuer, own.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key()), critical=False)
        .sign(root, hashes.SHA256())
    )
    private = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return WebhookCertificate(_pem(authority), _pem(certificate), private.decode())


@dataclass(frozen=True, slots=True)
class Validity:
    """From when until when a certificate is good, and for which names and addresses."""

    begin: datetime
    end: datetime
    names: frozenset[str]


def validity(pem: str) -> Validity:
    """What a certificate says of itself. Raises ValueError for a text that is none."""
    found = x509.load_pem_x509_certificate(pem.encode())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Validity(found.not_valid_before_utc, found.not_valid_after_utc, frozenset())
    texts = frozenset(str(name.value) for name in names)
    return Validity(found.not_valid_before_utc, found.not_valid_after_utc, texts)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
