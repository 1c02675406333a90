"""Who may push: every kind of credential, other tenants, rotation, failures of what is asked, and secrets in logs."""

import base64
import hashlib
import hmac
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import fakeredis
import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from deploy.certificate_authority import CLIENT, Authority
from scalers.gateway.auth.push_authenticator import PushAuthenticator
from scalers.gateway.auth.pusher import Pusher, Unauthenticated
from scalers.gateway.auth.replay_guard import ReplayGuard
from scalers.gateway.auth.token_reviews import TokenReviews, account_user, reviewed_user
from scalers.gateway.push_request import PushRequest, PushTarget
from tests.support.tables import cases
from tests.unit.scalers.cluster import Cluster
from tests.unit.scalers.gateway.auth.test_signatures import GITHUB, STRIPE
from workers.api.kinds import EVENT_JOB
from workers.api.penstock_dev.push_settings import PushSettings
from workers.errors import Forbidden, Unavailable

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
TOKEN, OTHER = "correct-horse-battery", "another-teams-token-1"
BEARER = {"bearer": {"name": "pushers", "key": "ci"}}
GITHUB_SIGNED = {"signature": {"scheme": "github", "secret": {"name": "pushers", "key": "github"}}}
ACCOUNT = {"serviceAccount": {"name": "builder"}}


def target(*auth: Mapping[str, Any], namespace: str = "team", **settings: Any) -> PushTarget:
    parsed = PushSettings.model_validate({"auth": list(auth), **settings})
    return PushTarget(EVENT_JOB, namespace, "orders", f"uid-{namespace}", parsed)


def request(
    token: str | None = None, *, body: bytes = b"{}", certificate: bytes | None = None, **headers: str
) -> PushRequest:
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    if token is not None:
        given["authorization"] = f"Bearer {token}"
    return PushRequest(raw(given), body, certificate, NOW)


def raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), text.encode()) for name, text in headers.items()]


def jwt(user: str = account_user("team", "builder"), audience: str = "penstock", life: float = 600) -> str:
    claims = {"sub": user, "aud": [audience], "exp": int(NOW.timestamp() + life)}
    encoded = base64.urlsafe_b64encode(orjson.dumps(claims)).rstrip(b"=").decode()
    return f"e30.{encoded}.c2lnbmF0dXJl"


