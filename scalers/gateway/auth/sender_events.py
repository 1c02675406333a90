"""The attributes of events in the requests of well-known senders. Pure; the signature has been checked before.

| scheme | id | type | source | subject |
|---|---|---|---|---|
| github | `X-GitHub-Delivery` | `com.github.<X-GitHub-Event>[.<action>]` | the repository, the organization | - |
| stripe | `id` | `com.stripe.<type>` | - | `data.object.id` |
| slack | `event_id`, `trigger_id` | `com.slack.<event.type>`, `com.slack.<type>`, `com.slack.command` | - | - |
| standard-webhooks | `webhook-id` | `type` | - | - |

A request without an id has the digest of its signature: a repetition of the same request is the same event.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import orjson

from scalers.gateway.auth.pusher import SignedDelivery
from workers.api.penstock_dev.push_settings import SignatureScheme

#: Longest text that becomes an attribute.
LONGEST = 512
_WORD = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")


def event_of_delivery(
    scheme: SignatureScheme, headers: Mapping[str, str], body: bytes, signature: bytes
) -> SignedDelivery:
    """Returns the attributes of the event. headers: by lower-case name. signature: the one that was checked."""
    found = _SENDERS[scheme](headers, _fields(body, headers.get("content-type", "")))
    return found if found.id else SignedDelivery(digest(signature), found.type, found.source, found.subject, found.time)


def challenge(scheme: SignatureScheme, body: bytes) -> str | None:
    """Returns the text that Slack wants to see before it sends events to a URL; None for any other request."""
    if scheme != "slack":
        return None
    fields = _fields(body, "")
    return _text(fields.get("challenge")) if fields.get("type") == "url_verification" else None


def digest(text: bytes) -> str:
    """Returns a short text that names these bytes and does not show them."""
    return hashlib.sha256(text).hexdigest()[:32]


def _github(headers: Mapping[str, str], fields: Mapping[str, Any]) -> SignedDelivery:
    owners = (_mapping(fields.get("repository")), _mapping(fields.get("organization")))
    source = next((url for owner in owners if (url := _text(owner.get("html_url") or owner.get("url")))), None)
    type_ = _joined("com.github", headers.get("x-github-event"))
    if type_ and (action := _word(fields.get("action"))):
        type_ = f"{type_}.{action}"
    return SignedDelivery(_text(headers.get("x-github-delivery")) or "", type_, source)


def _stripe(_headers: Mapping[str, str], fields: Mapping[str, Any]) -> SignedDelivery:
    about = _mapping(_mapping(fields.get("data")).get("object"))
    return SignedDelivery(
        _text(fields.get("id")) or "",
        _joined("com.stripe", fields.get("type")),
        subject=_text(about.get("id")),
        time=_seconds(fields.get("created")),
    )


def _slack(_headers: Mapping[str, str], fields: Mapping[str, Any]) -> SignedDelivery:
    inner = _mapping(fields.get("event")).get("type") or fields.get("type")
    type_ = _joined("com.slack", "command" if "command" in fields else inner)
    id_ = _text(fields.get("event_id")) or _text(fields.get("trigger_id")) or ""
    return SignedDelivery(id_, type_, time=_seconds(fields.get("event_time")))


def _standard(headers: Mapping[str, str], fields: Mapping[str, Any]) -> SignedDelivery:
    return SignedDelivery(_text(headers.get("webhook-id")) or "", _word(fields.get("type")))


_SENDERS: Mapping[SignatureScheme, Callable[[Mapping[str, str], Mapping[str, Any]], SignedDelivery]] = {
    "github": _github,
    "stripe": _stripe,
    "slack": _slack,
    "standard-webhooks": _standard,
}


def _fields(body: bytes, content_type: str) -> Mapping[str, Any]:
    """Returns the top-level fields of a JSON object or a form, none of any other body."""
    if content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        form = parse_qs(body.decode(errors="replace"))
        # So come Slack's interactive components, and GitHub's deliveries if the webhook is set up that way.
        values = {name: given[0] for name, given in form.items()}
        return _fields(values["payload"].encode(), "") if set(values) == {"payload"} else values
    try:
        return _mapping(orjson.loads(body))
    except ValueError:
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable() else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _joined(prefix: str, value: Any) -> str | None:
    word = _word(value)
    return f"{prefix}.{word}" if word else None


def _seconds(value: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(value, UTC) if isinstance(value, int) and value > 0 else None
    except (ValueError, OverflowError, OSError):
        return None
