"""Renews the webhook's certificate and registers it with the API server, in agreement with all other replicas.

The replicas share one Secret: the first to write wins, the others read. `certificate_rotation` makes the decisions.
"""

import logging
import ssl
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from deploy.webhook import certificate_rotation, certificates, registration
from deploy.webhook.certificate_rotation import Material
from deploy.webhook.registration import Place
from workers import errors
from workers.admission.admission_options import AdmissionOptions
from workers.api.kinds import SECRET, Object, Ref
from workers.client.rest import Cluster

log = logging.getLogger(__name__)

#: Attempts to read or write a Secret that other replicas write concurrently.
_ATTEMPTS = 5


class Keeper:
    """One replica's keeper. context: its server's TLS context; later connections use the certificate loaded last."""

    def __init__(self, cluster: Cluster, place: Place, options: AdmissionOptions, context: ssl.SSLContext) -> None:
        self._cluster = cluster
        self._place = place
        self._options = options
        self._context = context
        self._secret = Ref(SECRET, place.namespace, f"{place.service}-certificate")
        #: The certificate that new connections receive, PEM.
        self.shown = ""
        host = urlsplit(place.url).hostname if place.url else None
        self._names = (*place.names, *((host,) if host else ()))

    async def keep(self, now: datetime) -> None:
        """Takes the steps that are due. Raises ClusterError if the API server cannot be read or written: call again."""
        body, found = await self._read(now)
        trusted = await self._register(found.bundle)
        advanced = certificate_rotation.advanced(found, frozenset(self._names), self._make, now, trusted=trusted)
        if advanced != found:
            try:
                await self._write(body, advanced)
            except errors.Conflict:
                # Another replica was first; this one reads its Secret at the next call.
                advanced = found
            else:
                log.info("the certificate's rotation advanced", extra={"authorities": len(advanced.authorities)})
                await self._register(advanced.bundle)
        if advanced.certificate != self.shown:
            load(self._context, advanced.certificate, advanced.key)
            self.shown = advanced.certificate

    async def _read(self, now: datetime) -> tuple[Object, Material]:
        """Returns the Secret and its content; creates or rewrites it if it is missing or unusable."""
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
        raise errors.Unavailable(f"{self._secret}: other replicas kept writing it")

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

    async def _register(self, bundle: str) -> bool:
        """Writes the webhook configurations; returns True if both were up to date already."""
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


def load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Loads the certificate into the context. The ssl module reads files only; they are private and deleted at once."""
    with tempfile.TemporaryDirectory() as folder:
        shown, private = Path(folder, "tls.crt"), Path(folder, "tls.key")
        for path, text in ((shown, certificate), (private, key)):
            path.touch(mode=0o600)
            path.write_text(text)
        context.load_cert_chain(shown, private)


def within(wanted: Any, found: Any) -> bool:
    """Returns True if `found` contains everything in `wanted`; the API server adds further fields."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(within(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(within, wanted, found))
    return bool(wanted == found)
