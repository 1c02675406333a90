"""Asyncio clients of the broker, whose calls can be cancelled and which find the server that has the data.

redis-py sends every command under `asyncio.wait_for`. Before Python 3.12 that swallows a cancellation that arrives in
the moment its inner task is done: the call returns normally, and the cancelled task runs on for ever. These connections
detect that and raise the cancellation after all.

Behind sentinels, and in a cluster, a new connection first asks where the server is. A server that answers that it is a
replica now, or that it lost the slot, counts as gone: the retry connects anew.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.sentinel import Sentinel
from redis.crc import key_slot

from scheduler.broker import refusals
from scheduler.broker.address import BrokerAddress, BrokerTLS, parse
from scheduler.broker.fast_path import FastClient, FastConnection, FastPool

#: Seconds a call waits for a connection when all are taken.
PATIENCE = 10.0

#: Seconds that a sentinel, or a node of a cluster, may take to name the server.
DISCOVERY = 2.0


class _Managed:
    """A connection to the broker. address: where it is.

    client_name: shown by CLIENT LIST, where the user may set it.
    """

    def __init__(self, *, address: BrokerAddress, client_name: str | None = None, **options: Any) -> None:
        self._address = address
        self._name = client_name
        super().__init__(**options)

    async def _connect(self) -> None:
        if self._address.is_discovered:
            self.host, self.port = await discover(self._address)
        await super()._connect()  # type: ignore[misc]

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        await super().on_connect_check_health(check_health=check_health)  # type: ignore[misc]
        if self._address.master:
            await self._check_role()
        if self._name:
            try:
                await self.send_command("CLIENT", "SETNAME", self._name, check_health=False)  # type: ignore[attr-defined]
                await self.read_response()
            except exceptions.ResponseError:
                pass  # managed services forbid CLIENT, and a name is a convenience

    async def _check_role(self) -> None:
        """Raises redis.exceptions.ConnectionError for a replica, which an outdated sentinel named: it answers reads."""
        try:
            await self.send_command("ROLE", check_health=False)  # type: ignore[attr-defined]
            role = (await self.read_response())[0]
        except exceptions.ResponseError:
            return  # the user may not ask; the first write is refused
        if role not in (b"master", "master"):
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise exceptions.ConnectionError(f"{self.host}:{self.port} is not the master: its role is a replica's")

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            await super().send_packed_command(command, check_health)  # type: ignore[misc]
        except RuntimeError as error:
            # uvloop says so of a transport that is closed already. redis-py connects anew after a ConnectionError.
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise exceptions.ConnectionError(f"the connection is closed: {error}") from error
        if task and task.cancelling() > before:
            # The command was sent; its answer must not be read as the next command's.
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise asyncio.CancelledError

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)  # type: ignore[misc]
        except exceptions.ResponseError as error:
            if refusals.is_elsewhere(error, self._address):
                await self.disconnect(nowait=True)  # type: ignore[attr-defined]
                raise exceptions.ConnectionError(f"{self.host}:{self.port} is not the master: {error}") from error
            explained = refusals.explained(error, self._address)
            if explained is error:
                raise
            raise explained from error


class _Plain(FastConnection, _Managed, Connection):
    pass


class _Tls(FastConnection, _Managed, SSLConnection):
    def __init__(self, *, server_name: str = "", **options: Any) -> None:
        self._server_name = server_name
        super().__init__(**options)

    def _connection_arguments(self) -> Any:
        arguments = dict(super()._connection_arguments())
        if self._server_name:
            arguments["server_hostname"] = self._server_name
        return arguments


def client(broker: BrokerAddress | str, **options: Any) -> redis.Redis:
    """Returns a client with a pool of its own. broker: its address, or its URL; options: of redis-py's connections.

    A call that finds all `max_connections` taken waits up to `PATIENCE` for one instead of failing at once. It speaks
    RESP2 with AUTH and SELECT alone (no HELLO), which every server allows. Raises ValueError for a URL that is none.
    """
    address = parse(broker) if isinstance(broker, str) else broker
    host, port = address.places[0]
    login = {"username": address.username, "password": address.password}
    return _of(address, host, port, address.tls, db=address.database, **login, **options)


def _of(address: BrokerAddress, host: str, port: int, tls: BrokerTLS | None, **options: Any) -> redis.Redis:
    patience = options.pop("timeout", PATIENCE)
    secured = {**tls.options(), "server_name": tls.server_name} if tls else {}
    pool = FastPool(
        timeout=patience,
        connection_class=_Tls if tls else _Plain,
        address=address,
        host=host,
        port=port,
        protocol=2,
        driver_info=None,
        **secured,
        **options,
    )
    return FastClient.from_pool(pool)


async def discover(address: BrokerAddress) -> tuple[str, int]:
    """Returns host and port of the server that has the data, as sentinels or nodes say.

    Raises redis.exceptions.ConnectionError with the reason of each if none of them knows.
    """
    asked = [_asked(address, host, port) for host, port in address.places]
    try:
        if address.master:
            sentinels: Any = Sentinel([])  # type: ignore[no-untyped-call]
            sentinels.sentinels = asked
            host, port = await sentinels.discover_master(address.master)
            return str(host), int(port)
        return await _owner(address, asked)
    finally:
        for each in asked:
            await each.aclose(close_connection_pool=True)


def _asked(address: BrokerAddress, host: str, port: int) -> redis.Redis:
    """Returns the client of a sentinel or a node."""
    direct = BrokerAddress(((host, port),))
    options: dict[str, Any] = {"socket_timeout": DISCOVERY, "socket_connect_timeout": DISCOVERY, "max_connections": 1}
    if address.master:
        login = {"username": address.sentinel_username, "password": address.sentinel_password}
        return _of(direct, host, port, address.sentinel_tls, **login, **options)
    return _of(direct, host, port, address.tls, username=address.username, password=address.password, **options)


async def _owner(address: BrokerAddress, nodes: Iterable[redis.Redis]) -> tuple[str, int]:
    reasons = []
    for (host, port), node in zip(address.places, nodes, strict=True):
        try:
            return slot_owner(address, host, await node.execute_command("CLUSTER SLOTS"))  # type: ignore[no-untyped-call]
        except (exceptions.RedisError, OSError) as error:
            reasons.append(f"{host}:{port}: {error}")
    raise exceptions.ConnectionError(f"no node names the owner of {address.slot_key}: {'; '.join(reasons)}")


def slot_owner(address: BrokerAddress, asked: str, slots: Any) -> tuple[str, int]:
    """Returns host and port of the master of our slot. asked: the host that answered, for a node without a name.

    slots: the answer to CLUSTER SLOTS. Raises redis.exceptions.ConnectionError if no node has it.
    """
    slot = key_slot(address.slot_key.encode())
    for first, last, (host, port, *_), *_replicas in slots:
        if first <= slot <= last:
            return (host or b"").decode() or asked, int(port)
    raise exceptions.ConnectionError(f"the cluster has no owner of slot {slot}")
