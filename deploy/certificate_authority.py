"""Self-made X.509 certificates, each signed by an authority whose private key never leaves the process.

Keys are on the curve P-256, signatures ECDSA with SHA-256.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True, slots=True, repr=False)
class Signed:
    """PEM texts: a certificate, and its private key (PKCS 8)."""

    certificate: str
    key: str


class Authority:
    """An authority of one name; only this object holds its key. Certificates that it signs expire when it does."""

    def __init__(self, name: str, begin: datetime, end: datetime) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name, self._begin, self._end = _common_name(name), begin, end
        basic = x509.BasicConstraints(ca=True, path_length=0)
        self.certificate = _pem(self._sign(self._name, self._key.public_key(), basic, _usage(signs_certificates=True)))

    def sign(self, subject: str, names: Sequence[str] = (), purpose: x509.ObjectIdentifier = SERVER) -> Signed:
        """Returns a certificate with a new key. names: the DNS names and IP addresses that it is valid for."""
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: list[x509.ExtensionType] = [x509.ExtendedKeyUsage([purpose])]
        if names:
            extensions.append(x509.SubjectAlternativeName([_general_name(name) for name in names]))
        basic, usage = x509.BasicConstraints(ca=False, path_length=None), _usage(signs_certificates=False)
        signed = self._sign(_common_name(subject), key.public_key(), basic, usage, *extensions)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Signed(_pem(signed), private.decode())

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        basic: x509.BasicConstraints,
        usage: x509.KeyUsage,
        *extensions: x509.ExtensionType,
    ) -> x509.Certificate:
        own = self._key.public_key()
        identifiers = (
            x509.SubjectKeyIdentifier.from_public_key(key),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(own),
        )
        builder = (
            x509.CertificateBuilder(subject_name=subject, issuer_name=self._name, public_key=key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._begin)
            .not_valid_after(self._end)
            .add_extension(basic, critical=True)
            .add_extension(usage, critical=True)
        )
        for extension in (*extensions, *identifiers):
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


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


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
