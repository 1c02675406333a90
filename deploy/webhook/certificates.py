"""Certificates of the webhook: each of an authority that signs this one certificate and is forgotten."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from deploy.certificate_authority import Authority

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
    # Two authorities in one bundle are told apart by their names.
    authority = Authority(f"{_NAME} {now:%Y-%m-%dT%H:%M:%SZ}", now - _SKEW, now + LIFETIME)
    own = authority.sign(_NAME, names)
    return WebhookCertificate(authority.certificate, own.certificate, own.key)


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
