"""The fork server: a process that has imported Penstock's modules and starts parts as forks of itself.

A fork imports nothing, and it shares the memory of what was imported with the server and all other forks. The server
has no thread, event loop or connection. It is itself a fork, of a process that has none of these yet.
"""

import asyncio
import atexit
import gc
import importlib
import itertools
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import setproctitle

from deploy.local.supervisor.guard import signal_group
from penstock import _import_path

#: Bytes of the longest message between the two: a command line with its environment.
LONGEST = 150_000
#: The modules of each part, by the first word of its command. They read neither environment nor files when imported.
Modules = Mapping[str, Sequence[str]]
#: How a part counts whose end the server could not tell: as killed, which says nothing about the part.
UNKNOWN = -signal.SIGKILL

#: How the command lines of our own processes begin (`deploy.processes.command_lines.own`, which imports too much here).
_PREFIX = (sys.executable, "-P", str(_import_path.MAIN))


class ForkServer:
    """The client's end."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self._channel = channel
        self._pid = pid
        self._children: dict[int, ForkedProcess] = {}
        self._asked: dict[int, asyncio.Future[ForkedProcess]] = {}
        self._requests = itertools.count()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def alive(self) -> bool:
        """Returns True if the server can start processes."""
        return self._channel.fileno() >= 0

    @staticmethod
    def serves(argv: Sequence[str]) -> bool:
        """Returns True for a command line of ours; other programs are no Python modules of this installation."""
        return tuple(argv[: len(_PREFIX)]) == _PREFIX

    async def start(self, argv: Sequence[str], environment: Mapping[str, str]) -> "ForkedProcess":
        """Starts a command line in a session of its own. Raises ConnectionError if the server is gone."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._channel.setblocking(False)
            self._loop.add_reader(self._channel, self._receive)
        number, words = next(self._requests), list(argv[len(_PREFIX) :])
        request = json.dumps({"number": number, "words": words, "environment": dict(environment)}).encode()
        if len(request) > LONGEST:
            raise ConnectionError(f"a command line with its environment has more than {LONGEST} bytes")
        ours, theirs = os.pipe()
        try:
            socket.send_fds(self._channel, [request], [theirs])
        except OSError as error:
            os.close(ours)
            raise ConnectionError("the fork server is gone") from error
        finally:
            os.close(theirs)
        asked: asyncio.Future[ForkedProcess] = self._loop.create_future()
        self._asked[number] = asked
        reader = asyncio.StreamReader()
        pipe = os.fdopen(ours, "rb", 0)
        transport: asyncio.ReadTransport | None = None
        try:
            transport, _ = await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            child = await asyncio.shield(asked)
        except asyncio.CancelledError:
            # The answer tells the process id. Nothing else would end a process that the caller does not know.
            with suppress(ConnectionError):
                signal_group((await asked).pid, signal.SIGKILL)
            if transport is not None:
                transport.close()
            raise
        child.stdout = reader
        return child

    def close(self) -> None:
        """Ends the server. The processes go on."""
        if self.alive:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._channel)
            self._channel.close()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _receive(self) -> None:
        try:
            data = self._channel.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        message = json.loads(data)
        pid, asked = message["pid"], self._asked.pop(message["number"], None)
        child = self._children.setdefault(pid, ForkedProcess(pid))
        if "code" in message:
            self._children.pop(pid).end(message["code"])
        # One that was killed at once has not said that it began.
        if asked is not None:
            asked.set_result(child)

    def _lose(self) -> None:
        """The server is gone: its processes live on, and the system tells of their end."""
        asyncio.get_running_loop().remove_reader(self._channel)
        self._channel.close()
        for asked in self._asked.values():
            asked.set_exception(ConnectionError("the fork server is gone"))
        for child in self._children.values():
            child.watch()
        self._asked.clear()
        self._children.clear()


