"""The webhook's certificates, each signed by its own authority, whose key is discarded."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from deploy.certificate_authority import Authority

#: Lifetime of a certificate.
LIFETIME = timedelta(days=90)
#: Tolerated clock skew: certificates begin this long before they are made.
_SKEW = timedelta(hours=1)
_NAME = "penstock webhook"


@dataclass(frozen=True, slots=True, repr=False)
class WebhookCertificate:
    """PEM texts: the authority that clients trust, the server's certificate, and its private key."""

    authority: str
    certificate: str
    key: str


def make(names: Sequence[str], now: datetime) -> WebhookCertificate:
    """Returns a new certificate for these names and addresses, with its own authority."""
    # The time keeps the names of two authorities in one bundle distinct.
    authority = Authority(f"{_NAME} {now:%Y-%m-%dT%H:%M:%SZ}", now - _SKEW, now + LIFETIME)
    own = authority.sign(_NAME, names)
    return WebhookCertificate(authority.certificate, own.certificate, own.key)


@dataclass(frozen=True, slots=True)
class Validity:
    """A certificate's period of validity, and its names and addresses."""

    begin: datetime
    end: datetime
    names: frozenset[str]


def validity(pem: str) -> Validity:
    """Returns a certificate's validity. Raises ValueError if the text is no certificate."""
    found = x509.load_pem_x509_certificate(pem.encode())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Validity(found.not_valid_before_utc, found.not_valid_after_utc, frozenset())
    texts = frozenset(str(name.value) for name in names)
    return Validity(found.not_valid_before_utc, found.not_valid_after_utc, texts)
