"""The rotation of the webhook's certificate without a rejected connection. Pure: time is an argument.

Every certificate has its own authority. Its successor is made after two thirds of its lifetime and replaces it in
stages: first the new authority is trusted beside the old one, then the server presents the new certificate, then the
old authority is dropped. Each stage lasts long enough for every API server and every replica to follow.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from deploy.webhook.certificates import WebhookCertificate, validity
from workers.api import times
from workers.api.kinds import SECRET, Object

#: Time for which a new authority is trusted before its certificate is presented.
INTRODUCTION = timedelta(minutes=10)
#: Time for which an old authority is trusted after its certificate was presented last.
RETIREMENT = timedelta(hours=1)
#: The Secret's annotation with the start of its current stage.
SINCE = "penstock.dev/since"
#: The Secret's keys: those of every TLS Secret, and the successor's.
_BUNDLE, _CERTIFICATE, _KEY = "ca.crt", "tls.crt", "tls.key"
_NEXT_CERTIFICATE, _NEXT_KEY = "next.crt", "next.key"
_END = "-----END CERTIFICATE-----\n"


@dataclass(frozen=True, slots=True, repr=False)
class Material:
    """The Secret's content. bundle: the trusted authorities, PEM, the newest last. since: start of the current stage.

    certificate, key: presented now. successor, successor_key: presented next; empty while there is none.
    """

    bundle: str
    certificate: str
    key: str
    since: datetime
    successor: str = ""
    successor_key: str = ""

    @property
    def authorities(self) -> list[str]:
        """The authorities of the bundle."""
        return [part + _END for part in self.bundle.split(_END)[:-1]]


Make = Callable[[datetime], WebhookCertificate]


def fresh(make: Make, now: datetime) -> Material:
    """Returns a first certificate, also after the old one has expired."""
    made = make(now)
    return Material(made.authority, made.certificate, made.key, now)


def advanced(found: Material, names: frozenset[str], make: Make, now: datetime, *, trusted: bool) -> Material:
    """Returns the content of the next stage, or the same content while no stage is due.

    names: the names that the certificate must cover. trusted: the API server has the whole bundle.
    """
    own = validity(found.certificate)
    if now >= own.end:
        # An expired certificate is rejected by every client, so replacing it at once breaks no connection.
        return fresh(make, now)
    if found.successor:
        if trusted and now >= found.since + INTRODUCTION:
            shown = replace(found, certificate=found.successor, key=found.successor_key, since=now)
            return replace(shown, successor="", successor_key="")
        return found
    if len(found.authorities) > 1:
        newest = found.authorities[-1]
        return replace(found, bundle=newest, since=now) if now >= found.since + RETIREMENT else found
    if now >= own.begin + (own.end - own.begin) * 2 / 3 or not names <= own.names:
        made = make(now)
        bundle = found.bundle + made.authority
        return replace(found, bundle=bundle, successor=made.certificate, successor_key=made.key, since=now)
    return found


def secret(namespace: str, name: str, material: Material) -> Object:
    """Returns the Secret with this content."""
    texts = {
        _BUNDLE: material.bundle,
        _CERTIFICATE: material.certificate,
        _KEY: material.key,
        _NEXT_CERTIFICATE: material.successor,
        _NEXT_KEY: material.successor_key,
    }
    return {
        **SECRET.type_meta,
        "metadata": {
            "namespace": namespace,
            "name": name,
            "annotations": {SINCE: times.render(material.since)},
            "labels": {"app.kubernetes.io/name": "penstock", "app.kubernetes.io/component": "webhook"},
        },
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in texts.items() if text},
    }


def material(body: Object) -> Material | None:
    """Returns a Secret's content, or None if it is unusable."""
    try:
        data = {key: base64.b64decode(text, validate=True).decode() for key, text in (body.get("data") or {}).items()}
        since = times.parse((body["metadata"].get("annotations") or {})[SINCE])
        successor, successor_key = data.get(_NEXT_CERTIFICATE, ""), data.get(_NEXT_KEY, "")
        found = Material(data[_BUNDLE], data[_CERTIFICATE], data[_KEY], since, successor, successor_key)
        for certificate in (*found.authorities, found.certificate, *([successor] if successor else ())):
            validity(certificate)
    except (KeyError, ValueError, binascii.Error, UnicodeDecodeError):
        return None
    return found if found.authorities and bool(successor) == bool(successor_key) else None