@dataclass
class ForkedProcess:
    """A process that the server started: as much of `asyncio.subprocess.Process` as a supervisor needs."""

    pid: int
    stdout: asyncio.StreamReader | None = None
    returncode: int | None = None
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self) -> int:
        """Waits for its end and returns its exit code, negative for a signal."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def end(self, code: int) -> None:
        """Takes its exit code."""
        self.returncode = code
        self._ended.set()

    def watch(self) -> None:
        """Learns of its end from the system, which tells no exit code to strangers."""
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self.end(UNKNOWN)
            return

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self.end(UNKNOWN)

        loop.add_reader(descriptor, ended)


@contextmanager
def forking(modules: Modules, command: str) -> Iterator[ForkServer | None]:
    """Starts a fork server; none where forks are not safe. The calling process must have one thread and no loop.

    The forks share what it has imported, and have none of the descriptors that it has opened.

    modules: what it imports, in this order while it waits, or as soon as the part is asked for. command: the module
    whose `main` carries out a command line.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        yield None
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sys.stdout.flush()
    sys.stderr.flush()
    # A collection in this process would write to the memory that it shares with the forks.
    gc.freeze()
    pid = os.fork()
    if not pid:
        # A lock of a file, say, lasts until no process has the file open.
        os.closerange(3, theirs.fileno())
        os.closerange(theirs.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        become(theirs, modules, command)
    theirs.close()
    server = ForkServer(ours, pid)
    try:
        yield server
    finally:
        server.close()


def become(channel: socket.socket, modules: Modules, command: str) -> NoReturn:
    """Makes this process, a fork, a fork server until the channel's other end is closed. It ends then."""
    leave(lambda: _serve(channel, modules, command))


def _serve(channel: socket.socket, modules: Modules, command: str) -> None:
    """Forks for each request until the channel's other end is closed; imports modules while there is none."""
    os.setsid()
    setproctitle.setproctitle("penstock: fork server")
    # Celery would replace the titles of its processes.
    os.environ["NOSETPS"] = "true"
    # A collection would write to the memory of all objects, which the forks share until then.
    gc.disable()
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting, running = list(modules), dict[int, int]()
    while True:
        readable, _, _ = select.select([channel, woken], [], [], 0 if waiting else None)
        if woken in readable:
            with suppress(BlockingIOError):
                woken.recv(4096)
            _tell_ends(channel, running)
        if channel in readable:
            data, descriptors, _, _ = socket.recv_fds(channel, LONGEST, 1)
            if not data:
                return
            request = json.loads(data)
            load(modules.get(request["words"][0], ()))
            gc.freeze()
            if not (pid := os.fork()):
                woken.close()
                wake.close()
                leave(partial(_become, channel, request, descriptors[0], command))
            running[pid] = request["number"]
            os.close(descriptors[0])
        elif waiting:
            load(modules[waiting.pop(0)])


def load(modules: Sequence[str]) -> None:
    """Imports these modules."""
    for module in modules:
        importlib.import_module(module)


def _tell_ends(channel: socket.socket, running: dict[int, int]) -> None:
    # The server's next read tells it that the channel's other end is closed.
    with suppress(ChildProcessError, BrokenPipeError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            end = {"number": running.pop(pid), "pid": pid, "code": os.waitstatus_to_exitcode(status)}
            channel.send(json.dumps(end).encode())


def _become(channel: socket.socket, request: Mapping[str, Any], output: int, command: str) -> None:
    """Carries a command line out in this process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    try:
        channel.send(json.dumps({"number": request["number"], "pid": os.getpid()}).encode())
    except BrokenPipeError:
        # The process that asked has ended meanwhile, as after a Ctrl-C, and does not end this one any more.
        return
    channel.close()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, number)
    os.close(nothing)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [str(_import_path.MAIN), *request["words"]]
    setproctitle.setproctitle(" ".join((*_PREFIX, *request["words"])))
    gc.enable()
    importlib.import_module(command).main()


def leave(work: Callable[[], None]) -> NoReturn:
    """Does a fork's work and ends it, as the interpreter would: the frames below belong to another process."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
