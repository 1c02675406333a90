"""The stages of a certificate's replacement, with time as an argument."""

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.webhook import certificate_rotation, certificates
from deploy.webhook.certificate_keeper import load
from deploy.webhook.certificate_rotation import INTRODUCTION, RETIREMENT
from deploy.webhook.certificates import LIFETIME
from tests.support.tables import cases

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = ("hook.system.svc", "127.0.0.1")
DUE = LIFETIME * 2 / 3


def make(now):
    """A certificate for the names."""
    return certificates.make(NAMES, now)


FIRST = certificate_rotation.fresh(make, NOW)
INTRODUCED = certificate_rotation.advanced(FIRST, frozenset(NAMES), make, NOW + DUE, trusted=True)
SHOWN = certificate_rotation.advanced(INTRODUCED, frozenset(NAMES), make, INTRODUCED.since + INTRODUCTION, trusted=True)
SETTLED = certificate_rotation.advanced(SHOWN, frozenset(NAMES), make, SHOWN.since + RETIREMENT, trusted=True)


def stage(found):
    """Returns the stage of the replacement."""
    if found.successor:
        return "introduced"
    return "shown" if len(found.authorities) > 1 else "settled"


@cases(
    ("young", FIRST, DUE - timedelta(hours=2), True, "same"),
    ("two thirds over", FIRST, DUE, True, "introduced"),
    ("two thirds over, not trusted", FIRST, DUE, False, "introduced"),
    ("introduced", INTRODUCED, INTRODUCTION - timedelta(seconds=1), True, "same"),
    ("introduced long enough", INTRODUCED, INTRODUCTION, True, "shown"),
    ("introduced, not trusted", INTRODUCED, INTRODUCTION * 10, False, "same"),
    ("shown", SHOWN, RETIREMENT - timedelta(seconds=1), True, "same"),
    ("shown long enough", SHOWN, RETIREMENT, True, "settled"),
    ("settled", SETTLED, timedelta(days=1), True, "same"),
    ("over", FIRST, LIFETIME, True, "fresh"),
    ("over while another was introduced", INTRODUCED, LIFETIME, True, "fresh"),
)
def test_a_stage_lasts_as_long_as_everybody_needs(found, later, trusted, expected):
    turned = certificate_rotation.advanced(found, frozenset(NAMES), make, found.since + later, trusted=trusted)
    if expected == "same":
        assert turned == found
    elif expected == "fresh":
        assert stage(turned) == "settled"
        assert not set(turned.authorities) & set(found.authorities)
    else:
        assert stage(turned) == expected


def test_the_stages_lead_from_one_certificate_to_the_next():
    assert (INTRODUCED.certificate, INTRODUCED.key) == (FIRST.certificate, FIRST.key)
    assert (SHOWN.certificate, SHOWN.key) == (INTRODUCED.successor, INTRODUCED.successor_key)
    assert SHOWN.bundle == INTRODUCED.bundle == FIRST.bundle + SETTLED.bundle
    assert not trusts(FIRST.bundle, SHOWN)
    assert not trusts(SETTLED.bundle, FIRST)


def test_a_name_that_the_certificate_lacks_begins_a_replacement():
    wanted = frozenset((*NAMES, "new.system.svc"))
    turned = certificate_rotation.advanced(
        FIRST, wanted, lambda now: certificates.make(sorted(wanted), now), NOW, trusted=True
    )
    assert stage(turned) == "introduced"
    assert certificates.validity(turned.successor).names == wanted


MOMENTS = st.lists(st.tuples(st.integers(0, 40 * 24 * 60), st.booleans()), min_size=1, max_size=12)


@settings(max_examples=25)
@given(MOMENTS)
def test_the_presented_certificate_is_trusted_at_every_moment_and_was_before(moments):
    """A client that is one stage behind also accepts the presented certificate."""
    found, now = FIRST, NOW
    for minutes, trusted in moments:
        now += timedelta(minutes=minutes)
        turned = certificate_rotation.advanced(found, frozenset(NAMES), make, now, trusted=trusted)
        dead = now >= certificates.validity(found.certificate).end
        assert trusts(turned.bundle, turned)
        assert dead or trusts(found.bundle, turned)
        assert dead or trusts(turned.bundle, found)
        assert now < certificates.validity(turned.certificate).end
        assert certificate_rotation.material(certificate_rotation.secret("system", "hook", turned)) == whole_seconds(
            turned
        )
        found = turned


def whole_seconds(found):
    """The material as a Secret keeps it."""
    return replace(found, since=found.since.replace(microsecond=0))


def trusts(bundle, found):
    """Returns True if a client that trusts the bundle accepts the presented certificate."""
    client, server = ssl.create_default_context(cadata=bundle), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    load(server, found.certificate, found.key)
    return handshake(client, server)


def handshake(client, server):
    """A handshake in memory, without a check of dates, because the test's clock is not today's."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=NAMES[0])
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(6):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_code in (9, 10)  # not yet valid, expired: the chain itself holds
            except ssl.SSLError:
                return False
    return True


@cases(
    ("no data", lambda body: body | {"data": {}}),
    ("no base64", lambda body: body | {"data": body["data"] | {"tls.crt": "?"}}),
    ("no certificate", lambda body: body | {"data": body["data"] | {"tls.crt": "bm8="}}),
    ("no bundle", lambda body: body | {"data": body["data"] | {"ca.crt": ""}}),
    ("no time", lambda body: body | {"metadata": {}}),
    ("a successor without its key", lambda body: body | {"data": body["data"] | {"next.crt": body["data"]["tls.crt"]}}),
)
def test_a_secret_that_cannot_be_used_is_known(spoil):
    body = certificate_rotation.secret("system", "hook", FIRST)
    assert certificate_rotation.material(body) == FIRST
    assert certificate_rotation.material(spoil(body)) is None


def test_keys_are_not_shown_by_accident():
    assert "PRIVATE" not in repr(FIRST)
    assert "PRIVATE" not in repr(make(NOW))
