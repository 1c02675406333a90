"""What the embedded server took for clients and objects it gives back when they are gone: memory and descriptors."""

import os
import socket
import ssl
import struct
from collections.abc import Callable
from urllib.parse import urlsplit

import psutil

from deploy.local.apiserver.storage import watch_streams
from tests.integration.apiserver.client import Api, config_map, until
from tests.support.embedded import Embedded
from tests.support.tables import for_each

#: Objects and bytes of each: together they are more than the changes that are remembered at most.
OBJECTS, SIZE = 200, 100_000
CLIENTS = 30
WATCH = "/api/v1/configmaps?watch=1"


def process_of(server: Embedded) -> psutil.Process:
    assert server.process is not None
    return psutil.Process(server.process.pid)


def test_the_memory_of_deleted_objects_goes_back(own: Embedded) -> None:
    api, process = Api(own.kubeconfig), process_of(own)

    def make(names: range) -> None:
        for number in names:
            api.create(api.maps, {**config_map(f"m-{number}"), "data": {"a": str(number % 10) * SIZE}})

    make(range(OBJECTS, OBJECTS + 3))
    rest = process.memory_info().rss
    make(range(OBJECTS))
    taken = process.memory_info().rss - rest
    assert taken > OBJECTS * SIZE > 2 * watch_streams.HISTORY_BYTES
    assert api("DELETE", api.maps).code == 200
    api.pool.clear()
    until(lambda: process.memory_info().rss - rest < taken / 3, f"at most a third of {taken / 1e6:.0f} MB is kept")


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(connection.detach())


def _closed(connection: socket.socket) -> None:
    # As the system does it for a process that is killed: without TLS's goodbye.
    os.close(connection.detach())


@for_each(_reset, _closed)
@for_each(WATCH, "/version")
def test_clients_that_are_killed_leave_no_descriptor(
    path: str, leave: Callable[[socket.socket], None], own: Embedded
) -> None:
    host, port = str(urlsplit(own.url).hostname), urlsplit(own.url).port
    trust = ssl.create_default_context(cadata=own.authority)

    def ask() -> socket.socket:
        connection = trust.wrap_socket(socket.create_connection((host, port)), server_hostname=host)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {own.token}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        return connection

    process = process_of(own)
    before = process.num_fds()
    connections = [ask() for _ in range(CLIENTS)]
    assert process.num_fds() >= before + CLIENTS
    for connection in connections:
        leave(connection)
    until(lambda: process.num_fds() < before + CLIENTS / 10, "their descriptors are closed")
