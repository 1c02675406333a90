"""Kombu's transport to the broker, for Celery's messages: connections as `scheduler.broker.clients` makes them.

Kombu reads a URL by rules of its own: without verification over TLS, with no server name, and with no cluster. So it
gets an address instead of a URL with its login, which Celery would log.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from kombu.transport import redis as kombu_redis
from redis import exceptions
from redis.sentinel import Sentinel

from scheduler.broker import refusals
from scheduler.broker.address import BrokerAddress, BrokerTLS
from scheduler.broker.clients import DISCOVERY, slot_owner


class _BlockingConnection:
    """As `scheduler.broker.clients`, without asyncio."""

    def __init__(self, *, address: BrokerAddress, client_name: str | None = None, **options: Any) -> None:
        self._address = address
        self._name = client_name
        super().__init__(**options)

    def _connect(self) -> Any:
        if self._address.is_discovered:
            self.host, self.port = discover(self._address)
        return super()._connect()  # type: ignore[misc]

    def on_connect_check_health(self, check_health: bool = True) -> None:
        super().on_connect_check_health(check_health=check_health)  # type: ignore[misc]
        if self._name:
            try:
                self.send_command("CLIENT", "SETNAME", self._name, check_health=False)  # type: ignore[attr-defined]
                self.read_response()
            except exceptions.ResponseError:
                pass  # managed services forbid CLIENT, and a name is a convenience

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        except exceptions.ResponseError as error:
            if refusals.is_elsewhere(error, self._address):
                self.disconnect()  # type: ignore[attr-defined]
                raise exceptions.ConnectionError(f"{self.host}:{self.port} is not the master: {error}") from error
            if refusals.is_for_now(error):
                # A Celery worker ends by any other error, and connects again after this one.
                self.disconnect()  # type: ignore[attr-defined]
                raise exceptions.ConnectionError(f"{self.host}:{self.port} refuses to write: {error}") from error
            explained = refusals.explained(error, self._address)
            if explained is error:
                raise
            raise explained from error


class _BlockingPlain(_BlockingConnection, redis.Connection):
    pass


class _BlockingTls(_BlockingConnection, redis.SSLConnection):
    def __init__(self, *, server_name: str = "", **options: Any) -> None:
        self._server_name = server_name
        super().__init__(**options)

    def _wrap_socket_with_ssl(self, sock: Any) -> Any:
        if not self._server_name:
            return super()._wrap_socket_with_ssl(sock)  # type: ignore[no-untyped-call]
        # redis-py verifies the host's name, and takes it from there alone.
        host, self.host = self.host, self._server_name
        try:
            return super()._wrap_socket_with_ssl(sock)  # type: ignore[no-untyped-call]
        finally:
            self.host = host


def discover(address: BrokerAddress) -> tuple[str, int]:
    """As `scheduler.broker.clients.discover`."""
    with _asked(address) as asked:
        if address.master:
            sentinels: Any = Sentinel([])  # type: ignore[no-untyped-call]
            sentinels.sentinels = asked
            host, port = sentinels.discover_master(address.master)
            return str(host), int(port)
        reasons = []
        for (host, port), node in zip(address.places, asked, strict=True):
            try:
                return slot_owner(address, host, node.execute_command("CLUSTER SLOTS"))  # type: ignore[no-untyped-call]
            except (exceptions.RedisError, OSError) as error:
                reasons.append(f"{host}:{port}: {error}")
        raise exceptions.ConnectionError(f"no node names the owner of {address.slot_key}: {'; '.join(reasons)}")


@contextmanager
def _asked(address: BrokerAddress) -> Iterator[list[redis.Redis]]:
    """Opens the clients of the sentinels or nodes."""
    login = (address.username, address.password)
    tls = address.tls
    if address.master:
        login, tls = (address.sentinel_username, address.sentinel_password), address.sentinel_tls
    clients = [
        redis.Redis(
            connection_pool=redis.ConnectionPool(
                connection_class=_BlockingTls if tls else _BlockingPlain,
                address=BrokerAddress(((host, port),)),
                host=host,
                port=port,
                username=login[0],
                password=login[1],
                socket_timeout=DISCOVERY,
                socket_connect_timeout=DISCOVERY,
                protocol=2,
                driver_info=None,
                **_secured(tls),
            )
        )
        for host, port in address.places
    ]
    try:
        yield clients
    finally:
        for each in clients:
            each.connection_pool.disconnect()


def _secured(tls: BrokerTLS | None) -> dict[str, Any]:
    return {**tls.options(), "server_name": tls.server_name} if tls else {}


class BrokerChannel(kombu_redis.Channel):  # type: ignore[misc]
    """A channel to the broker that the transport option `address` names."""

    address: BrokerAddress
    # A worker that loses the broker could put nothing back: kombu would write what it had into a file.
    do_restore = False

    from_transport_options = (*kombu_redis.Channel.from_transport_options, "address")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        try:
            # A server that answers may refuse to write. Celery waits ever longer for one that cannot be connected to,
            # and not at all after an error on a connection that stands.
            self.client.set("writable", 1, px=1000)
        except exceptions.RedisError:
            self.close()
            raise

    @property
    def connection_class(self) -> type[Any]:
        """Kombu derives from it what its event loop polls."""
        return _BlockingTls if self.address.tls else _BlockingPlain

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        address = self.address
        host, port = address.places[0]
        params: dict[str, Any] = super()._connparams(asynchronous)
        params.update(
            address=address,
            host=host,
            port=port,
            db=address.database,
            username=address.username,
            password=address.password,
            protocol=2,
            driver_info=None,
            **_secured(address.tls),
        )
        return params


class BrokerTransport(kombu_redis.Transport):  # type: ignore[misc]
    """The transport of Penstock's Celery app; its `broker_url` names no login."""

    Channel = BrokerChannel


def celery_options(address: BrokerAddress) -> dict[str, Any]:
    """Returns the settings of Celery that select the broker; `broker_transport_options` are to be added to."""
    host, port = address.places[0]
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return {
        "broker_url": f"redis://{where}/{address.database}",
        "broker_transport": f"{__name__}:{BrokerTransport.__name__}",
        "broker_transport_options": {"address": address},
    }
