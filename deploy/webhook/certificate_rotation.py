"""When the webhook's certificate is replaced, and how nobody is refused meanwhile. Pure: time is an argument.

A certificate comes with an authority of its own. Its successor is made when two thirds of its life are over, and takes
its place in stages: first the new authority is trusted beside the old one, then the new certificate is shown, then the
old authority is dropped. Between the stages lies time enough for every API server and every replica to have followed.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from deploy.webhook.certificates import WebhookCertificate, validity
from workers.api import times
from workers.api.kinds import SECRET, Object

#: A new authority is trusted for so long before its certificate is shown.
INTRODUCTION = timedelta(minutes=10)
#: An old authority is trusted for so long after its certificate was shown last.
RETIREMENT = timedelta(hours=1)
#: The annotation of the Secret that says when its present stage began.
SINCE = "penstock.dev/since"
#: The keys of the Secret: those of every TLS Secret, and the successor's.
_BUNDLE, _CERTIFICATE, _KEY = "ca.crt", "tls.crt", "tls.key"
_NEXT_CERTIFICATE, _NEXT_KEY = "next.crt", "next.key"
_END = "-----END CERTIFICATE-----\n"


@dataclass(frozen=True, slots=True, repr=False)
class Material:
    """What the replicas share. bundle: the authorities to trust, PEM, the newest last. since: when the stage began.

    certificate, key: what is shown. successor, successor_key: what is shown next, empty while there is none.
    """

    bundle: str
    certificate: str
    key: str
    since: datetime
    successor: str = ""
    successor_key: str = ""

    @property
    def authorities(self) -> list[str]:
        """The authorities one by one."""
        return [part + _END for part in self.bundle.split(_END)[:-1]]


Make = Callable[[datetime], WebhookCertificate]


def fresh(make: Make, now: datetime) -> Material:
    """The first certificate, or one after all trust was lost."""
    made = make(now)
    return Material(made.authority, made.certificate, made.key, now)


def turned(found: Material, names: frozenset[str], make: Make, now: datetime, *, trusted: bool) -> Material:
    """What the replicas share next; the same as before while nothing is due.

    names: those the certificate must be good for. trusted: the API server has been told of the whole bundle.
    """
    own = validity(found.certificate)
    if now >= own.end:
        # Nobody trusts it any more, so that nobody can be refused by a change.
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
    """The Secret that holds this."""
    texts = {
        _BUNDLE: material.bundle,
        _CERTIFICATE: material.certificate,
        _KEY: material.key,
        _NEXT_CERTIFICATE: material.successor,
        _NEXT_KEY: material.successor_key,
    }
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
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
    """What a Secret holds; None for one that cannot be used."""
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
