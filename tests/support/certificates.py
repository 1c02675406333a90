"""Certificates for tests of TLS, made with what the embedded API server makes its own with."""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from deploy.local.apiserver.http.certificate import Key, _bits, _certificate, _der, _extension, _oid, _sequence

_BASIC, _USAGE, _EXTENDED, _NAMES = "2.5.29.19", "2.5.29.15", "2.5.29.37", "2.5.29.17"
_SERVER, _CLIENT = "1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"


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
    authority, server, client = Key.make(), Key.make(), Key.make()
    root = [
        _extension(_BASIC, _sequence(_der(0x01, b"\xff")), critical=True),
        _extension(_USAGE, _bits(b"\x06", 1), critical=True),
    ]
    loopback = _extension(_NAMES, _sequence(_der(0x87, ip_address("127.0.0.1").packed)))
    return Certificates(
        _certificate(name, authority, name, authority, 2, root),
        _certificate("server", server, name, authority, 2, [*_leaf(_SERVER), loopback]),
        server.pem,
        _certificate("client", client, name, authority, 2, _leaf(_CLIENT)),
        client.pem,
    )


def _leaf(purpose: str) -> list[bytes]:
    return [
        _extension(_BASIC, _sequence(), critical=True),
        _extension(_USAGE, _bits(b"\x80", 7), critical=True),
        _extension(_EXTENDED, _sequence(_oid(purpose))),
    ]
