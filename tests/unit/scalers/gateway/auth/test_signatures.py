"""Signatures of senders: their documented examples, and everything that must not pass."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import standardwebhooks
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from scalers.gateway.auth import signatures
from scalers.gateway.auth.signatures import SecretUnusable, SignatureRefused
from tests.support.tables import cases
from workers.api.penstock_dev.push_settings import SignatureScheme


@dataclass(frozen=True)
class Signed:
    """A signed request and what checks it."""

    scheme: SignatureScheme
    secret: str
    headers: Mapping[str, str]
    body: bytes
    time: int

    def check(self, *, late: float = 0.0, tolerance: float = 300) -> bytes:
        now = datetime.fromtimestamp(self.time, UTC) + timedelta(seconds=late)
        return signatures.verify(self.scheme, self.secret, self.headers, self.body, now=now, tolerance=tolerance)

    def with_headers(self, **changed: str | None) -> "Signed":
        headers = {**self.headers, **{name.replace("_", "-"): text for name, text in changed.items()}}
        return replace(self, headers={name: text for name, text in headers.items() if text is not None})


def hexadecimal(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


#: The example of GitHub's "Validating webhook deliveries".
GITHUB = Signed(
    "github",
    "It's a Secret to Everybody",
    {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
    b"Hello, World!",
    0,
)
#: The example of Slack's "Verifying requests from Slack".
SLACK = Signed(
    "slack",
    "8f742231b10e8888abcd99yyyzzz85a5",
    {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    },
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
    1531420618,
)
#: The example of the Standard Webhooks' libraries.
STANDARD = Signed(
    "standard-webhooks",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
    b'{"test": 2432232314}',
    1614265330,
)
_CHARGE = b'{"id": "evt_1", "object": "event", "type": "charge.succeeded"}'
_STRIPE_SECRET = "whsec_0123456789abcdef0123456789abcdef"
STRIPE = Signed(
    "stripe",
    _STRIPE_SECRET,
    {"stripe-signature": f"t=1492774577,v1={hexadecimal(_STRIPE_SECRET, b'1492774577.' + _CHARGE)},v0={'6f' * 32}"},
    _CHARGE,
    1492774577,
)
ALL = {"github": GITHUB, "slack": SLACK, "stripe": STRIPE, "standard-webhooks": STANDARD}
TIMED = {name: example for name, example in ALL.items() if name != "github"}


@cases(ALL)
def test_what_senders_document_is_accepted(example: Signed) -> None:
    assert len(example.check()) == 32


@cases(ALL)
def test_a_changed_body_is_refused(example: Signed) -> None:
    with pytest.raises(SignatureRefused, match="no signature"):
        replace(example, body=example.body + b" ").check()


@cases(ALL)
def test_another_secret_is_refused(example: Signed) -> None:
    other = "whsec_" + base64.b64encode(b"x" * 24).decode()
    with pytest.raises(SignatureRefused, match="no signature"):
        replace(example, secret=other).check()


@cases(ALL)
def test_a_short_secret_is_unusable(example: Signed) -> None:
    with pytest.raises(SecretUnusable, match="fewer than 16 bytes"):
        replace(example, secret="whsec_c2hvcnQ=" if example is STANDARD else "short").check()


@cases(ALL)
def test_every_header_is_needed(example: Signed) -> None:
    for name in example.headers:
        with pytest.raises(SignatureRefused, match=f"{name} is missing"):
            example.with_headers(**{name: None}).check()


@cases(TIMED)
def test_a_timestamp_outside_of_the_tolerance_is_refused(example: Signed) -> None:
    for late in (300, -300):
        example.check(late=late)
    for late in (301, -301):
        with pytest.raises(SignatureRefused, match="not within 300 s"):
            example.check(late=late)
    with pytest.raises(SignatureRefused, match="not within 10 s"):
        example.check(late=11, tolerance=10)


@cases({text: text for text in ("-1", "1e9", "1_0", " 1 ", "１", "9" * 20, "now")})
def test_a_malformed_timestamp_is_refused(text: str) -> None:
    changed = (
        SLACK.with_headers(x_slack_request_timestamp=text),
        STANDARD.with_headers(webhook_timestamp=text),
        STRIPE.with_headers(stripe_signature=f"t={text},v1=00"),
    )
    for each in changed:
        with pytest.raises(SignatureRefused):
            each.check()


def test_a_changed_timestamp_is_refused() -> None:
    later = str(SLACK.time + 1)
    signature = STRIPE.headers["stripe-signature"].replace("t=1492774577", "t=1492774578")
    for each in (
        SLACK.with_headers(x_slack_request_timestamp=later),
        STANDARD.with_headers(webhook_timestamp=str(STANDARD.time + 1)),
        STANDARD.with_headers(webhook_id="msg_other"),
        STRIPE.with_headers(stripe_signature=signature),
    ):
        with pytest.raises(SignatureRefused, match="no signature"):
            each.check()


def test_one_of_several_signatures_is_enough() -> None:
    wrong = "00" * 32
    t, v1, _ = STRIPE.headers["stripe-signature"].split(",")
    for several in (f"v1={wrong},{v1}", f"{v1},v1={wrong}"):
        STRIPE.with_headers(stripe_signature=f"{t},{several}").check()
    one = STANDARD.headers["webhook-signature"]
    STANDARD.with_headers(webhook_signature=f"v1,{base64.b64encode(b'0' * 32).decode()} v2,x {one}").check()


def test_two_timestamps_are_refused() -> None:
    with pytest.raises(SignatureRefused, match="exactly one timestamp"):
        STRIPE.with_headers(stripe_signature=f"t=1,{STRIPE.headers['stripe-signature']}").check()


@cases(
    ("other version", SLACK.with_headers(x_slack_signature="v1=" + "00" * 32)),
    ("old hash", GITHUB.with_headers(x_hub_signature_256="sha1=757107ea0eb2509fc211221cce984b8a37570b6d")),
    ("old scheme of Stripe", STRIPE.with_headers(stripe_signature="t=1492774577,v0=" + "00" * 32)),
    ("empty", GITHUB.with_headers(x_hub_signature_256="sha256=")),
    ("not hexadecimal", GITHUB.with_headers(x_hub_signature_256="sha256=zz")),
    ("not Base64", STANDARD.with_headers(webhook_signature="v1,???")),
    ("no comma", STANDARD.with_headers(webhook_signature="v1")),
)
def test_a_malformed_signature_is_refused(wrong: Signed) -> None:
    with pytest.raises(SignatureRefused):
        wrong.check()


@given(st.binary(max_size=200), st.binary(min_size=16, max_size=64), st.integers(0, 2**33), st.uuids())
def test_the_package_of_standard_webhooks_signs_alike(body: bytes, key: bytes, time: int, id_: Any) -> None:
    text = body.hex()
    secret = "whsec_" + base64.b64encode(key).decode()
    made = standardwebhooks.Webhook(secret).sign(str(id_), datetime.fromtimestamp(time, UTC), text)
    headers = {"webhook-id": str(id_), "webhook-timestamp": str(time), "webhook-signature": made}
    Signed("standard-webhooks", secret, headers, text.encode(), time).check()
    Signed("standard-webhooks", secret.rstrip("="), headers, text.encode(), time).check()


def test_a_public_key_checks_signatures_of_ed25519() -> None:
    private = Ed25519PrivateKey.generate()
    key = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    signature = private.sign(f"{STANDARD.headers['webhook-id']}.{STANDARD.time}.".encode() + STANDARD.body)
    given_ = f"v1a,{base64.b64encode(signature).decode()}"
    signed = replace(STANDARD.with_headers(webhook_signature=given_), secret=f"whpk_{base64.b64encode(key).decode()}")
    assert signed.check() == signature
    with pytest.raises(SignatureRefused, match="no signature of the request is the key's"):
        replace(signed, body=b"{}").check()
    with pytest.raises(SecretUnusable, match="no public key"):
        replace(signed, secret="whpk_AAAA").check()
    with pytest.raises(SignatureRefused):
        # A symmetric secret takes no signature of the other kind.
        replace(signed, secret=STANDARD.secret).check()
