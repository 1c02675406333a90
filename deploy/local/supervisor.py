"""The supervisor: starts the parts of an embedded Penstock in order, keeps them running, and stops them all.

Every part is a child process in a session of its own. What it prints goes, line by line, to ``<logs>/<name>.log``.
A part that dies is started again after a pause that doubles while it keeps dying. On SIGINT or SIGTERM the parts stop
in reverse order, each with its whole process group: TERM first, KILL when its grace is over. Should the supervisor
itself be killed, its guard (see guard.py) ends what is left.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path

from deploy.local.guard import Guard, signal_group
from workers.errors import UserError

log = logging.getLogger(__name__)

#: A part that lived this long (seconds) is considered healthy: its next death is the first again.
HEALTHY = 60.0
#: Pause before the first restart (seconds); it doubles up to LONGEST.
SHORTEST = 0.5
LONGEST = 30.0
#: Log files are rotated at this size (bytes); two old ones are kept.
LOG_SIZE = 10 * 1024 * 1024


class StartFailed(UserError):  # noqa: N818 - says what happened
    """A part did not become ready; the message names it and quotes its last words."""


@dataclass(frozen=True, slots=True)
class Component:
    """One part to run.

    env: added to the supervisor's own environment. ready: a file that appears, or a check that answers True, when the
    part can be used; None: as soon as it runs. timeout: how long to wait for that. grace: seconds between TERM and
    KILL. Durations are seconds.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ready: Path | Callable[[], Awaitable[bool]] | None = None
    timeout: float = 30.0
    grace: float = 15.0


class Supervisor:
    """Runs components until it is told to stop.

    logs: folder for the output of the parts. echo: also called with (name, line) for every line printed.
    """

    def __init__(self, logs: Path, *, echo: Callable[[str, str], None] | None = None) -> None:
        self._logs = logs
        self._echo = echo
        self._guard: Guard | None = None
        self._running: dict[str, _Child] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self, component: Component) -> None:
        """Starts one part and returns when it is ready; from then on it is started again whenever it dies.

        Raises StartFailed when it ends or is not ready in time (it is stopped then).
        """
        if component.name in self._tasks:
            raise ValueError(f"component {component.name}: already started")
        self._logs.mkdir(parents=True, exist_ok=True)
        self._guard = self._guard or Guard()
        if isinstance(component.ready, Path):
            component.ready.unlink(missing_ok=True)
        child = await self._spawn(component)
        try:
            await _until_ready(component, child)
        except BaseException:
            await self._end(child)
            raise
        self._tasks[component.name] = asyncio.create_task(self._keep(component, child))

    async def run(
        self, components: Sequence[Component], *, started: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Starts the parts in order, awaits `started()`, and serves until SIGINT or SIGTERM; then stops everything.

        Raises StartFailed like `start`, after having stopped what ran already.
        """
        async with _signals() as told:
            try:
                work = asyncio.create_task(self._start_all(components, started))
                stop = asyncio.create_task(told.wait())
                done, _ = await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
                if work in done:
                    work.result()
                    await stop
                await _cancel(work, stop)
            finally:
                await self.stop()

    def pids(self) -> dict[str, int]:
        """The process id of every part that runs right now."""
        return {name: child.pid for name, child in self._running.items()}

    async def stop(self) -> None:
        """Stops all parts in reverse order of their start and returns when no process is left."""
        for name in reversed(list(self._tasks)):
            await _cancel(self._tasks.pop(name))
            if name in self._running:
                await self._end(self._running[name])
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None

    async def _start_all(self, components: Sequence[Component], started: Callable[[], Awaitable[None]] | None) -> None:
        for component in components:
            await self.start(component)
        if started is not None:
            await started()

    async def _spawn(self, component: Component) -> "_Child":
        process = await asyncio.create_subprocess_exec(
            *component.argv,
            env={**os.environ, **component.env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._guard is not None
        self._guard.add(process.pid)
        child = _Child(component, process, self._logs / f"{component.name}.log", self._echo)
        self._running[component.name] = child
        return child

    async def _keep(self, component: Component, child: "_Child") -> None:
        pause = SHORTEST
        while True:
            born = time.monotonic()
            code = await child.wait()
            self._forget(child)
            pause = SHORTEST if time.monotonic() - born > HEALTHY else pause
            log.warning("a part died and is started again", extra={"part": component.name, "code": code, "in": pause})
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST)
            child = await self._spawn(component)

    async def _end(self, child: "_Child") -> None:
        signal_group(child.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), child.component.grace)
        signal_group(child.pid, signal.SIGKILL)
        await child.wait()
        self._forget(child)

    def _forget(self, child: "_Child") -> None:
        # whoever of the group outlived its leader belongs to nobody now
        signal_group(child.pid, signal.SIGKILL)
        child.close()
        self._running.pop(child.component.name, None)
        if self._guard is not None:
            self._guard.remove(child.pid)


class _Child:
    """One running process and the copying of its output."""

    def __init__(
        self,
        component: Component,
        process: asyncio.subprocess.Process,
        path: Path,
        echo: Callable[[str, str], None] | None,
    ) -> None:
        self.component = component
        self.pid = process.pid
        self.tail: deque[str] = deque(maxlen=20)
        self._process = process
        self._echo = echo
        self._file = RotatingFileHandler(path, maxBytes=LOG_SIZE, backupCount=2, encoding="utf-8")
        self._copier = asyncio.create_task(self._copy())

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Waits for the process (not for what it may have left behind) and returns its exit code."""
        return await self._process.wait()

    async def drained(self) -> None:
        """Waits a moment for the last lines."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._copier), 1.0)

    def close(self) -> None:
        """Ends the copying."""
        self._copier.add_done_callback(lambda _: self._file.close())
        if self._process.stdout is not None and self._process.stdout.at_eof():
            return
        asyncio.get_running_loop().call_later(1.0, self._copier.cancel)

    async def _copy(self) -> None:
        assert self._process.stdout is not None
        while raw := await _line(self._process.stdout):
            text = raw.decode(errors="replace").rstrip("\n")
            self.tail.append(text)
            self._file.emit(logging.makeLogRecord({"msg": text}))
            if self._echo is not None:
                self._echo(self.component.name, text)


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line, or the next piece of one that is longer than the reader's buffer; empty at the end."""
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as long:
        return await stream.readexactly(long.consumed)


async def _until_ready(component: Component, child: _Child) -> None:
    deadline = time.monotonic() + component.timeout
    while not await _is_ready(component):
        if child.code is not None:
            await child.drained()
            raise StartFailed(_last_words(component, child, f"ended with exit code {child.code} before it was ready"))
        if time.monotonic() > deadline:
            raise StartFailed(_last_words(component, child, f"was not ready within {component.timeout:g} s"))
        await asyncio.sleep(0.02)


async def _is_ready(component: Component) -> bool:
    if component.ready is None:
        return True
    if isinstance(component.ready, Path):
        return component.ready.exists()
    return await component.ready()


def _last_words(component: Component, child: _Child, what: str) -> str:
    quoted = "".join(f"\n  {line}" for line in child.tail)
    return f"component {component.name}: {what}{'; its last lines:' if quoted else ''}{quoted}"


@contextlib.asynccontextmanager
async def _signals() -> AsyncIterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set, as long as the context lasts."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    try:
        yield told
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _cancel(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
