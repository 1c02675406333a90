"""The certificate that a server shows, for clients that are to trust it whatever it is."""

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any

from scalers.sources.tls import TLS


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """pem: as a text. name: one that it is valid for."""

    pem: str
    name: str


async def shown(place: str, tls: TLS) -> ServerCertificate:
    """What the server at ``host:port`` shows. Raises OSError, and ValueError for a certificate that names nobody.

    Two connections: only of a certificate that is trusted does the ssl module tell the names.
    """
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    found = await _peer(host, int(port), tls.context())
    pem = ssl.DER_cert_to_PEM_cert(found.getpeercert(binary_form=True) or b"")
    trusting = ssl.create_default_context(cadata=pem)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return ServerCertificate(pem, _name((await _peer(host, int(port), trusting)).getpeercert() or {}))


async def _peer(host: str, port: int, context: ssl.SSLContext) -> ssl.SSLObject:
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        found: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return found
    finally:
        writer.close()


def _name(told: Any) -> str:
    names = [name for kind, name in told.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    common = [text for part in told.get("subject", ()) for key, text in part if key == "commonName"]
    if not names and not common:
        raise ValueError("the server's certificate names nobody")
    return str((names or common)[0]).replace("*", "any", 1)
