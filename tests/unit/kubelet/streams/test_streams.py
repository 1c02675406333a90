"""Streams: what a request asks for, how a command is run, and how its end is told."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from deploy.local import kubelet_socket
from deploy.local.kubelet.streams import channels, descriptors, forwarding
from deploy.local.kubelet.streams.execution import ExecutionPlace, Streams, argv
from tests.support.tables import cases

NOTHING: Mapping[str, str] = MappingProxyType({})


@cases(
    ("output", {"stdout": "true", "stdin": "false"}, Streams(False, True, False, False)),
    ("all", {"stdin": "1", "stdout": "1", "stderr": "1"}, Streams(True, True, True, False)),
    (
        "a terminal has one output",
        {"stdin": "true", "stdout": "true", "stderr": "true", "tty": "true"},
        Streams(True, True, False, True),
    ),
    ("none", {"tty": "true"}, None),
)
def test_the_streams_of_a_request(query: Mapping[str, str], wanted: Streams | None) -> None:
    if wanted is None:
        with pytest.raises(ValueError, match="at least 1 of stdin, stdout, stderr"):
            Streams.of(query)
    else:
        assert Streams.of(query) == wanted


@cases(
    ("as it is", ExecutionPlace(NOTHING, Path("/w")), "", "ls -l"),
    ("in an isolated container", ExecutionPlace(NOTHING, Path("/w"), ("enter", "7")), "", "enter 7 ls -l"),
    (
        "a variable that shells drop",
        ExecutionPlace({"A": "1", "a.b": "c"}, Path("/w")),
        "/dev/pts/9",
        '/bin/sh -c exec <>"$0" >&0 2>&0; exec "$@" /dev/pts/9 /usr/bin/env -- a.b=c ls -l',
    ),
    (
        "on a terminal of an isolated container",
        ExecutionPlace(NOTHING, Path("/w"), ("enter", "7")),
        "/dev/pts/9",
        "enter 7 setsid --ctty ls -l",
    ),
    (
        "on a terminal",
        ExecutionPlace(NOTHING, Path("/w")),
        "/dev/pts/9",
        '/bin/sh -c exec <>"$0" >&0 2>&0; exec "$@" /dev/pts/9 ls -l',
    ),
)
def test_how_a_command_is_run(place: ExecutionPlace, terminal: str, wanted: str) -> None:
    assert " ".join(argv(["ls", "-l"], place, terminal)) == wanted


def test_an_exit_code_is_the_cause_that_clients_look_for() -> None:
    assert channels.ended(0)["status"] == "Success"
    status = channels.ended(3)
    assert (status["reason"], status["details"]) == (
        "NonZeroExitCode",
        {"causes": [{"reason": "ExitCode", "message": "3"}]},
    )


@cases(
    ("one", ["80"], [80]),
    ("several", ["80,81", "65535"], [80, 81, 65535]),
    ("none", [], 'query parameter "ports" is required'),
    ("zero", ["0"], 'port "0" must be'),
    ("too high", ["65536"], 'port "65536" must be'),
    ("no number", ["80,web"], 'port "web" must be'),
    ("too many", [str(port) for port in range(1, 102)], "at most 100 ports"),
)
def test_the_ports_of_a_request(asked: list[str], wanted: list[int] | str) -> None:
    if isinstance(wanted, list):
        assert forwarding.ports(asked) == wanted
    else:
        with pytest.raises(ValueError, match=wanted):
            forwarding.ports(asked)


async def test_output_ends_with_its_process_although_another_one_holds_the_pipe() -> None:
    reading, writing = os.pipe()
    sent: list[bytes] = []
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def send(data: bytes) -> None:
        sent.append(data)
        if len(sent) == 1:
            os.write(writing, b"last")
            ended.set_result(0)

    os.write(writing, b"first")
    await descriptors.pour(reading, ended, send)
    assert b"".join(sent) == b"firstlast"
    os.close(reading)
    os.close(writing)


async def test_input_that_is_not_taken_ends_with_the_process() -> None:
    reading, writing = os.pipe()
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    feeding = asyncio.ensure_future(descriptors.feed(writing, b"x" * 10_000_000, ended))
    await asyncio.sleep(0)
    assert not feeding.done()
    ended.set_result(0)
    with pytest.raises(BrokenPipeError):
        await feeding
    os.close(reading)
    os.close(writing)


@cases(("short", 1), ("too long for an address", 20))
async def test_the_socket_is_found_however_long_its_path_is(depth: int, tmp_path: Path) -> None:
    logs = tmp_path.joinpath(*["a" * 20] * depth)
    logs.mkdir(parents=True)
    socket = kubelet_socket.path(logs)
    with kubelet_socket.address(socket) as address:
        server = await asyncio.start_unix_server(lambda _, writer: writer.close(), address)
    with kubelet_socket.address(socket) as address:
        _, writer = await asyncio.open_unix_connection(address)
    # The other side closes at once, and nothing is read here.
    await asyncio.wait_for(kubelet_socket.hung_up(writer.transport), 60)
    writer.close()
    server.close()
