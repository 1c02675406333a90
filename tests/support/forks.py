"""Runs ``penstock`` command lines as forks of one process that has imported everything: a start without the imports.

    python -m tests.support.forks <descriptor of a Unix socket>

A fork has its own streams, folder, environment and exit code, as a process that was started afresh has, and costs a
tenth of one. Their parent runs nothing itself: it has no thread, event loop or connection.
"""

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.paths import ROOT

#: Modules that client commands import when they run.
MODULES = (
    "deploy.cli.main",
    "deploy.cli.api_connection",
    "rich.table",
    "workers.api.crds",
    "workers.client.rest",
    "workers.settings",
)
#: Bytes of a number on the socket.
SIZE = 8


class ForkServer:
    """The parent of all forks: starts with the first command line and ends with this process."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def run(
        self, words: Sequence[str], *, stdin: str, folder: Path, environment: Mapping[str, str], timeout: float
    ) -> "subprocess.CompletedProcess[str]":
        """Carries out one command line, as `subprocess.run` does with text."""
        channel = self._socket = self._socket or start_parent("tests.support.forks")
        request = json.dumps({"words": list(words), "folder": str(folder), "environment": dict(environment)}).encode()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            socket.send_fds(channel, [len(request).to_bytes(SIZE)], [given.fileno(), out.fileno(), err.fileno()])
            channel.sendall(request)
            pid = read_number(channel)
            channel.settimeout(timeout)
            try:
                code = read_number(channel)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                channel.settimeout(None)
                read_number(channel)
                raise subprocess.TimeoutExpired(list(words), timeout) from None
            channel.settimeout(None)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(list(words), code, out.read().decode(), err.read().decode())


def start_parent(module: str, type: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """Starts a parent of forks, which ends with this process, and returns the socket to it.

    module: is run with the descriptor of the socket's other end.
    """
    here, there = socket.socketpair(socket.AF_UNIX, type)
    with there:
        argv = [sys.executable, "-m", module, str(there.fileno())]
        process = subprocess.Popen(argv, cwd=ROOT, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)

    def stop() -> None:
        here.close()
        process.wait()

    atexit.register(stop)
    return here


def read_number(channel: socket.socket) -> int:
    """Returns a number that the parent tells. Raises EOFError if it has ended."""
    data = channel.recv(SIZE, socket.MSG_WAITALL)
    if len(data) < SIZE:
        raise EOFError("the parent of the forks has ended")
    return int.from_bytes(data, signed=True)


def serve(channel: socket.socket) -> None:
    """Forks for each request, and waits for the fork, until the socket's other end is closed."""
    for module in MODULES:
        importlib.import_module(module)
    main = importlib.import_module("deploy.cli.main")
    for name in main.LISTED:
        main.command_of(name)
    # The forks share this memory as long as no garbage collection writes to it.
    gc.freeze()
    while True:
        head, descriptors, _, _ = socket.recv_fds(channel, SIZE, 3)
        if not head:
            return
        request = json.loads(channel.recv(int.from_bytes(head), socket.MSG_WAITALL))
        pid = os.fork()
        if not pid:
            channel.close()
            _become(request["words"], request["folder"], request["environment"], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.sendall(pid.to_bytes(SIZE, signed=True))
        _, status = os.waitpid(pid, 0)
        channel.sendall(os.waitstatus_to_exitcode(status).to_bytes(SIZE, signed=True))


def _become(words: Sequence[str], folder: str, environment: Mapping[str, str], streams: Sequence[int]) -> None:
    """Does in this process what the command line says, and ends it."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["penstock", *words]
    code = 1
    try:
        importlib.import_module("deploy.cli.main").main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without taking down the interpreter, module by module, which costs more than most commands.
    os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
