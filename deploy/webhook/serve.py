"""The webhook process: obtains a certificate, then answers reviews until SIGINT or SIGTERM."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from deploy.processes import https, readiness, until_signal
from deploy.webhook.app import app
from deploy.webhook.certificate_keeper import Keeper
from deploy.webhook.registration import MATCH_CONDITIONS, Place
from workers import wiring
from workers.admission.admission_options import AdmissionOptions
from workers.cancellation import cancelled
from workers.client.rest import Cluster
from workers.errors import ClusterError
from workers.json_logs import Outage
from workers.runtime.health import Health
from workers.settings import Settings

log = logging.getLogger(__name__)

#: Seconds between two checks of the certificate, and after a failed check.
INTERVAL, RETRY = 30.0, 2.0


def main(settings: Settings) -> None:
    """Runs until SIGINT or SIGTERM. Raises UserError if it cannot listen at the configured address."""
    until_signal.run(settings, _run)


async def _run(settings: Settings, stop: asyncio.Event, health: Health) -> None:
    listener = https.listen(settings.webhook_listen, "--webhook-listen")
    cluster = await wiring.connect(settings)
    registered = asyncio.Event()
    health.check("API server", wiring.cluster_answers(cluster))
    health.check("webhook", lambda: finding(registered, stop))

    def announce() -> None:
        registered.set()
        readiness.announce()

    try:
        await serve(settings, cluster, listener, stop, announce=announce)
    finally:
        await cluster.close()


async def finding(registered: asyncio.Event, stop: asyncio.Event) -> str | None:
    """Returns why no review should come here, None if it should."""
    if stop.is_set():
        return "it is about to end"
    return None if registered.is_set() else "it is not registered with the API server yet"


async def serve(
    settings: Settings, cluster: Cluster, listener: socket.socket, stop: asyncio.Event, *, announce: Callable[[], None]
) -> None:
    """Answers reviews until `stop` is set, and for `webhook_drain` seconds more: API servers still come by the Service.

    announce: called once the webhook is registered with the API server.
    """
    options = AdmissionOptions(settings.scheduler_names, settings.pod_scheduler, gangs=settings.volcano)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    place = Place(
        settings.own_namespace,
        settings.webhook_service,
        settings.webhook_url,
        match_conditions=await _has_match_conditions(cluster),
    )
    keeper = Keeper(cluster, place, options, context)
    async with served(cluster, options, context, listener) as serving:
        keeping, stopped = asyncio.create_task(_keep(keeper, announce)), asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait({serving, keeping, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            log.info("the webhook ends", extra={"drain": settings.webhook_drain})
            await asyncio.sleep(settings.webhook_drain)
        finally:
            await cancelled(keeping, stopped)


@asynccontextmanager
async def served(
    cluster: Cluster, options: AdmissionOptions, context: ssl.SSLContext, listener: socket.socket
) -> AsyncIterator[asyncio.Task[None]]:
    """Runs the server; yields its task."""
    # A context instead of files, because the keeper replaces the certificate while the server runs.
    server = https.SignalFreeServer(
        https.configured(app(cluster, options), ssl_context_factory=lambda _config, _default: context)
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield serving
    finally:
        server.should_exit = True
        await serving


async def _keep(keeper: Keeper, announce: Callable[[], None]) -> None:
    """Runs the keeper until cancelled."""
    outage, announced = Outage(log), False
    while True:
        try:
            await keeper.keep(datetime.now(UTC))
        except ClusterError as error:
            outage.lasts("could not renew or register the certificate", error=str(error))
            await asyncio.sleep(RETRY)
            continue
        outage.over("the certificate can be renewed and registered again")
        if not announced:
            announced = True
            announce()
        await asyncio.sleep(INTERVAL)


async def _has_match_conditions(cluster: Cluster) -> bool:
    """Returns True if the API server supports matchConditions."""
    version = await cluster.request("GET", "/version")
    minor = "".join(character for character in str(version.get("minor", "")) if character.isdigit())
    return int(minor or 0) >= MATCH_CONDITIONS
