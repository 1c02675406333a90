"""The health of a process: which of its parts make progress, and which servers it reaches; served over HTTP.

`GET /healthz` tells if the process is alive: its event loops turn, the tasks that must not end run, and each repeated
step came round lately. An outage of a server changes nothing there: a restart repairs none. `GET /readyz` asks these
servers, too. Both answer 200, or 503 with the reason of each failed check.

The server has a thread of its own, so that it can tell of an event loop that stands still.
"""

import asyncio
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as NotInTime
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

from workers.errors import UserError

log = logging.getLogger(__name__)

#: Seconds within which an event loop must take up a callback.
TURN = 3.0
#: Seconds within which a server must have answered a check.
DEADLINE = 2.0
#: Seconds for which an answer is given again.
KEPT = 1.0
#: Seconds without progress after which a repeated step counts as standing still: its calls, repeated by the clients'
#: own policies, may all run into their deadlines.
STILL = 90.0
#: Connections at once, and seconds without a word until one is closed. Beyond, the oldest that has sent no request
#: is closed.
CONNECTIONS, PATIENCE = 16, 5.0
#: Seconds within which a connection that was ended gives its place back.
GIVEN_UP = 1.0

#: Returns the reason why a server, or what this process needs of it, is not there; None if it is.
Check = Callable[[], Awaitable[str | None]]
#: By name, the reason of each failed check; '' of one that passed.
Findings = dict[str, str]


@dataclass
class Pulse:
    """The progress of a repeated step; it is called whenever the step comes round.

    within: seconds in which it has to. The step may `rest`, while it waits for a server, until its next call.
    """

    within: float
    clock: Callable[[], float]
    _last: float | None = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.clock()

    def __call__(self) -> None:
        self._last = self.clock()

    def rest(self) -> None:
        """Expects no progress before the next call."""
        self._last = None

    def finding(self) -> str:
        """Returns why the step counts as standing still, or ''."""
        quiet = 0.0 if self._last is None else self.clock() - self._last
        return f"no progress for {quiet:.0f} s" if quiet > self.within else ""


