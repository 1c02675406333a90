"""The TLS context of connections to the API server, made anew when its files change.

A connection keeps the context it began with; new ones, and so every later watch, take the newest.
"""

import base64
import binascii
import logging
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock._trust import client_context
from workers.client.exec_plugin import CertificateFromPlugin
from workers.errors import UserError
from workers.json_logs import Outage

log = logging.getLogger(__name__)

#: Seconds between two readings of the files.
REREAD = 60.0
#: A file, or its content.
Material = Path | bytes | None
_Content = tuple[bytes | None, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True, repr=False)
class TlsSources:
    """authority: certificates to trust, None for those of this machine. verify: the server's certificate counts."""

    authority: Material = None
    certificate: Material = None
    key: Material = None
    verify: bool = True


class TlsContexts:
    """The context for the files as they are. clock: monotonic seconds. Raises UserError if they cannot be used."""

    def __init__(self, sources: TlsSources, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sources = sources
        self._clock = clock
        self._outage = Outage(log, clock=clock)
        self._given: CertificateFromPlugin | None = None
        self._read_at = clock()
        try:
            self._content = self._read()
            self._context = self._made(self._content, None)
        except (OSError, ValueError) as error:
            raise UserError(f"the files of TLS cannot be used: {error}") from error
        if not sources.verify:
            log.warning("the API server's certificate is not verified (insecure-skip-tls-verify)")

    def without_certificate(self) -> "TlsContexts":
        """Returns contexts for the same server without the client's certificate."""
        return TlsContexts(TlsSources(self._sources.authority, verify=self._sources.verify), clock=self._clock)

    @property
    def authority(self) -> bytes | None:
        """The authorities to trust as they were read last (PEM), None for those of this machine."""
        return self._content[0]

    def current(self, given: CertificateFromPlugin | None = None) -> ssl.SSLContext:
        """Returns the context. given: the client's certificate instead of that in files.

        Files that cannot be used leave the last context in place.
        """
        if self._clock() - self._read_at >= REREAD or given is not self._given:
            self.reread(given)
        return self._context

    def reread(self, given: CertificateFromPlugin | None = None) -> bool:
        """Reads the files now. Returns True if they, or the given certificate, have changed."""
        self._read_at = self._clock()
        try:
            content = self._read()
            if content == self._content and given == self._given:
                return False
            self._context = self._made(content, given)
        except (OSError, ValueError) as error:
            # A file is being replaced: certificate and key do not fit each other for a moment.
            self._outage.lasts("the files of TLS cannot be used; the last ones stay", error=str(error))
            return False
        self._content, self._given = content, given
        self._outage.over("the files of TLS can be used again")
        return True

    def _read(self) -> _Content:
        sources = self._sources
        authority, certificate, key = (
            part.read_bytes() if isinstance(part, Path) else part
            for part in (sources.authority, sources.certificate, sources.key)
        )
        return authority, certificate, key

    def _made(self, content: _Content, given: CertificateFromPlugin | None) -> ssl.SSLContext:
        authority, certificate, key = content
        context = client_context(cadata=authority.decode("ascii") if authority else None)
        if given is not None:
            certificate, key = given.certificate.encode(), given.key.encode()
        if certificate:
            _load(context, certificate, key)
        if not self._sources.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def material(entry: dict[str, str], name: str, folder: Path) -> Material:
    """Returns a file or content that an entry of a kubeconfig names: `NAME-data` (base64), else the path `NAME`.

    Raises UserError naming the field.
    """
    if data := entry.get(f"{name}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise UserError(f"{name}-data: not base64: {error}") from error
    path = entry.get(name)
    return folder / Path(path).expanduser() if path else None


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes | None) -> None:
    """Loads a certificate. The ssl module reads files only; these are private and deleted at once."""
    with tempfile.TemporaryDirectory() as folder:
        shown = Path(folder, "tls.pem")
        shown.touch(mode=0o600)
        shown.write_bytes(certificate + b"\n" + (key or b""))
        context.load_cert_chain(shown)
