"""Signatures of requests as GitHub, Stripe, Slack and Standard Webhooks make them. Pure: the instant is an argument.

| scheme | header | signed |
|---|---|---|
| github | `X-Hub-Signature-256: sha256=<hex>` | the body |
| stripe | `Stripe-Signature: t=<s>,v1=<hex>[,v1=…]` | `<t>.<body>` |
| slack | `X-Slack-Signature: v0=<hex>`, `X-Slack-Request-Timestamp: <s>` | `v0:<timestamp>:<body>` |
| standard-webhooks | `webhook-signature: v1,<base64>[ v1a,<base64>]`, `webhook-id`, `webhook-timestamp: <s>` |
`<id>.<timestamp>.<body>` |

All are HMAC-SHA-256, except `v1a`, which is Ed25519.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from penstock.errors import PenstockError
from workers.api.penstock_dev.push_settings import SignatureScheme

#: Shortest secret, in bytes: a shorter one can be guessed.
SHORTEST = 16
#: Most signatures of one header that are compared: senders send two or three while they replace a secret.
MOST_SIGNATURES = 16


class SignatureRefused(PenstockError):  # noqa: N818 - it is the outcome of a check
    """The signature is missing, malformed, too old or wrong. The text says which, without the signature."""


class SecretUnusable(SignatureRefused):
    """The secret cannot be used for the scheme in any request."""


def verify(
    scheme: SignatureScheme, secret: str, headers: Mapping[str, str], body: bytes, *, now: datetime, tolerance: float
) -> bytes:
    """Returns the signature that the secret has made of the request.

    secret: as the sender shows it; of standard-webhooks `whsec_` and Base64, or the public key as `whpk_` and Base64.
    headers: by lower-case name. tolerance: seconds that the signed timestamp may differ from now. Raises
    SignatureRefused, and SecretUnusable.
    """
    return _SCHEMES[scheme](secret, headers, body, now.timestamp(), tolerance)


def _github(secret: str, headers: Mapping[str, str], body: bytes, _now: float, _tolerance: float) -> bytes:
    given = _header(headers, "x-hub-signature-256")
    if not given.startswith("sha256="):
        raise SignatureRefused("X-Hub-Signature-256 does not begin with sha256=")
    return _matching(_hmac(_key(secret), body), [_hex(given.removeprefix("sha256="))])


def _stripe(secret: str, headers: Mapping[str, str], body: bytes, now: float, tolerance: float) -> bytes:
    parts = [part.strip().partition("=") for part in _header(headers, "stripe-signature").split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1:
        raise SignatureRefused("Stripe-Signature has not exactly one timestamp")
    _recent(times[0], now, tolerance, "Stripe-Signature")
    expected = _hmac(_key(secret), times[0].encode() + b"." + body)
    return _matching(expected, [_hex(value) for name, _, value in parts if name == "v1"])


def _slack(secret: str, headers: Mapping[str, str], body: bytes, now: float, tolerance: float) -> bytes:
    time = _header(headers, "x-slack-request-timestamp")
    _recent(time, now, tolerance, "X-Slack-Request-Timestamp")
    version, _, given = _header(headers, "x-slack-signature").partition("=")
    if version != "v0":
        raise SignatureRefused("X-Slack-Signature does not begin with v0=")
    return _matching(_hmac(_key(secret), b"v0:" + time.encode() + b":" + body), [_hex(given)])


def _standard(secret: str, headers: Mapping[str, str], body: bytes, now: float, tolerance: float) -> bytes:
    time = _header(headers, "webhook-timestamp")
    _recent(time, now, tolerance, "webhook-timestamp")
    signed = f"{_header(headers, 'webhook-id')}.{time}.".encode() + body
    given = [part.partition(",") for part in _header(headers, "webhook-signature").split(" ")]
    if secret.startswith("whpk_"):
        return _ed25519(secret, signed, [_base64(value) for version, _, value in given if version == "v1a"])
    expected = _hmac(_long_enough(_secret_bytes(secret.removeprefix("whsec_"))), signed)
    return _matching(expected, [_base64(value) for version, _, value in given if version == "v1"])


_Check = Callable[[str, Mapping[str, str], bytes, float, float], bytes]
_SCHEMES: Mapping[SignatureScheme, _Check] = {
    "github": _github,
    "stripe": _stripe,
    "slack": _slack,
    "standard-webhooks": _standard,
}


def _header(headers: Mapping[str, str], name: str) -> str:
    if not (text := headers.get(name, "").strip()):
        raise SignatureRefused(f"the header {name} is missing")
    return text


def _recent(text: str, now: float, tolerance: float, name: str) -> None:
    # int() takes signs, blanks, underscores and digits of other scripts, which no sender sends.
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise SignatureRefused(f"the timestamp of {name} is not a number of seconds")
    if abs(now - int(text)) > tolerance:
        raise SignatureRefused(f"the timestamp of {name} is not within {tolerance:g} s of now")


def _key(secret: str) -> bytes:
    return _long_enough(secret.encode())


def _long_enough(key: bytes) -> bytes:
    if len(key) < SHORTEST:
        raise SecretUnusable(f"has fewer than {SHORTEST} bytes")
    return key


def _hmac(key: bytes, signed: bytes) -> bytes:
    return hmac.digest(key, signed, "sha256")


def _matching(expected: bytes, given: Iterable[bytes | None]) -> bytes:
    """Returns the expected signature if it is among the given ones. Every one is compared, in constant time."""
    found = False
    for signature in _few(given):
        found |= hmac.compare_digest(expected, signature)
    if not found:
        raise SignatureRefused("no signature of the request is the secret's")
    return expected


def _ed25519(secret: str, signed: bytes, given: Iterable[bytes | None]) -> bytes:
    try:
        key = Ed25519PublicKey.from_public_bytes(_secret_bytes(secret.removeprefix("whpk_")))
    except ValueError:
        raise SecretUnusable("is no public key of Ed25519") from None
    for signature in _few(given):
        try:
            key.verify(signature, signed)
        except InvalidSignature:
            continue
        return signature
    raise SignatureRefused("no signature of the request is the key's")


def _few(given: Iterable[bytes | None]) -> list[bytes]:
    return [signature for signature in given if signature is not None][:MOST_SIGNATURES]


def _hex(text: str) -> bytes | None:
    """Returns the bytes; None if the text is not lower-case hexadecimal, as every sender writes it."""
    if text != text.lower() or " " in text:
        return None
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _secret_bytes(text: str) -> bytes:
    # Some senders show their secrets without padding.
    decoded = _base64(text + "=" * (-len(text) % 4))
    if decoded is None:
        raise SecretUnusable("is not Base64")
    return decoded


def _base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