class Health:
    """The parts of one process and the servers it needs. Parts register themselves, from any thread.

    clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._loops: dict[str, asyncio.AbstractEventLoop] = {}
        self._pulses: dict[str, Pulse] = {}
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._checks: dict[str, Check] = {}
        self._kept: dict[str, tuple[float, Findings]] = {}
        # A look at the process never waits for a server.
        self._looking = {"alive": threading.Lock(), "ready": threading.Lock()}

    def loop(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        """Expects this event loop to turn; the first one asks the servers."""
        self._loops[name] = loop

    def pulse(self, name: str, within: float = STILL) -> Pulse:
        """Returns the pulse of a repeated step, of which progress is expected from now on."""
        pulse = self._pulses[name] = Pulse(within, self._clock)
        return pulse

    def forget(self, name: str) -> None:
        """Expects no more of the pulse of this name."""
        self._pulses.pop(name, None)

    @contextmanager
    def endless(self, tasks: Mapping[str, asyncio.Task[Any]]) -> Iterator[None]:
        """Expects these tasks, by name, not to end within the block."""
        self._tasks.update(tasks)
        try:
            yield
        finally:
            for name in tasks:
                self._tasks.pop(name, None)

    def check(self, name: str, check: Check) -> None:
        """Asks this of every request for readiness, at most once a second."""
        self._checks[name] = check

    def alive(self) -> Findings:
        """Returns the findings about the process itself. Blocks; not for the thread of an event loop."""
        return self._fresh("alive", self._look)

    def ready(self) -> Findings:
        """Returns those and the findings about servers. Blocks; not for the thread of an event loop."""
        alive = self.alive()
        return {**alive, **self._fresh("ready", self._ask)}

    def _fresh(self, what: str, look: Callable[[], Findings]) -> Findings:
        # Requests that come together wait for one look.
        with self._looking[what]:
            until, findings = self._kept.get(what, (0.0, {}))
            if self._clock() >= until:
                findings = look()
                self._kept[what] = (self._clock() + KEPT, findings)
            return findings

    def _look(self) -> Findings:
        findings = {name: _turns(loop) for name, loop in list(self._loops.items())}
        # A task may have a pulse of the same name.
        findings |= {name: _ended(task) for name, task in list(self._tasks.items())}
        for name, pulse in list(self._pulses.items()):
            findings[name] = findings.get(name) or pulse.finding()
        return findings

    def _ask(self) -> Findings:
        checks = dict(self._checks)
        loop = next(iter(self._loops.values()), None)
        if loop is None:
            return asyncio.run(_asked(checks))
        try:
            asking = asyncio.run_coroutine_threadsafe(_asked(checks), loop)
        except RuntimeError as error:
            return dict.fromkeys(checks, str(error))
        try:
            return asking.result(DEADLINE + TURN)
        except NotInTime:
            asking.cancel()
            return dict.fromkeys(checks, "the event loop does not ask")


def _turns(loop: asyncio.AbstractEventLoop) -> str:
    turned = threading.Event()
    try:
        loop.call_soon_threadsafe(turned.set)
    except RuntimeError as error:
        return str(error)
    return "" if turned.wait(TURN) else f"no turn for {TURN:g} s"


def _ended(task: "asyncio.Task[Any]") -> str:
    if not task.done():
        return ""
    error = None if task.cancelled() else task.exception()
    return f"ended: {type(error).__name__}: {error}"[:300] if error else "ended"


async def _asked(checks: Mapping[str, Check]) -> Findings:
    async def asked(check: Check) -> str:
        try:
            async with asyncio.timeout(DEADLINE):
                return await check() or ""
        except TimeoutError:
            return f"no answer within {DEADLINE:g} s"
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:300]

    return dict(zip(checks, await asyncio.gather(*(asked(check) for check in checks.values())), strict=True))


@contextmanager
def served(health: Health, address: str) -> Iterator[int]:
    """Serves a process's health at ``HOST:PORT`` for the length of a block; yields the port, 0 for address ''.

    Raises UserError if it cannot listen there.
    """
    if not address:
        yield 0
        return
    server = _Server(health, *_listener(address))
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listener(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UserError(f"--health: {address!r} must be HOST:PORT")
    return host.strip("[]"), int(port)


class _Server(ThreadingHTTPServer):
    # A probe that hangs must not keep the process.
    daemon_threads = True
    block_on_close = False

    def __init__(self, health: Health, host: str, port: int) -> None:
        self.health = health
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        # Connections that have not sent their request yet, the oldest first.
        self._reading: dict[Any, None] = {}
        self._changing = threading.Lock()
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise UserError(f"--health: {host}:{port} cannot be listened on: {error}") from error

    def server_bind(self) -> None:
        # Not HTTPServer's own, which asks the resolver for the name of the address.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False) or (self._end_oldest() and self._free.acquire(timeout=GIVEN_UP)):
            with self._changing:
                self._reading[request] = None
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.was_read(request)
            self._free.release()

    def was_read(self, request: Any) -> None:
        """Notes that a connection has sent its request, or has ended."""
        with self._changing:
            self._reading.pop(request, None)

    def shutdown_request(self, request: Any) -> None:
        # Before its descriptor may be another connection's.
        self.was_read(request)
        super().shutdown_request(request)

    def _end_oldest(self) -> bool:
        """Ends the oldest connection that has sent no request yet: a sender that is slow on purpose keeps no place."""
        with self._changing:
            oldest = next(iter(self._reading), None)
            if oldest is None:
                return False
            del self._reading[oldest]
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is of no interest."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE
    server_version, sys_version = "penstock", ""

    def do_GET(self) -> None:
        self.server.was_read(self.connection)
        looks = {"/healthz": self.server.health.alive, "/readyz": self.server.health.ready}
        look = looks.get(self.path.partition("?")[0])
        if look is None:
            self._answer(404, {"status": "unknown path", "paths": list(looks)})
            return
        findings = look()
        failed = {name: reason for name, reason in findings.items() if reason}
        passed = [name for name, reason in findings.items() if not reason]
        self._answer(
            503 if failed else 200, {"status": "failed" if failed else "ok", "failed": failed, "passed": passed}
        )

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: int, body: Mapping[str, Any]) -> None:
        content = orjson.dumps(body) + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Probes are not logged."""
