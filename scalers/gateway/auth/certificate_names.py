"""The names in client certificates, whose chain the server's TLS has verified. Pure."""

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.x509.oid import NameOID

from workers.api.penstock_dev.push_settings import ClientCertificate


@dataclass(frozen=True, slots=True)
class CertificateNames:
    """The names that one certificate vouches for, and the time in which it does.

    common_name: None if the subject has none, or several.
    """

    common_name: str | None
    dns_names: frozenset[str]
    uris: frozenset[str]
    begin: datetime
    end: datetime

    def matches(self, wanted: ClientCertificate, now: datetime) -> bool:
        """Returns true if the certificate is valid now and has the wanted name. A wildcard stands for itself only."""
        if not self.begin <= now <= self.end:
            return False
        if wanted.common_name is not None:
            return wanted.common_name == self.common_name
        if wanted.dns_name is not None:
            return wanted.dns_name.lower() in self.dns_names
        return wanted.uri in self.uris


def names_of(certificate: bytes) -> CertificateNames | None:
    """Returns the names in a certificate (DER), None if it cannot be read."""
    try:
        read = x509.load_der_x509_certificate(certificate)
        common = read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        dns, uris = _alternatives(read)
        name = str(common[0].value) if len(common) == 1 else None
        return CertificateNames(name, dns, uris, read.not_valid_before_utc, read.not_valid_after_utc)
    except ValueError:
        return None


def _alternatives(certificate: x509.Certificate) -> tuple[frozenset[str], frozenset[str]]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset(), frozenset()
    dns = names.get_values_for_type(x509.DNSName)
    return frozenset(name.lower() for name in dns), frozenset(names.get_values_for_type(x509.UniformResourceIdentifier))