class Stage:
    """An authenticator on a cluster in memory. owners: users of tokens, as the API server knows them."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.secret("pushers", "team", ci=TOKEN, github=GITHUB.secret, short="short")
        self.cluster.secret("pushers", "other", ci=OTHER)
        self.owners: dict[str, str] = {}
        self.reviewed: list[Any] = []
        self.redis = fakeredis.FakeAsyncRedis()
        reviews = TokenReviews(self._review, clock=lambda: self.cluster.now)
        self.auth = PushAuthenticator(self.cluster.lookups(), reviews, ReplayGuard(self.redis, "penstock"))

    async def _review(self, method: str, path: str, *, body: Any = None) -> Any:
        assert (method, path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
        self.reviewed.append(body["spec"])
        if self.cluster.down:
            raise self.cluster.down
        user = self.owners.get(body["spec"]["token"])
        if user is None:
            return {"status": {"authenticated": False, "error": "invalid bearer token"}}
        return {"status": {"authenticated": True, "user": {"username": user}, "audiences": body["spec"]["audiences"]}}

    async def refused(self, to: PushTarget | None, sent: PushRequest) -> str:
        with pytest.raises(Unauthenticated) as caught:
            await self.auth.identify(to, sent)
        assert caught.value.challenge == 'Bearer realm="penstock"'
        return str(caught.value)


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_a_bearer_token(stage: Stage) -> None:
    assert await stage.auth.identify(target(BEARER), request(TOKEN)) == Pusher("bearer", "pushers/ci")
    assert await stage.auth.identify(target(BEARER), request(f"  {TOKEN} ")) == Pusher("bearer", "pushers/ci")


@cases(
    ("no token", request()),
    ("empty token", request("")),
    ("wrong token", request(TOKEN + "x")),
    ("a part of it", request(TOKEN[:-1])),
    ("the other tenant's token", request(OTHER)),
    ("another scheme", request(authorization=f"Basic {TOKEN}")),
    ("no scheme", request(authorization=TOKEN)),
    ("a token that is not ASCII", request("ü" * 20)),
    ("a signature instead", request(**{k.replace("-", "_"): v for k, v in GITHUB.headers.items()}, body=GITHUB.body)),
)
async def test_what_is_not_the_token_is_refused(sent: PushRequest, stage: Stage) -> None:
    assert "push.auth[0]" in await stage.refused(target(BEARER), sent)


async def test_a_token_of_one_namespace_reaches_no_target_of_another(stage: Stage) -> None:
    mine, theirs = target(BEARER), target(BEARER, namespace="other")
    assert (await stage.auth.identify(theirs, request(OTHER))).method == "bearer"
    await stage.refused(theirs, request(TOKEN))
    await stage.refused(mine, request(OTHER))


async def test_an_unknown_target_is_refused_as_a_wrong_token_is(stage: Stage) -> None:
    assert "no such target" in await stage.refused(None, request(TOKEN))


async def test_anonymous_only_if_the_target_says_so(stage: Stage) -> None:
    assert await stage.auth.identify(target(anonymous=True), request()) == Pusher("anonymous")
    assert "neither auth nor anonymous" in await stage.refused(target(), request(TOKEN))


async def test_one_of_several_credentials_is_enough(stage: Stage) -> None:
    both = target({"bearer": {"name": "pushers", "key": "next"}}, BEARER)
    assert (await stage.auth.identify(both, request(TOKEN))).name == "pushers/ci"
    reason = await stage.refused(both, request("wrong-token-of-twenty"))
    assert "push.auth[0]: secrets team/pushers has no key next" in reason or "has no key next" in reason


async def test_a_rotated_token_counts_at_once_and_wrong_ones_read_no_more_often(stage: Stage) -> None:
    to = target(BEARER)
    await stage.auth.identify(to, request(TOKEN))
    stage.cluster.secret("pushers", "team", ci="a-token-that-is-newer\n")
    stage.cluster.now += 10
    assert (await stage.auth.identify(to, request("a-token-that-is-newer"))).method == "bearer"
    reads = len(stage.cluster.asked)
    for _ in range(4):
        stage.cluster.now += 1.2
        await stage.refused(to, request("wrong-token-of-twenty"))
    assert len(stage.cluster.asked) == reads


@cases(("that was missing", {}), ("that was too short", {"ci": "short"}))
async def test_a_token_that_was_mended_counts_at_once(before: dict[str, str], stage: Stage) -> None:
    stage.cluster.secret("pushers", "team", other=OTHER, **before)
    await stage.refused(target(BEARER), request(TOKEN))
    stage.cluster.secret("pushers", "team", other=OTHER, ci=TOKEN)
    stage.cluster.now += 10
    assert (await stage.auth.identify(target(BEARER), request(TOKEN))).method == "bearer"


@cases(("that was missing", {}), ("that was too short", {"github": "short"}))
async def test_a_signing_secret_that_was_mended_counts_at_once(before: dict[str, str], stage: Stage) -> None:
    stage.cluster.secret("pushers", "team", other=OTHER, **before)
    await stage.refused(target(GITHUB_SIGNED), github())
    stage.cluster.secret("pushers", "team", github=GITHUB.secret)
    stage.cluster.now += 10
    assert (await stage.auth.identify(target(GITHUB_SIGNED), github())).method == "signature"


async def test_a_short_token_is_refused_and_named_in_the_log_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    to = target({"bearer": {"name": "pushers", "key": "short"}})
    for _ in range(3):
        assert "fewer than 16 bytes" in await stage.refused(to, request("short"))
    [record] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "spec.push.auth[0]" in str(vars(record)["reason"])


async def test_a_secret_that_cannot_be_read_is_no_wrong_token(stage: Stage) -> None:
    for down in (Unavailable("away"), Forbidden("the gateway may not", status=403)):
        stage.cluster.down = down
        with pytest.raises(Unavailable):
            await stage.auth.identify(target(BEARER), request(TOKEN))


async def test_another_credential_is_enough_while_one_cannot_be_checked(stage: Stage) -> None:
    both = target(ACCOUNT, BEARER)
    await stage.auth.identify(both, request(TOKEN))
    stage.cluster.down = Unavailable("away")
    assert (await stage.auth.identify(both, request(TOKEN))).method == "bearer"
    with pytest.raises(Unavailable):
        await stage.auth.identify(both, request(jwt()))


def github(delivery: str = "72d3162e", event: str = "push") -> PushRequest:
    return request(
        body=GITHUB.body,
        x_hub_signature_256=GITHUB.headers["x-hub-signature-256"],
        x_github_delivery=delivery,
        x_github_event=event,
    )


async def test_a_signed_request_says_which_delivery_it_is(stage: Stage) -> None:
    pusher = await stage.auth.identify(target(GITHUB_SIGNED), github())
    assert (pusher.method, pusher.name) == ("signature", "github pushers/github")
    assert pusher.delivery is not None
    assert (pusher.delivery.id, pusher.delivery.type) == ("72d3162e", "com.github.push")


async def test_a_signature_belongs_to_its_first_delivery(stage: Stage) -> None:
    to = target(GITHUB_SIGNED)
    first = await stage.auth.identify(to, github())
    assert await stage.auth.identify(to, github()) == first
    # The same body under another id or type is that delivery again: GitHub's signature covers the body alone.
    for again in (github("another"), github(event="deployment"), github(event="")):
        assert await stage.auth.identify(to, again) == first
    # Another object may take the same hook's deliveries.
    second = await stage.auth.identify(replace(to, uid="uid-second"), github("another"))
    assert second.delivery is not None
    assert second.delivery.id == "another"


async def test_a_first_delivery_without_a_type_keeps_none(stage: Stage) -> None:
    first = await stage.auth.identify(target(GITHUB_SIGNED), github(event=""))
    assert first.delivery is not None
    assert first.delivery.type is None
    assert await stage.auth.identify(target(GITHUB_SIGNED), github("another")) == first


async def test_a_digest_of_a_release_before_names_no_delivery(stage: Stage) -> None:
    await stage.auth.identify(target(GITHUB_SIGNED), github())
    [key] = await stage.redis.keys("*")
    await stage.redis.set(key, "0" * 32)
    again = await stage.auth.identify(target(GITHUB_SIGNED), github())
    assert again.delivery is not None
    assert again.delivery.id == "72d3162e"


async def test_signatures_are_forgotten(stage: Stage) -> None:
    await stage.auth.identify(target(GITHUB_SIGNED), github())
    [key] = await stage.redis.keys("*")
    assert key.startswith(b"{penstock}:signature:uid-team:")
    assert 0 < await stage.redis.ttl(key) <= 3600
    assert GITHUB.headers["x-hub-signature-256"][7:].encode() not in key


async def test_a_signed_request_is_refused_when_it_is_old(stage: Stage) -> None:
    stage.cluster.secret("pushers", "team", stripe=STRIPE.secret)
    to = target({"signature": {"scheme": "stripe", "secret": {"name": "pushers", "key": "stripe"}}})
    sent = PushRequest(raw(STRIPE.headers), STRIPE.body, None, datetime.fromtimestamp(STRIPE.time, UTC))
    assert (await stage.auth.identify(to, sent)).method == "signature"
    late = replace(sent, received=sent.received + timedelta(seconds=301))
    assert "not within 300 s" in await stage.refused(to, late)


async def test_the_handshake_of_slack_is_no_event(stage: Stage) -> None:
    secret, body = "8f742231b10e8888abcd99yyyzzz85a5", b'{"type":"url_verification","challenge":"3eZ"}'
    stage.cluster.secret("pushers", "team", slack=secret)
    time = str(int(NOW.timestamp()))
    made = hmac.new(secret.encode(), f"v0:{time}:".encode() + body, hashlib.sha256).hexdigest()
    to = target({"signature": {"scheme": "slack", "secret": {"name": "pushers", "key": "slack"}}})
    sent = request(body=body, x_slack_request_timestamp=time, x_slack_signature=f"v0={made}")
    assert (await stage.auth.identify(to, sent)).challenge == "3eZ"
    # A request that is not signed is not answered.
    await stage.refused(to, request(body=body, x_slack_request_timestamp=time))


async def test_a_service_account(stage: Stage) -> None:
    token = jwt()
    stage.owners[token] = account_user("team", "builder")
    for _ in range(3):
        pusher = await stage.auth.identify(target(ACCOUNT), request(token))
        assert pusher == Pusher("serviceAccount", "system:serviceaccount:team:builder")
    assert stage.reviewed == [{"token": token, "audiences": ["penstock"]}]
    stage.cluster.now += 61
    del stage.owners[token]
    await stage.refused(target(ACCOUNT), request(token))


@cases(
    ("another account", jwt(account_user("team", "reader"))),
    ("another namespace", jwt(account_user("other", "builder"))),
    ("another audience", jwt(audience="https://kubernetes.default.svc")),
    ("expired", jwt(life=-1)),
    ("no token of a service account", TOKEN),
    ("not JSON", "a.b.c"),
    ("a list", "a.W10.c"),
    ("too long", jwt() + "x" * 20_000),
)
async def test_a_token_that_claims_something_else_is_refused_unasked(token: str, stage: Stage) -> None:
    stage.owners[token] = account_user("team", "builder")
    await stage.refused(target(ACCOUNT), request(token))
    assert stage.reviewed == []


async def test_a_forged_token_is_asked_about_once(stage: Stage) -> None:
    for _ in range(3):
        await stage.refused(target(ACCOUNT), request(jwt()))
    assert len(stage.reviewed) == 1
    stage.owners[jwt()] = account_user("other", "builder")
    stage.cluster.now += 11
    await stage.refused(target(ACCOUNT), request(jwt()))
    assert len(stage.reviewed) == 2


@cases(
    ("yes", {"authenticated": True, "user": {"username": "u"}, "audiences": ["penstock"]}, "u"),
    ("audiences unknown to the server", {"authenticated": True, "user": {"username": "u"}}, ""),
    ("another audience", {"authenticated": True, "user": {"username": "u"}, "audiences": ["api"]}, ""),
    ("no", {"authenticated": False, "user": {"username": "u"}, "audiences": ["penstock"]}, ""),
    ("an error", {"authenticated": True, "user": {"username": "u"}, "audiences": ["penstock"], "error": "x"}, ""),
    ("no user", {"authenticated": True, "audiences": ["penstock"]}, ""),
    ("nothing", None, ""),
)
def test_answers_of_token_reviews(status: Any, user: str) -> None:
    assert reviewed_user({"status": status}, "penstock") == user


def der(pem: str) -> bytes:
    return x509.load_pem_x509_certificate(pem.encode()).public_bytes(serialization.Encoding.DER)


def certificate(begin: timedelta = timedelta(hours=-1), end: timedelta = timedelta(hours=1)) -> bytes:
    authority = Authority("pushers", NOW + begin, NOW + end)
    return der(authority.sign("builder", ["ci.example.com"], purpose=CLIENT).certificate)


@cases(
    ("common name", {"commonName": "builder"}, certificate(), True),
    ("other common name", {"commonName": "reader"}, certificate(), False),
    ("DNS name", {"dnsName": "CI.example.com"}, certificate(), True),
    ("other DNS name", {"dnsName": "example.com"}, certificate(), False),
    ("a DNS name is no common name", {"commonName": "ci.example.com"}, certificate(), False),
    ("a common name is no URI", {"uri": "builder"}, certificate(), False),
    ("expired", {"commonName": "builder"}, certificate(end=timedelta(seconds=-1)), False),
    ("not valid yet", {"commonName": "builder"}, certificate(begin=timedelta(seconds=1)), False),
    ("none", {"commonName": "builder"}, None, False),
    ("unreadable", {"commonName": "builder"}, b"0\x82", False),
)
async def test_client_certificates(wanted: Any, sent: bytes | None, accepted: bool, stage: Stage) -> None:
    to = target({"clientCertificate": wanted})
    if accepted:
        pusher = await stage.auth.identify(to, request(certificate=sent))
        assert pusher == Pusher("clientCertificate", next(iter(wanted.values())))
    else:
        await stage.refused(to, request(certificate=sent))


async def test_nothing_secret_is_logged_or_told(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    both = target(BEARER, GITHUB_SIGNED, ACCOUNT, {"bearer": {"name": "pushers", "key": "short"}})
    given, token = "a-token-that-was-guessed", jwt()
    told = [await stage.refused(both, request(given)), await stage.refused(both, request(token))]
    told.append(await stage.refused(both, replace(github(), body=b"other")))
    told.append(repr(await stage.auth.identify(both, request(TOKEN))))
    told.append(repr(await stage.auth.identify(both, github())))
    told += [str(vars(record)) for record in caplog.records]
    secrets = (TOKEN, given, token, GITHUB.secret, GITHUB.headers["x-hub-signature-256"][7:])
    assert [secret for secret in secrets for text in told if secret in text] == []
