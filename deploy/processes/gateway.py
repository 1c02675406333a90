"""The gateway process: takes events over HTTP, and serves the page, until SIGINT or SIGTERM."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from redis.exceptions import RedisError
from starlette.applications import Starlette

from deploy.page.app import ServedPage, opened
from deploy.page.authorization import PageAuthorization
from deploy.processes import client_certificate, https, readiness, until_signal
from scalers.deliveries.deliveries import Deliveries
from scalers.gateway.asgi_app import App, GatewayApp
from scalers.gateway.auth.push_authenticator import PushAuthenticator
from scalers.gateway.auth.replay_guard import ReplayGuard
from scalers.gateway.auth.token_reviews import TokenReviews
from scalers.gateway.destinations import Destinations
from scalers.gateway.event_status import EventStatus
from scalers.gateway.group_commit import GroupCommit
from scalers.gateway.overload import Load
from scalers.gateway.push_handler import PushHandler
from scalers.polling.poll_worker import lookups_of, triggers_of, vaults_of
from scheduler.keys import Keys
from workers.client.rest import Cluster
from workers.errors import UserError
from workers.runtime import garbage_collection
from workers.runtime.health import Health
from workers.settings import Settings
from workers.tracing import span_export
from workers.tracing.push_tracing import PushTracing
from workers.wiring import BrokerServices, broker_services, connect

log = logging.getLogger(__name__)

#: Seconds between two looks at the files of certificates.
LOOK = 5.0
#: Seconds that the broker may take to say that it is there, and for which its answer holds.
PING, PINGED = 2.0, 0.5
#: Connections that one process has open at once.
CONNECTIONS = 8_192


def main(settings: Settings) -> None:
    """Runs until SIGINT or SIGTERM.

    Raises UserError if it cannot listen at the configured address, or cannot use the certificates.
    """
    until_signal.run(settings, _run, loop=uvloop.new_event_loop)


async def _run(settings: Settings, stop: asyncio.Event, health: Health) -> None:
    listener = https.listen(settings.gateway, "--gateway")
    certificates = CertificateFiles.of(settings)
    async with gateway(settings) as parts:
        garbage_collection.begin()
        health.check("gateway", parts.ready.finding)
        host, port = listener.getsockname()[:2]
        log.info("the gateway listens", extra={"address": f"{host}:{port}", "tls": "on" if certificates else "off"})
        await serve(parts, listener, certificates, stop)


@dataclass
class Gateway:
    """An assembled gateway.

    app: its ASGI application. drain: seconds from not ready to the end. end: ends the streams of the page, which a
    server that stops would wait for.
    """

    app: App
    ready: "Readiness"
    drain: float = 0.0
    end: Callable[[], None] = lambda: None


@dataclass
class Readiness:
    """Says if requests should come here: the broker answers, and the process is not about to end."""

    broker: Any
    ending: bool = False
    _answer: bool = False
    _until: float = field(default=float("-inf"))

    async def finding(self) -> str | None:
        """Returns the reason against it, None if they should."""
        if self.ending:
            return "it is about to end"
        return None if await self() else "the broker does not answer"

    async def __call__(self) -> bool:
        if self.ending:
            return False
        if time.monotonic() >= self._until:
            try:
                async with asyncio.timeout(PING):
                    self._answer = bool(await self.broker.ping())
            except (RedisError, OSError, TimeoutError):
                self._answer = False
            self._until = time.monotonic() + PINGED
        return self._answer


@asynccontextmanager
async def gateway(settings: Settings) -> AsyncIterator[Gateway]:
    """Assembles everything that answers requests."""
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(broker_services(settings))
        cluster = await connect(settings)
        stack.push_async_callback(cluster.close)
        handler = await _handler(settings, parts, cluster, stack)
        ready = Readiness(parts.client)
        page = await _page(settings, parts, cluster, stack)
        app = GatewayApp(handler, ready, Starlette(routes=page.routes))
        yield Gateway(app, ready, settings.gateway_drain, page.end)


async def _page(settings: Settings, parts: BrokerServices, cluster: Cluster, stack: AsyncExitStack) -> ServedPage:
    # Visitors' requests carry the visitors' tokens alone.
    visitors = await Cluster.connect(
        kubeconfig=settings.kubeconfig,
        context=settings.context,
        timeout=settings.timeout,
        in_flight=settings.in_flight,
        anonymous=True,
    )
    stack.push_async_callback(visitors.close)
    authorizer, records = PageAuthorization(visitors), Deliveries(parts.client, Keys(settings.prefix))
    return await stack.enter_async_context(opened(settings, parts.client, cluster, authorizer, records))


async def _handler(settings: Settings, parts: BrokerServices, cluster: Cluster, stack: AsyncExitStack) -> PushHandler:
    keys = Keys(settings.prefix)
    vaults, lookups = vaults_of(settings), lookups_of(settings, cluster)
    stack.push_async_callback(vaults.close)
    replays = ReplayGuard(parts.client, settings.prefix)
    destinations = Destinations(parts.store, keys, triggers_of(settings, lookups, vaults))
    if sink := span_export.opened(settings):
        # It waits for the collector.
        stack.push_async_callback(asyncio.to_thread, sink.close)
    commit = GroupCommit(parts.client, parts.lanes["poll"], parts.notify)
    stack.push_async_callback(commit.close)
    return PushHandler(
        destinations=destinations,
        authenticator=PushAuthenticator(lookups, TokenReviews(cluster.request), replays),
        commit=commit,
        status=EventStatus(destinations, Deliveries(parts.client, keys), commit.client_of),
        load=Load(settings.gateway_requests),
        tracing=PushTracing(sink),
    )


async def serve(
    gateway: Gateway, listener: socket.socket, certificates: "CertificateFiles | None", stop: asyncio.Event
) -> None:
    """Answers requests until `stop` is set; then says that it is not ready, and answers those that have arrived."""
    async with AsyncExitStack() as generations:
        current = await generations.enter_async_context(_listening(gateway, listener, certificates))
        readiness.announce()
        stopped = asyncio.create_task(stop.wait())
        while not stopped.done():
            await asyncio.wait({stopped, current.serving}, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            if current.serving.done() and not stopped.done():
                stopped.cancel()
                raise UserError("the server ended by itself")
            if certificates and certificates.changed():
                # Connections that are open keep the certificates they began with.
                following = await generations.enter_async_context(_listening(gateway, listener, certificates))
                current.server.should_exit = True
                current = following
        gateway.ready.ending = True
        log.info("the gateway ends", extra={"drain": gateway.drain})
        await asyncio.sleep(gateway.drain)
        gateway.end()
    listener.close()


@dataclass(frozen=True, slots=True)
class _Generation:
    """A server with the certificates of its time, on the one socket."""

    server: https.SignalFreeServer
    serving: "asyncio.Task[None]"


@asynccontextmanager
async def _listening(
    gateway: Gateway, listener: socket.socket, certificates: "CertificateFiles | None"
) -> AsyncIterator[_Generation]:
    tls: dict[str, Any] = {}
    if certificates:
        context = certificates.context()
        tls = {"ssl_context_factory": lambda _config, _default: context}
    config = https.configured(gateway.app, http=client_certificate.CertificateHttp, **tls)
    config.limit_concurrency = CONNECTIONS
    server = https.SignalFreeServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener.dup()]))
    try:
        listening = asyncio.create_task(server.listening.wait())
        await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        yield _Generation(server, serving)
    finally:
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)


@dataclass
class CertificateFiles:
    """The files of TLS. clients: authorities of clients' certificates."""

    cert: Path
    key: Path
    clients: Path | None
    _known: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> "CertificateFiles | None":
        """Returns the files that the settings name, None without any. Raises UserError if they cannot be used."""
        if (settings.tls_cert is None) != (settings.tls_key is None):
            raise UserError("--tls-cert and --tls-key must come together")
        if settings.tls_cert is None or settings.tls_key is None:
            if settings.client_ca:
                raise UserError("--client-ca needs --tls-cert")
            return None
        found = cls(settings.tls_cert, settings.tls_key, settings.client_ca)
        found.context()
        found._known = found._read()
        return found

    def context(self) -> ssl.SSLContext:
        """Returns a context with the files as they are. Raises UserError if they cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise UserError(f"--tls-cert: {self.cert}: {error}") from error
        if self.clients:
            client_certificate.ask_for(context, self.clients)
        return context

    def changed(self) -> bool:
        """Returns true once after the files have changed, if they can be used."""
        try:
            now = self._read()
            if now == self._known:
                return False
            self.context()
        except (OSError, UserError) as error:
            # A file is being replaced, or was broken: the last certificates stay.
            log.warning("the certificates cannot be used; the last ones stay", extra={"error": str(error)})
            return False
        self._known = now
        log.info("the certificates have changed")
        return True

    def _read(self) -> tuple[bytes, ...]:
        return tuple(path.read_bytes() for path in (self.cert, self.key, self.clients) if path)
