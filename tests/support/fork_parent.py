"""Processes of ours as forks of one that has imported their modules: a start without the imports, a second of CPU each.

    python -m tests.support.fork_parent <descriptor of a Unix socket>

A process of tests has threads, and must not fork. This one has none: it becomes a fork server for each installation
that tests run, as ``penstock up`` has one, and what ``python -m`` would run for single servers.
"""

import gc
import importlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NoReturn

import psutil
import setproctitle

from deploy.cli import forked_parts
from deploy.local.supervisor import fork_server
from deploy.local.supervisor.fork_server import LONGEST, ForkServer
from tests.support.forks import SIZE, read_number, start_parent


class Forked:
    """A process that was started as a fork: as much of `subprocess.Popen` as tests need."""

    def __init__(self, channel: socket.socket, arguments: Sequence[str]) -> None:
        self._channel = channel
        self._arguments = list(arguments)
        self.returncode: int | None = None
        self.pid = read_number(channel)

    def poll(self) -> int | None:
        """Returns its exit code, negative for a signal; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end. Raises subprocess.TimeoutExpired after so many seconds."""
        if self.returncode is None:
            self._channel.settimeout(timeout)
            try:
                self.returncode = read_number(self._channel)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self._arguments, timeout or 0) from None
            self._channel.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)


class ForkParent:
    """The parent of all forks: starts with the first one, and ends with this process."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._servers: set[int] = set()

    @contextmanager
    def forking(self) -> Iterator[ForkServer]:
        """Starts a fork server that has imported the modules of all parts."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            pid = self._ask({}, theirs.fileno())
        self._servers.add(pid)
        server = ForkServer(ours, pid)
        try:
            yield server
        finally:
            server.close()
            self._servers.remove(pid)

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        output: IO[bytes],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> Forked:
        """Starts what ``python -m module`` with these arguments would run, in a session of its own.

        module: one that has a function `main`, or a package whose ``__main__`` has. folder: else the current one.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        place = {"folder": str(folder or Path.cwd()), "environment": dict(environment)}
        with theirs:
            wanted = {"module": module, "arguments": list(arguments), **place}
            self._ask(wanted, theirs.fileno(), output.fileno())
        return Forked(ours, [module, *arguments])

    def parts(self) -> list[psutil.Process]:
        """Returns the processes that the fork servers started and that run."""
        found: list[psutil.Process] = []
        for pid in self._servers:
            with suppress(psutil.NoSuchProcess):
                found += psutil.Process(pid).children()
        return found

    def _ask(self, wanted: dict[str, object], *descriptors: int) -> int:
        """Returns the process id of the fork that got the descriptors."""
        if self._channel is None:
            self._channel = start_parent("tests.support.fork_parent", socket.SOCK_SEQPACKET)
        socket.send_fds(self._channel, [json.dumps(wanted).encode()], descriptors)
        return read_number(self._channel)


#: That of this process.
FORKS = ForkParent()


def _tell(channel: socket.socket, number: int) -> None:
    # Who asked may be gone by now.
    with suppress(BrokenPipeError):
        channel.send(number.to_bytes(SIZE, signed=True))


def serve(channel: socket.socket) -> None:
    """Forks for each request, until the socket's other end is closed."""
    # The first title finds the place that forks have for theirs; a changed environment would hide it.
    setproctitle.setproctitle("penstock tests: parent of forks")
    # Celery reads it while it is imported, and would replace the titles by which parts are known.
    os.environ["NOSETPS"] = "true"
    # The forks share this memory as long as no garbage collection writes to it.
    gc.disable()
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, LONGEST, 2)
        if not data:
            return
        _reap()
        wanted = json.loads(data)
        if (module := wanted.get("module", forked_parts.COMMAND)) == forked_parts.COMMAND:
            for modules in forked_parts.MODULES.values():
                fork_server.load(modules)
        else:
            fork_server.load([_main(module)])
        gc.freeze()
        if not (pid := os.fork()):
            channel.close()
            given = socket.socket(fileno=descriptors[0])
            if "module" in wanted:
                _keep(given, wanted, descriptors[1])
            fork_server.become(given, forked_parts.MODULES, forked_parts.COMMAND)
        for descriptor in descriptors:
            os.close(descriptor)
        _tell(channel, pid)


def _reap() -> None:
    """Waits for the forks that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _keep(channel: socket.socket, wanted: dict[str, object], output: int) -> NoReturn:
    """Starts the process that is wanted, and tells its id and its exit code."""
    if not (pid := os.fork()):
        channel.close()
        fork_server.leave(lambda: _run(**wanted, output=output))  # type: ignore[arg-type]
    os.close(output)
    _tell(channel, pid)
    _, status = os.waitpid(pid, 0)
    _tell(channel, os.waitstatus_to_exitcode(status))
    os._exit(0)


def _run(module: str, arguments: list[str], folder: str, environment: dict[str, str], output: int) -> None:
    os.setsid()
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    setproctitle.setproctitle(" ".join((sys.executable, "-m", *sys.argv)))
    gc.enable()
    importlib.import_module(_main(module)).main()


def _main(module: str) -> str:
    found = importlib.util.find_spec(module)
    return module if found is None or found.submodule_search_locations is None else f"{module}.__main__"


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
