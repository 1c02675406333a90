"""Certificates for tests of TLS, made with what the embedded API server makes its own with."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from deploy.certificate_authority import CLIENT, Authority


@dataclass(frozen=True, slots=True, repr=False)
class Certificates:
    """PEM texts: an authority, and what it signed for a server on 127.0.0.1 and for a client."""

    authority: str
    server: str
    server_key: str
    client: str
    client_key: str


@lru_cache(maxsize=4)
def certificates(name: str = "tests") -> Certificates:
    """The certificates of one authority; made once per name."""
    begin = datetime.now(UTC) - timedelta(hours=1)
    authority = Authority(name, begin, begin + timedelta(days=2))
    server, client = authority.sign("server", ["127.0.0.1"]), authority.sign("client", purpose=CLIENT)
    return Certificates(authority.certificate, server.certificate, server.key, client.certificate, client.key)
