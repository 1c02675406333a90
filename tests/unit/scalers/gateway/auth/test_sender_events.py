"""Attributes of events in the requests of senders, from bodies as the senders document them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import orjson
from hypothesis import given
from hypothesis import strategies as st

from scalers.gateway.auth import sender_events
from scalers.gateway.auth.pusher import SignedDelivery
from scalers.gateway.auth.sender_events import event_of_delivery
from tests.support.tables import cases
from tests.unit.scalers.gateway.auth.test_signatures import SLACK
from workers.api.penstock_dev.push_settings import SignatureScheme

FORM = {"content-type": "application/x-www-form-urlencoded"}
REPOSITORY = {"full_name": "octo-org/octo-repo", "html_url": "https://github.com/octo-org/octo-repo"}
GITHUB = {"x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "x-github-event": "issues"}
ISSUE = {"action": "opened", "issue": {"number": 1347}, "repository": REPOSITORY, "sender": {"login": "octocat"}}
CHARGE = {
    "id": "evt_1NG8Du2eZvKYlo2CUI79vXWy",
    "object": "event",
    "created": 1686089970,
    "type": "setup_intent.created",
    "data": {"object": {"id": "seti_1NG8Du2eZvKYlo2C9XMqbR0x", "object": "setup_intent"}},
}
MENTION = {
    "type": "event_callback",
    "event_id": "Ev0LAN670R",
    "event_time": 1515449522,
    "event": {"type": "app_mention", "user": "U061F7AUR", "text": "<@U0LAN0Z89> is it everything?"},
}
SIGNED = SignedDelivery(sender_events.digest(b"signature"))


@cases(
    (
        "GitHub's issue",
        *("github", GITHUB, ISSUE),
        SignedDelivery(GITHUB["x-github-delivery"], "com.github.issues.opened", REPOSITORY["html_url"]),
    ),
    (
        "GitHub's push has no action",
        *("github", {**GITHUB, "x-github-event": "push"}, {"ref": "refs/heads/main", "repository": REPOSITORY}),
        SignedDelivery(GITHUB["x-github-delivery"], "com.github.push", REPOSITORY["html_url"]),
    ),
    (
        "GitHub's ping of an organization",
        *(
            "github",
            {**GITHUB, "x-github-event": "ping"},
            {"organization": {"url": "https://api.github.com/orgs/o"}},
        ),
        SignedDelivery(GITHUB["x-github-delivery"], "com.github.ping", "https://api.github.com/orgs/o"),
    ),
    (
        "Stripe",
        *("stripe", {}, CHARGE),
        SignedDelivery(
            CHARGE["id"],
            "com.stripe.setup_intent.created",
            None,
            "seti_1NG8Du2eZvKYlo2C9XMqbR0x",
            datetime(2023, 6, 6, 22, 19, 30, tzinfo=UTC),
        ),
    ),
    (
        "Slack's event",
        *("slack", {}, MENTION),
        SignedDelivery("Ev0LAN670R", "com.slack.app_mention", time=datetime(2018, 1, 8, 22, 12, 2, tzinfo=UTC)),
    ),
    (
        "Standard Webhooks",
        *("standard-webhooks", {"webhook-id": "msg_1"}, {"type": "invoice.paid", "data": {}}),
        SignedDelivery("msg_1", "invoice.paid"),
    ),
    ("no names", "stripe", {}, {"data": []}, SIGNED),
    ("names of other types", "stripe", {}, {"id": 7, "type": ["x"], "created": "now"}, SIGNED),
    ("a type with a line end", "standard-webhooks", {"webhook-id": "m"}, {"type": "a\nb"}, SignedDelivery("m")),
    ("a list", "slack", {}, [], SIGNED),
)
def test_attributes(scheme: SignatureScheme, headers: Mapping[str, str], body: Any, expected: SignedDelivery) -> None:
    assert event_of_delivery(scheme, headers, orjson.dumps(body), b"signature") == expected


def test_attributes_of_forms() -> None:
    command = event_of_delivery("slack", FORM, SLACK.body, b"signature")
    assert command == SignedDelivery("398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c", "com.slack.command")
    button = urlencode({"payload": orjson.dumps({"type": "block_actions", "trigger_id": "12.34"})}).encode()
    assert event_of_delivery("slack", FORM, button, b"signature") == SignedDelivery("12.34", "com.slack.block_actions")
    issue = urlencode({"payload": orjson.dumps(ISSUE)}).encode()
    assert event_of_delivery("github", {**GITHUB, **FORM}, issue, b"").type == "com.github.issues.opened"


def test_the_handshake_of_slack() -> None:
    body = orjson.dumps({"token": "Jhj5dZrVaK7ZwHHjRyZWjbDl", "challenge": "3eZbrw1aB", "type": "url_verification"})
    assert sender_events.challenge("slack", body) == "3eZbrw1aB"
    assert sender_events.challenge("github", body) is None
    assert sender_events.challenge("slack", orjson.dumps(MENTION)) is None


#: Values where senders put texts, and objects with the names that are looked for.
VALUES = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.dictionaries(st.sampled_from(("id", "type", "event", "data", "object", "repository")), inner),
    max_leaves=8,
)


@given(
    st.sampled_from(("github", "stripe", "slack", "standard-webhooks")),
    st.binary() | VALUES.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(("application/json", FORM["content-type"], "")),
)
def test_any_body_has_an_id(scheme: SignatureScheme, body: bytes, content_type: str) -> None:
    delivery = event_of_delivery(scheme, {"content-type": content_type}, body, b"signature")
    assert delivery.id
    assert all(text is None or text.isprintable() for text in (delivery.type, delivery.source, delivery.subject))
