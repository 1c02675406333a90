"""Ports that tests give to servers: nobody else's, and nobody else's later."""

import socket
import subprocess
import sys

import pytest

from tests.support import ports
from tests.support.tables import for_each

#: Another run, which takes every port of the range it can get.
OTHER = """
import sys
from tests.support import ports
ports.RANGE = range(int(sys.argv[1]), int(sys.argv[2]))
taken = []
try:
    while True:
        taken.append(ports.free_port())
except OSError:
    print(*taken)
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> range:
    """Only these ports are there."""
    first = ports.free_ports(1)[0] // 10 * 10
    monkeypatch.setattr(ports, "RANGE", range(first, first + 10))
    return ports.RANGE


def test_no_port_is_given_out_twice(few: range) -> None:
    mine = ports.free_ports(5)
    assert len(set(mine)) == 5
    assert set(mine) <= set(few)
    with pytest.raises(OSError, match="no free port"):
        ports.free_ports(len(few) - 5)


def test_another_run_gets_none_of_ours(few: range) -> None:
    mine = ports.free_ports(3)
    words = [sys.executable, "-c", OTHER, str(few.start), str(few.stop)]
    theirs = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    assert theirs
    assert not {str(port) for port in mine} & set(theirs)


@for_each("127.0.0.1", "0.0.0.0")
def test_a_port_that_somebody_listens_on_is_passed_over(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((address, 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(ports, "RANGE", range(port, port + 1))
        with pytest.raises(OSError, match="no free port"):
            ports.free_port()


def test_a_server_starts_on_a_port_whose_last_one_has_just_stopped() -> None:
    port = ports.free_port()
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", port)):
            accepted, _ = server.accept()
            accepted.close()
