"""The external scaler process: measures triggers for an existing KEDA until SIGINT or SIGTERM."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from deploy.processes import readiness, until_signal
from penstock.connections import Connections
from penstock.extras import needed
from scalers.external_server import Offer, Service
from scalers.polling.batched import BatchedReader
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.scaler_registry import REGISTRY
from scalers.sources.external.messages import EXTRA
from workers.errors import UserError
from workers.runtime.health import Health
from workers.settings import Settings

log = logging.getLogger(__name__)

#: Limit of concurrent calls, streams included.
_CALLS = 10_000

#: Longest time between two reads of a trigger whose activity is streamed and whose source sends no wake-ups, seconds.
_INTERVAL = 5.0

#: Seconds for calls to finish after the stop signal.
_GRACE = 2.0


def main(settings: Settings) -> None:
    """Runs until SIGINT or SIGTERM.

    Raises UserError for a type of trigger that there is not, and if it cannot listen at the configured address.
    """
    for type_ in settings.external_triggers:
        if problem := REGISTRY.unknown(type_):
            raise UserError(f"--external-triggers: {problem}")
    until_signal.run(settings, _run)


async def _run(settings: Settings, stop: asyncio.Event, _health: Health) -> None:
    async with serving(settings):
        readiness.announce()
        await stop.wait()


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[int]:
    """Runs the server; yields its port. Raises UserError if it cannot listen at the configured address."""
    broker = settings.broker_url
    offer = Offer(REGISTRY, settings.external_triggers, broker, settings.prefix, settings.keda_quirks)
    sources = BatchedReader(
        Connections(patience=settings.source_timeout / 4),
        CircuitBreakers(BreakerPolicy(cap=settings.polling, probe=settings.source_timeout)),
        timeout=settings.source_timeout,
        at_once=settings.source_in_flight,
    )
    service = Service(offer, sources, interval=min(_INTERVAL, settings.polling))
    options = [("grpc.so_reuseport", 0)]
    server = needed("grpc.aio", EXTRA).server(options=options, maximum_concurrent_rpcs=_CALLS)
    server.add_generic_rpc_handlers((service.handler(),))
    try:
        port = _listen(server, settings)
        await server.start()
        log.info("measuring triggers for an existing KEDA", extra=_described(settings, port))
        yield port
    finally:
        await server.stop(_GRACE)
        await service.close()
        await sources.close()


def _described(settings: Settings, port: int) -> dict[str, str]:
    """Returns the log fields on address, TLS, clients and triggers."""
    clients = "with a certificate of --external-clients" if settings.external_clients else "any"
    return {
        "address": f"{settings.external_listen.rpartition(':')[0]}:{port}",
        "tls": "on" if settings.external_cert else "off",
        "clients": clients,
        "triggers": ", ".join(settings.external_triggers) or "all",
    }


def _listen(server: Any, settings: Settings) -> int:
    address, cert, key = settings.external_listen, settings.external_cert, settings.external_key
    if (cert is None) != (key is None):
        raise UserError("--external-cert and --external-key must come together")
    if settings.external_clients and cert is None:
        raise UserError("--external-clients needs --external-cert")
    clients = _read(settings.external_clients) if settings.external_clients else None
    try:
        if cert is None or key is None:
            return int(server.add_insecure_port(address))
        pairs = [(_read(key), _read(cert))]
        credentials = needed("grpc", EXTRA).ssl_server_credentials(pairs, clients, clients is not None)
        return int(server.add_secure_port(address, credentials))
    except (RuntimeError, ValueError):
        raise UserError(f"--external-listen: {address} cannot be listened on") from None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from None
