"""Lengths of queues of a RabbitMQ broker, over AMQP 0-9-1."""

import asyncio
import importlib
from dataclasses import dataclass, field
from typing import Any

from penstock.extras import needed
from penstock.scaler import Connections, SourceError, Unreached
from scalers.sources.tls import TLS


@dataclass(frozen=True, slots=True)
class AmqpBroker:
    """A virtual host of a broker, with the login. The password is in neither repr nor text."""

    host: str
    port: int
    vhost: str
    user: str
    password: str = field(repr=False)
    tls: TLS | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"amqp://{self.host}:{self.port}/{self.vhost.removeprefix('/')}"


class AmqpLink:
    """One connection to a broker, opened when it is first needed."""

    def __init__(self, broker: AmqpBroker) -> None:
        self._broker = broker
        self._connection: Any = None
        self._opening = asyncio.Lock()

    async def channel(self) -> Any:
        """Returns a new channel; a passive declare of a missing queue closes its channel."""
        aio_pika = needed("aio_pika", "rabbitmq")
        async with self._opening:
            if self._connection is None or self._connection.is_closed:
                broker = self._broker
                self._connection = await aio_pika.connect(
                    host=broker.host,
                    port=broker.port,
                    login=broker.user,
                    password=broker.password,
                    virtualhost=broker.vhost,
                    ssl=broker.tls is not None,
                    ssl_context=broker.tls.context() if broker.tls else None,
                )
        return await self._connection.channel()

    async def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            await self._connection.close()


async def length(broker: AmqpBroker, queue: str, connections: Connections) -> float:
    """Returns the number of ready messages in the queue. Raises SourceError; Unreached without an answer of the broker.

    Cancelled, it retires the connection, for the answer may still arrive there: the next request uses a new one.
    """
    needed("aio_pika", "rabbitmq")
    exceptions = importlib.import_module("aiormq.exceptions")
    async with connections.use(broker, lambda: AmqpLink(broker), AmqpLink.close) as link:
        try:
            return await _length(link, broker, queue, exceptions)
        except asyncio.CancelledError:
            connections.retire(broker, link)
            raise


async def _length(link: AmqpLink, broker: AmqpBroker, queue: str, exceptions: Any) -> float:
    try:
        channel = await link.channel()
    # RuntimeError: of a connection that is known to have broken, which the library does not call closed.
    except (exceptions.AMQPError, OSError, RuntimeError) as error:
        raise Unreached(f"{broker}: {_said(error)}") from error
    try:
        declared = await channel.declare_queue(queue, passive=True)
        await channel.close()
    except (exceptions.AMQPConnectionError, RuntimeError) as error:
        raise Unreached(f"{broker}: {_said(error)}") from error
    except exceptions.AMQPError as error:
        raise SourceError(f"{broker}: queue {queue}: {_said(error)}") from None
    return float(declared.declaration_result.message_count)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
