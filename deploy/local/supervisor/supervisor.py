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
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path

from deploy.local.supervisor import guard_restart
from deploy.local.supervisor.fork_server import ForkedProcess, ForkServer
from deploy.local.supervisor.guard import Guard, signal_group
from deploy.local.supervisor.leftovers import Notes
from workers.cancellation import cancelled
from workers.errors import UserError

log = logging.getLogger(__name__)

#: A part that lived this long (seconds) is considered healthy: its next death is the first again.
HEALTHY = 60.0
#: Pause before the first restart (seconds); it doubles up to LONGEST.
SHORTEST = 0.5
LONGEST = 30.0
#: Seconds within which the death of another part is noticed that a part's early end may follow from.
NOTICED = 1.0
#: Log files are rotated at this size (bytes); two old ones are kept.
LOG_SIZE = 10 * 1024 * 1024
#: Seconds that parts which were left behind may take to end by themselves.
LEAVING = 15.0


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
    """Runs components until `stop`.

    logs: folder for the output of the parts. notes: the notes of the running parts, by which the next supervisor ends
    those that this one could not. forks: starts those parts that are processes of ours.
    """

    def __init__(self, logs: Path, *, notes: Notes | None = None, forks: ForkServer | None = None) -> None:
        self._logs = logs
        self._notes = notes
        self._forks = forks
        self._guard: Guard | None = None
        self._guarding: asyncio.Task[None] | None = None
        self._running: dict[str, _Child] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._batches: list[tuple[str, ...]] = []
        #: Set, and replaced by another one, with each death of a part that was ready.
        self._death = asyncio.Event()
        self._hurry = asyncio.Event()

    async def start(self, *components: Component) -> None:
        """Starts parts side by side and returns when all are ready; they are started again whenever they die.

        They stop side by side too, before those that were started earlier. A part that is killed before it is ready, or
        ends after another part died, is started again. Raises StartFailed when one ends by itself or is not ready in
        time; none of them runs then.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        if self._guard is None:
            await self._end_leftovers()
            self._guard = Guard()
            self._guarding = asyncio.create_task(guard_restart.keep(self._guard))
        for component in components:
            if component.name in self._keepers:
                raise ValueError(f"component {component.name}: already started")
        names = tuple(component.name for component in components)
        waits: list[asyncio.Task[_Child]] = []
        try:
            for component in components:
                child = await self._spawn(component)
                waits.append(asyncio.create_task(self._until_ready(child)))
            for wait in asyncio.as_completed(waits):
                await wait
        except BaseException:
            await cancelled(*waits)
            await self._end(*(self._running[name] for name in names if name in self._running))
            raise
        self._batches.append(names)
        for name, wait in zip(names, waits, strict=True):
            self._keepers[name] = asyncio.create_task(self._keep(wait.result()))

    async def run(
        self,
        components: Sequence[Component],
        *,
        started: Callable[[], Awaitable[None]] | None = None,
        stopped: Callable[[], None] | None = None,
    ) -> None:
        """Starts the parts one after the other, awaits `started()`, and serves until SIGINT or SIGTERM.

        Then, or when starting failed, stops everything and calls `stopped()`; a second signal takes all patience away,
        and no further one ends anything earlier. Raises StartFailed like `start`.
        """
        stopping = asyncio.Event()
        with self._signals(stopping):
            work = asyncio.create_task(self._start_all(components, started))
            stop = asyncio.create_task(stopping.wait())
            try:
                await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
                if not stopping.is_set():
                    work.result()
                    await stop
            finally:
                await cancelled(work, stop)
                await self.stop()
                if stopped is not None:
                    stopped()

    def pids(self) -> dict[str, int]:
        """The process id of every part that runs right now."""
        return {name: child.pid for name, child in self._running.items()}

    async def stop(self) -> None:
        """Stops all parts in reverse order of their start and returns when no process is left."""
        while self._batches:
            names = self._batches.pop()
            await cancelled(*(self._keepers.pop(name) for name in names))
            await self._end(*(self._running[name] for name in names if name in self._running))
        if self._guard is not None and self._guarding is not None:
            await cancelled(self._guarding)
            self._guard.dismiss()
            self._guard = self._guarding = None

    async def _end_leftovers(self) -> None:
        """Parts of a supervisor that was killed together with its guard hold what the new ones need."""
        if self._notes is not None and (left := await self._notes.end(LEAVING)):
            log.warning("left behind by an earlier run, and ended now", extra={"parts": ", ".join(left)})

    async def _start_all(self, components: Sequence[Component], started: Callable[[], Awaitable[None]] | None) -> None:
        for component in components:
            await self.start(component)
        if started is not None:
            await started()

    async def _spawn(self, component: Component) -> "_Child":
        if isinstance(component.ready, Path):
            component.ready.unlink(missing_ok=True)
        process = await self._start(component)
        assert self._guard is not None
        self._guard.add(process.pid)
        try:
            if self._notes is not None:
                self._notes.add(component.name, process.pid)
            child = _Child(component, process, self._logs / f"{component.name}.log")
        except OSError:
            # Who asked for it does not know it, and tries again.
            signal_group(process.pid, signal.SIGKILL)
            self._guard.remove(process.pid)
            raise
        self._running[component.name] = child
        return child

    async def _start(self, component: Component) -> "asyncio.subprocess.Process | ForkedProcess":
        environment = {**os.environ, **component.env}
        if self._forks is not None and self._forks.alive and self._forks.serves(component.argv):
            try:
                return await self._forks.start(component.argv, environment)
            except ConnectionError as error:
                fields = {"part": component.name, "error": str(error)}
                log.warning("a part cannot be forked and is started by itself", extra=fields)
        return await asyncio.create_subprocess_exec(
            *component.argv,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )

    async def _keep(self, child: "_Child") -> None:
        pause = SHORTEST
        while True:
            born = time.monotonic()
            code = await child.wait()
            self._death.set()
            self._death = asyncio.Event()
            self._forget(child)
            pause = SHORTEST if time.monotonic() - born > HEALTHY else pause
            name = child.component.name
            log.warning("a part died and is started again", extra={"part": name, "code": code, "in": pause})
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST)
            child = await self._spawn_at_last(child.component)

    async def _spawn_at_last(self, component: Component) -> "_Child":
        """Starts a part again; without memory, descriptors or room on the disk as soon as there is some."""
        pause = SHORTEST
        while True:
            try:
                return await self._spawn(component)
            except OSError as error:
                fields = {"part": component.name, "error": str(error), "in": pause}
                log.warning("a part cannot be started again", extra=fields)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST)

    async def _until_ready(self, child: "_Child") -> "_Child":
        """Waits until a part is ready; returns its process, which is another one if the first had to be replaced."""
        component = child.component
        deadline, pause, death = time.monotonic() + component.timeout, SHORTEST, self._death
        while not await _is_ready(component):
            if time.monotonic() > deadline:
                raise StartFailed(_last_words(child, f"was not ready within {component.timeout:g} s"))
            if child.code is None:
                await asyncio.sleep(0.02)
                continue
            await child.drained()
            # An end by a signal, or while another part is down, says nothing about this part.
            if child.code >= 0 and not await self._noticed(death):
                raise StartFailed(_last_words(child, f"ended with exit code {child.code} before it was ready"))
            fields = {"part": component.name, "code": child.code, "in": pause}
            log.warning("a part died while it started and is started again", extra=fields)
            self._forget(child)
            await asyncio.sleep(pause)
            pause, death = min(pause * 2, LONGEST), self._death
            child = await self._spawn(component)
        return child

    async def _noticed(self, death: asyncio.Event) -> bool:
        """Returns whether another part has died: the end of a part that follows from it may be seen first."""
        if self._keepers:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(death.wait(), NOTICED)
        return death.is_set()

    async def _end(self, *children: "_Child") -> None:
        await asyncio.gather(*(self._end_one(child) for child in children))

    async def _end_one(self, child: "_Child") -> None:
        signal_group(child.pid, signal.SIGTERM)
        gone, hurry = asyncio.create_task(child.wait()), asyncio.create_task(self._hurry.wait())
        await asyncio.wait({gone, hurry}, timeout=child.component.grace, return_when=asyncio.FIRST_COMPLETED)
        signal_group(child.pid, signal.SIGKILL)
        await gone
        await cancelled(hurry)
        self._forget(child)

    @contextlib.contextmanager
    def _signals(self, stopping: asyncio.Event) -> Iterator[None]:
        """The first SIGINT or SIGTERM sets the event, the next one takes all patience away."""
        loop = asyncio.get_running_loop()

        def on_signal() -> None:
            (self._hurry if stopping.is_set() else stopping).set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _forget(self, child: "_Child") -> None:
        # a process of the group that outlived its leader would stay for ever
        signal_group(child.pid, signal.SIGKILL)
        child.close()
        self._running.pop(child.component.name, None)
        if self._notes is not None:
            self._notes.remove(child.component.name)
        if self._guard is not None:
            self._guard.remove(child.pid)


class _Child:
    """One running process and the copying of its output."""

    def __init__(self, component: Component, process: "asyncio.subprocess.Process | ForkedProcess", path: Path) -> None:
        self.component = component
        self.pid = process.pid
        self.tail: deque[str] = deque(maxlen=20)
        self._process = process
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


async def _line(stream: asyncio.StreamReader) -> bytes:
    """The next line, or the next piece of one that is longer than the reader's buffer; empty at the end."""
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as long:
        return await stream.readexactly(long.consumed)


async def _is_ready(component: Component) -> bool:
    if component.ready is None:
        return True
    if isinstance(component.ready, Path):
        return component.ready.exists()
    return await component.ready()


def _last_words(child: _Child, what: str) -> str:
    quoted = "".join(f"\n  {line}" for line in child.tail)
    return f"component {child.component.name}: {what}{'; its last lines:' if quoted else ''}{quoted}"
