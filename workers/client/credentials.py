"""Credentials of requests and their renewal: fixed ones, tokens in files, exec plugins, the official providers.

Each has a header `Authorization`, a client certificate, or neither. A server's 401 renews at once what may be another.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from workers.client.exec_plugin import CertificateFromPlugin, ExecCredential
from workers.errors import ClusterError, Unavailable, UserError
from workers.json_logs import Outage

log = logging.getLogger(__name__)

#: Seconds between two readings of a file, as the official clients do, and between two runs of a plugin that fails or
#: whose answers the server refuses.
REREAD, RERUN = 60.0, 5.0
#: A plugin runs again before its answer expires: by a tenth of its life, at most by so many seconds.
AHEAD = 60.0


class Credentials(Protocol):
    """The proofs of a request's sender. certificate: of new connections, None for the kubeconfig's own."""

    @property
    def certificate(self) -> CertificateFromPlugin | None: ...

    async def authorization(self) -> str:
        """Returns the header's value, empty for none. Raises Unavailable if there are no credentials now."""

    async def refused(self, authorization: str) -> bool:
        """Notes that the server answered 401 to this. Returns True if there may be something better now."""


class FixedCredentials:
    """Credentials that never change. authorization: the header's value."""

    certificate: CertificateFromPlugin | None = None

    def __init__(self, authorization: str = "") -> None:
        self._authorization = authorization

    async def authorization(self) -> str:
        return self._authorization

    async def refused(self, authorization: str) -> bool:  # noqa: ARG002 - the protocol's
        return False


class TokenFile:
    """A token in a file that another program replaces: a kubelet, or the rotation of a kubeconfig's `tokenFile`.

    clock: monotonic seconds. Raises UserError if the file cannot be read at first.
    """

    certificate: CertificateFromPlugin | None = None

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._outage = Outage(log, clock=clock)
        self._read_at = clock()
        try:
            self._token = self._content()
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: no token: {error}") from error

    async def authorization(self) -> str:
        if self._clock() - self._read_at >= REREAD:
            self._reread()
        return f"Bearer {self._token}"

    async def refused(self, authorization: str) -> bool:
        if authorization == f"Bearer {self._token}":
            self._reread()
        return authorization != f"Bearer {self._token}"

    def _reread(self) -> None:
        self._read_at = self._clock()
        try:
            self._token = self._content()
        except (OSError, ValueError) as error:
            # It is being replaced, or was unmounted; the last token may hold for minutes.
            self._outage.lasts("the token cannot be read again", file=str(self._path), error=str(error))
        else:
            self._outage.over("the token can be read again", file=str(self._path))

    def _content(self) -> str:
        token = self._path.read_text(encoding="ascii").strip()
        if not token:
            raise ValueError("the file is empty")
        return token


class PluginCredentials:
    """The answers of an exec plugin, which runs when the last one expires or is refused; for one event loop.

    run: runs it. now: the wall clock, in UTC. clock: monotonic seconds.
    """

    def __init__(
        self,
        run: Callable[[], Awaitable[ExecCredential]],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._now = now
        self._clock = clock
        self._lock = asyncio.Lock()
        self._outage = Outage(log, clock=clock)
        self._known: ExecCredential | None = None
        self._due: datetime | None = None
        self._tried = float("-inf")
        self._failure: ClusterError | UserError | None = None

    @property
    def certificate(self) -> CertificateFromPlugin | None:
        return self._known.certificate if self._known else None

    async def authorization(self) -> str:
        if self._is_due():
            async with self._lock:
                # Another request may have renewed it meanwhile.
                if self._is_due():
                    await self._renew()
        if self._known is None:
            raise self._failure or Unavailable("the plugin has not answered yet")
        return _bearer(self._known)

    async def refused(self, authorization: str) -> bool:
        async with self._lock:
            before = self._known
            if before is not None and authorization == _bearer(before):
                await self._renew()
            return self._known is not None and (self._known is not before or authorization != _bearer(self._known))

    def _is_due(self) -> bool:
        return self._known is None or (self._due is not None and self._now() >= self._due)

    async def _renew(self) -> None:
        """Runs the plugin, unless it ran just now; the last answer stays as long as it holds."""
        before = self._tried
        if self._clock() - before < RERUN:
            return
        self._tried = self._clock()
        try:
            found = await self._run()
        except asyncio.CancelledError:
            # The request gave up, not the plugin: the next one need not wait.
            self._tried = before
            raise
        except (ClusterError, UserError) as error:
            self._failure = error
            self._outage.lasts("credentials could not be renewed", error=str(error))
            if self._known and self._known.expires and self._now() >= self._known.expires:
                self._known = None
            return
        self._outage.over("credentials are renewed again")
        self._known, self._failure, now = found, None, self._now()
        self._due = None
        if found.expires is not None:
            life = (found.expires - now).total_seconds()
            self._due = datetime.fromtimestamp(found.expires.timestamp() - min(AHEAD, max(0.0, life) / 10), UTC)


class ProvidedCredentials:
    """Tokens of the official client's own providers (gcp), which cache them. provide: returns the header's value."""

    certificate: CertificateFromPlugin | None = None

    def __init__(
        self, authorization: str, provide: Callable[[], Awaitable[str]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._authorization = authorization
        self._provide = provide
        self._clock = clock
        self._asked = clock()

    async def authorization(self) -> str:
        if self._clock() - self._asked >= REREAD:
            self._asked = self._clock()
            self._authorization = await self._provide()
        return self._authorization

    async def refused(self, authorization: str) -> bool:
        if authorization == self._authorization:
            self._asked = float("-inf")
        return await self.authorization() != authorization


def _bearer(found: ExecCredential) -> str:
    return f"Bearer {found.token}" if found.token else ""
