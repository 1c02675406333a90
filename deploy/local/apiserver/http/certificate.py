"""A certificate authority of one, made here: kubectl sends its token over TLS only.

Keys are on the curve P-256, signatures ECDSA with SHA-256, certificates X.509 v3 in DER, written with nothing but the
standard library, so that neither an openssl command nor a compiled package is needed. What protects these keys is that
the files are the user's own and the server listens on loopback; signing is not hardened against timing.
"""

import base64
import hashlib
import ipaddress
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deploy.local.apiserver.http.token import write_private

# The curve P-256 (SEC 2, secp256r1): prime, coefficient a = -3, base point and its order.
P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int]


def _add(one: Point | None, other: Point | None) -> Point | None:
    """Sum of two points; None is the point at infinity."""
    if one is None or other is None:
        return one or other
    (x1, y1), (x2, y2) = one, other
    if x1 == x2:
        if (y1 + y2) % P == 0:
            return None
        slope = 3 * (x1 * x1 - 1) * pow(2 * y1, -1, P) % P
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, P) % P
    x = (slope * slope - x1 - x2) % P
    return x, (slope * (x1 - x) - y1) % P


def _times(number: int, point: Point) -> Point:
    """A multiple of a point, by doubling and adding. number: from 1 to N - 1."""
    total: Point | None = None
    step: Point | None = point
    while number:
        if number & 1:
            total = _add(total, step)
        step = _add(step, step)
        number >>= 1
    if total is None:
        raise ValueError("a multiple of the curve's order")
    return total


def _der(tag: int, *parts: bytes) -> bytes:
    """One DER element."""
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, *parts)


def _integer(value: int) -> bytes:
    return _der(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _oid(text: str) -> bytes:
    first, second, *rest = (int(part) for part in text.split("."))
    content = bytearray((40 * first + second,))
    for part in rest:
        digits = [part & 0x7F]
        while part := part >> 7:
            digits.append(0x80 | part & 0x7F)
        content += bytes(reversed(digits))
    return _der(0x06, bytes(content))


def _bits(content: bytes, unused: int = 0) -> bytes:
    return _der(0x03, bytes((unused,)), content)


def _time(instant: datetime) -> bytes:
    # RFC 5280: two-digit years until 2049.
    if instant.year < 2050:
        return _der(0x17, instant.strftime("%y%m%d%H%M%SZ").encode())
    return _der(0x18, instant.strftime("%Y%m%d%H%M%SZ").encode())


def _pem(label: str, content: bytes) -> str:
    text = base64.b64encode(content).decode()
    lines = [text[i : i + 64] for i in range(0, len(text), 64)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))


ECDSA_SHA256 = _sequence(_oid("1.2.840.10045.4.3.2"))
EC_PUBLIC_KEY = _sequence(_oid("1.2.840.10045.2.1"), _oid("1.2.840.10045.3.1.7"))


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """A private key."""

    number: int

    @classmethod
    def make(cls) -> "Key":
        """A new random key."""
        return cls(secrets.randbelow(N - 1) + 1)

    @property
    def point(self) -> bytes:
        """The public key, uncompressed."""
        x, y = _times(self.number, G)
        return b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big")

    @property
    def pem(self) -> str:
        """The key as a PEM text (SEC 1)."""
        curve = _der(0xA0, _oid("1.2.840.10045.3.1.7"))
        private = _der(0x04, self.number.to_bytes(32, "big"))
        return _pem("EC PRIVATE KEY", _sequence(_integer(1), private, curve, _der(0xA1, _bits(self.point))))

    def sign(self, message: bytes) -> bytes:
        """An ECDSA signature, in DER."""
        digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
        while True:
            nonce = secrets.randbelow(N - 1) + 1
            r = _times(nonce, G)[0] % N
            s = pow(nonce, -1, N) * (digest + r * self.number) % N
            if r and s:
                return _sequence(_integer(r), _integer(s))


def _name(common: str) -> bytes:
    return _sequence(_der(0x31, _sequence(_oid("2.5.4.3"), _der(0x0C, common.encode()))))


def _extension(oid: str, value: bytes, *, critical: bool = False) -> bytes:
    flag = _der(0x01, b"\xff") if critical else b""
    return _sequence(_oid(oid), flag, _der(0x04, value))


def _certificate(subject: str, key: Key, issuer: str, by: Key, days: int, extensions: list[bytes]) -> str:
    """A certificate for a key, signed by another, as a PEM text."""
    begin = datetime.now(UTC) - timedelta(hours=1)
    identifier = hashlib.sha1(key.point, usedforsecurity=False).digest()
    authority = hashlib.sha1(by.point, usedforsecurity=False).digest()
    extensions = [
        _extension("2.5.29.14", _der(0x04, identifier)),
        _extension("2.5.29.35", _sequence(_der(0x80, authority))),
        *extensions,
    ]
    content = _sequence(
        _der(0xA0, _integer(2)),
        _integer(secrets.randbits(120) | 1),
        ECDSA_SHA256,
        _name(issuer),
        _sequence(_time(begin), _time(begin + timedelta(days=days))),
        _name(subject),
        _sequence(EC_PUBLIC_KEY, _bits(key.point)),
        _der(0xA3, _sequence(*extensions)),
    )
    return _pem("CERTIFICATE", _sequence(content, ECDSA_SHA256, _bits(by.sign(content))))


@dataclass(frozen=True, slots=True)
class Files:
    """Where the certificates are. authority: what clients trust. certificate and key: what the server shows."""

    authority: Path
    certificate: Path
    key: Path


def ensure(folder: Path, days: int = 3650) -> Files:
    """The certificates of this folder, made when they are not all there.

    The authority's own key is forgotten once it has signed the one certificate, so that nobody can sign more.
    """
    files = Files(folder / "ca.crt", folder / "apiserver.crt", folder / "apiserver.key")
    if all(path.exists() for path in (files.authority, files.certificate, files.key)):
        return files
    authority, server = Key.make(), Key.make()
    ca = "penstock embedded cluster"
    basic, usage, extended, names = "2.5.29.19", "2.5.29.15", "2.5.29.37", "2.5.29.17"
    root = [
        _extension(basic, _sequence(_der(0x01, b"\xff")), critical=True),
        _extension(usage, _bits(b"\x06", 1), critical=True),  # keyCertSign, cRLSign
    ]
    addresses = [_der(0x87, ipaddress.ip_address(text).packed) for text in ("127.0.0.1", "::1")]
    leaf = [
        _extension(basic, _sequence(), critical=True),
        _extension(usage, _bits(b"\x80", 7), critical=True),  # digitalSignature
        _extension(extended, _sequence(_oid("1.3.6.1.5.5.7.3.1"))),  # server authentication
        _extension(names, _sequence(_der(0x82, b"localhost"), *addresses)),
    ]
    write_private(files.key, server.pem)
    write_private(files.certificate, _certificate("localhost", server, ca, authority, days, leaf))
    write_private(files.authority, _certificate(ca, authority, ca, authority, days, root))
    return files
