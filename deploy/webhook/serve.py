"""Running the webhook: a certificate first, then answers, until a signal comes."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime

import uvicorn

from deploy.processes import https, readiness, until_signal
from deploy.webhook.app import app
from deploy.webhook.certificate_keeper import Keeper
from deploy.webhook.registration import CHOOSING, Place
from workers import wiring
from workers.admission.admission_options import AdmissionOptions
from workers.client.rest import Cluster
from workers.errors import ClusterError, UserError
from workers.logs import Outage
from workers.settings import Settings

log = logging.getLogger(__name__)

#: Seconds between two looks at the certificate, and after a look that failed.
LOOK, SOON = 30.0, 2.0


def main(settings: Settings) -> None:
    """Run until SIGINT or SIGTERM. Raises UserError when it cannot listen as it is told to."""
    until_signal.run(settings, _until_told)


async def _until_told(settings: Settings, told: asyncio.Event) -> None:
    listener = listen(settings.webhook_listen)
    cluster = await wiring.connect(settings)
    try:
        await serve(settings, cluster, listener, told, announce=readiness.announce)
    finally:
        await cluster.close()


def listen(address: str) -> socket.socket:
    """A listening socket at ``HOST:PORT``. Raises UserError."""
    host, _, port = address.rpartition(":")
    try:
        listener = socket.create_server((host.strip("[]"), int(port)), family=_family(host), backlog=1024)
    except (OSError, ValueError, OverflowError) as error:
        raise UserError(f"--webhook-listen: {address} cannot be listened on: {error}") from error
    listener.setblocking(False)
    return listener


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


async def serve(
    settings: Settings, cluster: Cluster, listener: socket.socket, told: asyncio.Event, *, announce: Callable[[], None]
) -> None:
    """Answer until told to stop. announce: called once the API server knows that it may ask."""
    options = AdmissionOptions(settings.scheduler_names, settings.pod_scheduler, gangs=settings.volcano)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    place = Place(
        settings.own_namespace, settings.webhook_service, settings.webhook_url, choosing=await _choosing(cluster)
    )
    keeper = Keeper(cluster, place, options, context)
    async with served(cluster, options, context, listener) as serving:
        keeping, stop = asyncio.create_task(_keep(keeper, announce)), asyncio.create_task(told.wait())
        try:
            done, _ = await asyncio.wait({serving, keeping, stop}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (keeping, stop):
                task.cancel()
            await asyncio.gather(keeping, stop, return_exceptions=True)


class _WebhookServer(uvicorn.Server):
    """Uvicorn, that leaves signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(
    cluster: Cluster, options: AdmissionOptions, context: ssl.SSLContext, listener: socket.socket
) -> AsyncIterator[asyncio.Task[None]]:
    """The server, for the length of a block; yields its task."""
    # Not files: the certificate changes while this context is in use.
    server = _WebhookServer(
        https.configured(app(cluster, options), ssl_context_factory=lambda _config, _default: context)
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield serving
    finally:
        server.should_exit = True
        await serving


async def _keep(keeper: Keeper, announce: Callable[[], None]) -> None:
    """Looks after the certificate for ever."""
    outage, told = Outage(log), False
    while True:
        try:
            await keeper.keep(datetime.now(UTC))
        except ClusterError as error:
            outage.lasts("could not look after the certificate", error=str(error))
            await asyncio.sleep(SOON)
            continue
        outage.over("the certificate is looked after again")
        if not told:
            told = True
            announce()
        await asyncio.sleep(LOOK)


async def _choosing(cluster: Cluster) -> bool:
    """Whether the API server can be told to ask about chosen pods only."""
    version = await cluster.request("GET", "/version")
    minor = "".join(character for character in str(version.get("minor", "")) if character.isdigit())
    return int(minor or 0) >= CHOOSING
