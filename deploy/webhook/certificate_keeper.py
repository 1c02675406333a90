"""Keeps the webhook's certificate good and the API server told of it, together with all other replicas.

They agree through one Secret: whoever is first writes, the others read. Nothing is decided here, see rotation.py.
"""

import logging
import ssl
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from deploy.webhook import certificate_rotation, certificates, registration
from deploy.webhook.certificate_rotation import Material
from deploy.webhook.registration import Place
from workers import errors
from workers.admission.admission_options import AdmissionOptions
from workers.api.kinds import SECRET, Kind, Object, Ref

log = logging.getLogger(__name__)

#: Attempts at a Secret that others write at the same moment.
_ATTEMPTS = 5


class KeeperApi(Protocol):
    """What the keeper needs of `workers.client.rest.Cluster`."""

    async def get(self, ref: Ref) -> Object: ...
    async def create(self, kind: Kind, body: Object) -> Object: ...
    async def replace(self, ref: Ref, body: Object, subresource: str = "") -> Object: ...


class Keeper:
    """One replica's part. context: what its server shows; changed in place, for connections to come."""

    def __init__(self, cluster: KeeperApi, place: Place, options: AdmissionOptions, context: ssl.SSLContext) -> None:
        self._cluster = cluster
        self._place = place
        self._options = options
        self._context = context
        self._secret = Ref(SECRET, place.namespace, f"{place.service}-certificate")
        #: The certificate that connections to come are shown, PEM.
        self.shown = ""
        host = urlsplit(place.url).hostname if place.url else None
        self._names = (*place.names, *((host,) if host else ()))

    async def keep(self, now: datetime) -> None:
        """Does what is due. Raises ClusterError when the API server cannot be read or written; ask again later."""
        body, found = await self._held(now)
        trusted = await self._configured(found.bundle)
        turned = certificate_rotation.turned(found, frozenset(self._names), self._make, now, trusted=trusted)
        if turned != found:
            try:
                await self._write(body, turned)
            except errors.Conflict:
                # Another replica was first; this one follows when it looks again.
                turned = found
            else:
                log.info("the certificate goes one stage on", extra={"authorities": len(turned.authorities)})
                await self._configured(turned.bundle)
        self._show(turned)

    async def _held(self, now: datetime) -> tuple[Object, Material]:
        """The Secret and what it holds; made if there is none, or none that can be used."""
        for _ in range(_ATTEMPTS):
            try:
                body = await self._cluster.get(self._secret)
                if found := certificate_rotation.material(body):
                    return body, found
                log.warning("the Secret is not usable and is written anew", extra={"secret": str(self._secret)})
                await self._write(body, certificate_rotation.fresh(self._make, now))
            except errors.NotFound:
                await self._create(certificate_rotation.fresh(self._make, now))
            except errors.Conflict:
                continue
        raise errors.Unavailable(f"{self._secret}: others write it all the time")

    async def _create(self, made: Material) -> None:
        try:
            await self._cluster.create(
                SECRET, certificate_rotation.secret(self._secret.namespace, self._secret.name, made)
            )
        except errors.AlreadyExists:
            log.info("another replica made the Secret")

    async def _write(self, body: Object, changed: Material) -> None:
        written = certificate_rotation.secret(self._secret.namespace, self._secret.name, changed)
        metadata = body["metadata"]
        annotations = {**(metadata.get("annotations") or {}), **written["metadata"]["annotations"]}
        whole = {**written, "metadata": {**metadata, "annotations": annotations}, "type": body.get("type")}
        await self._cluster.replace(self._secret, whole)

    async def _configured(self, bundle: str) -> bool:
        """Tells the API server of the webhook; whether it knew all of it before."""
        known = True
        for ref, wanted in registration.wanted(self._place, self._options, bundle).items():
            try:
                found = await self._cluster.get(ref)
                if not within(wanted["webhooks"], found.get("webhooks")):
                    known = False
                    await self._cluster.replace(ref, {**found, "webhooks": wanted["webhooks"]})
            except errors.NotFound:
                known = False
                await self._cluster.create(ref.kind, wanted)
        return known

    def _make(self, now: datetime) -> certificates.WebhookCertificate:
        return certificates.make(self._names, now)

    def _show(self, found: Material) -> None:
        if found.certificate != self.shown:
            load(self._context, found.certificate, found.key)
            self.shown = found.certificate


def load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Shows this certificate from now on. The files that this takes are there for a moment, for their owner only."""
    with tempfile.TemporaryDirectory() as folder:
        shown, private = Path(folder, "tls.crt"), Path(folder, "tls.key")
        for path, text in ((shown, certificate), (private, key)):
            path.touch(mode=0o600)
            path.write_text(text)
        context.load_cert_chain(shown, private)


def within(wanted: Any, found: Any) -> bool:
    """Whether everything that is wanted is there; the API server fills in more."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(within(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(within, wanted, found))
    return bool(wanted == found)
