"""One start of a container, on disk and as a process, so that a kubelet that was killed finds it again.

The folder of an attempt, ``<pod folder>/<container>/<number>``, holds

    pid    process id of the shim, which is also the number of its process group; made with O_EXCL by the shim
           itself, so that of two shims for one attempt only one runs the command
    main   process id of the command itself
    code   the exit code and a line end, written by the shim when the command has ended, and by the kubelet for a shim
           that was killed: the file's time is that of the end
    out, err  what the command printed, unchanged; out.cut and err.cut beside them belong to log_files.py
    in     the named pipe of a command that has an input or a terminal (see console.py)
    work   its working directory, HOME and TMPDIR

The shim is a shell of a few lines: it starts in a millisecond, and it outlives the kubelet.
"""

import asyncio
import contextlib
import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from deploy.local.kubelet.containers import console, starter
from deploy.local.kubelet.containers.container_states import LOST, ContainerRunning, Terminated
from deploy.local.kubelet.containers.environment import ConfigProblem
from deploy.local.kubelet.containers.isolation import Bind, Isolation, answer
from deploy.local.kubelet.containers.starter import CannotStart, find_program
from deploy.local.supervisor.guard import command_line, is_group_alive, signal_group

#: $1: the attempt's folder; the rest: the command. A second shell becomes the command: it knows its own number, which
#: a subshell of the first does not. Signals for the group reach the command too; the shim only notes them (a handler,
#: unlike 'ignore', is not inherited) and waits on for the exit code. Its own standard error is closed to remarks of the
#: shell about how the command ended.
#: The names of its variables are unlike those of a pod: the command would find them changed.
_SHIM = """
exec 3>&2 2>/dev/null
__folder=$1; shift
OWN
set -C
echo $__own >"$__folder/pid" || exit 0
set +C
trap : HUP INT QUIT ABRT USR1 USR2 ALRM TERM
(exec CONSOLE /bin/sh -c 'OWN; echo $__own >"$0/main"; exec "$@" 2>&3 3>&- 9>&-' "$__folder" "$@")
echo $? >"$__folder/code"
"""
#: How a shell learns its process id as the kubelet sees it, which is not ``$$`` in a process namespace of its own.
_OWN, _OWN_OUTSIDE = "__own=$$", f"read -r __own __rest </proc/self/fd/{starter.PROC}/self/stat"
_NAME = "penstock-container"
#: The pid files of all attempts below the folder of the pods.
PID_FILES = "*/*/*/pid"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Seconds between two polls for the end of a process where the system has no pidfd.
_POLL = 0.05
#: A shell has begun a command within milliseconds.
_SOON = 0.002
#: Linux has it; elsewhere an ending is polled for.
_pidfd_open: Callable[[int], int] | None = getattr(os, "pidfd_open", None)


class NotStartable(Exception):  # noqa: N818 - says what it is
    """The command cannot be run at all: no such program or folder. The message says which."""


class ContainerAttempt:
    """One attempt. Its processes are a group of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        #: The shim: a child of this process, or a pidfd of one that is isolated.
        self._child: subprocess.Popen[bytes] | None = None
        self._handle: int | None = None
        self._is_ours = False
        self._pid: int | None = None

    @property
    def pid(self) -> int | None:
        """The shim's process id and the group's number; None before it has begun."""
        if self._pid is None:
            self._pid = _number(self.folder / "pid")
        return self._pid

    def prepare(self) -> None:
        """Makes the folders."""
        self.work.mkdir(parents=True, exist_ok=True)

    @property
    def console(self) -> Path | None:
        """The named pipe of the command's console; None for one without input and terminal."""
        pipe = self.folder / console.PIPE
        return pipe if pipe.exists() else None

    def start(self, command: Sequence[str], *, env: Mapping[str, str], cwd: str, reads: str = "") -> None:
        """Starts the command. Raises NotStartable when its program or its working directory does not exist.

        reads: `console.INPUT`, `console.TERMINAL`, or empty for a command that has neither.
        """
        directory = self.work / cwd
        try:
            program = find_program(command[0], env.get("PATH", os.defpath), directory)
        except CannotStart as problem:
            raise NotStartable(str(problem)) from problem
        with self._output() as (out, err):
            self._child = subprocess.Popen(
                [*self._shim(_OWN, env, reads), program, *command[1:]],
                cwd=directory,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._pid, self._is_ours = self._child.pid, True

    async def start_isolated(
        self,
        isolation: Isolation,
        command: Sequence[str],
        volumes: Sequence[Bind],
        *,
        env: Mapping[str, str],
        cwd: str,
        reads: str = "",
    ) -> None:
        """Starts the command in namespaces of its own, with these volumes.

        Raises NotStartable as `start`, ConfigProblem when a volume cannot be mounted. Cancelled, it has started the
        command, or the command cannot be started.
        """
        directory = self.work / cwd
        shim = self._shim(_OWN_OUTSIDE, env, reads)
        try:
            with self._output() as streams:
                answers = isolation.request(
                    self.folder, command, volumes, shim=shim, env=env, cwd=directory, streams=streams
                )
            try:
                await _readable(answers)
            except asyncio.CancelledError:
                with contextlib.suppress(CannotStart):
                    self._follow(answer(answers))
                raise
            self._follow(answer(answers))
        except CannotStart as problem:
            raise (NotStartable if problem.kind == "program" else ConfigProblem)(str(problem)) from problem

    def _follow(self, pid: int) -> None:
        """Takes charge of an isolated shim, which is not our child."""
        self._pid, self._is_ours = pid, True
        # It may have ended, and the starter may have waited for it.
        with contextlib.suppress(ProcessLookupError):
            self._handle = os.pidfd_open(pid)

    def _shim(self, own: str, env: Mapping[str, str], reads: str) -> list[str]:
        above = ""
        if reads:
            with contextlib.suppress(FileExistsError):
                os.mkfifo(self.folder / console.PIPE, 0o600)
            above = shlex.join((sys.executable, "-I", "-S", console.__file__, str(self.folder), reads))
        script = _SHIM.replace("OWN", own).replace("CONSOLE", above)
        return ["/bin/sh", "-c", script, _NAME, str(self.folder), *words_for_shell(env)]

    @contextlib.contextmanager
    def _output(self) -> Iterator[tuple[int, int]]:
        """Opens the files of standard output and standard error."""
        with (self.folder / "out").open("ab") as out, (self.folder / "err").open("ab") as err:
            yield out.fileno(), err.fileno()

    def state(self) -> ContainerRunning | Terminated | None:
        """Returns the state that the folder records: None if the command has never begun."""
        pid_file = self.folder / "pid"
        if self.pid is None:
            return None
        # A shim that was killed in its first moments has written nothing.
        started = pid_file.stat().st_mtime if pid_file.exists() else _last_change(self.folder)
        code_file = self.folder / "code"
        if (code := _number(code_file)) is not None:
            return Terminated(code, started, code_file.stat().st_mtime)
        if self._is_alive():
            return ContainerRunning(started)
        # the code may have been written between the two checks
        if (code := _number(code_file)) is not None:
            return Terminated(code, started, code_file.stat().st_mtime)
        return Terminated(LOST, started, max(started, _last_change(self.folder)))

    async def ended(self) -> None:
        """Waits for the end of the shim, then ends what its command left behind in the group, and waits for that.

        An end that the shim did not record is recorded: from then on the time of the end is known.
        """
        await self._group_ended()
        code_file = self.folder / "code"
        if _number(code_file) is None:
            # Where the disk is full the last output has to do.
            with contextlib.suppress(OSError):
                code_file.write_text(f"{LOST}\n")

    async def _group_ended(self) -> None:
        """Waits until no process of the group is left.

        The number of a shim that ended before is the group's as long as there is a process of it that works for this
        attempt; otherwise it may be that of an unrelated process.
        """
        assert self.pid is not None
        if not self._is_ours and not self._is_alive():
            if _has_work(self.pid, self.work):
                await killed(self.pid)
            return
        await gone(self.pid, self._child)
        # our own child is still a zombie here, so its number cannot be reused yet
        await killed(self.pid, self._child)
        if self._is_ours:
            await self._outrun()

    def signal(self, number: int) -> None:
        """Signals the command alone, as in a container its first process; KILL is for every process of the group.

        A command with workers of its own decides itself what its end means for them.
        """
        if self.pid is None or not self._is_alive():
            return
        main = _number(self.folder / "main")
        if number == signal.SIGKILL or main is None:
            signal_group(self.pid, number)
            return
        # The number may have been reused for a process of another group.
        with contextlib.suppress(ProcessLookupError):
            # On a terminal it leads a session.
            if os.getpgid(main) == (main if self.console is not None and os.getsid(main) == main else self.pid):
                os.kill(main, number)

    async def begun(self, *, within: float = 5.0) -> None:
        """Waits until the command has a process of its own: the shim, until then alone, ends of no TERM."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self._is_alive() and _number(self.folder / "main") is None:  # noqa: ASYNC110 - a shell tells us
                    await asyncio.sleep(_SOON)

    async def _outrun(self) -> None:
        """Follows the shim of an earlier kubelet if it was first to write the pid file, and so runs the command."""
        if self._handle is not None:
            os.close(self._handle)
        owner = _number(self.folder / "pid")
        self._is_ours, self._handle = False, None
        if owner is not None and owner != self._pid:
            self._child, self._pid = None, owner
            await self._group_ended()

    def _is_alive(self) -> bool:
        if self._child is not None:
            return self._child.returncode is None
        if self._handle is not None:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            return not poll.poll(0)
        return self.pid is not None and str(self.folder) in command_line(self.pid)


def words_for_shell(env: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the words before a command that a shell executes: it drops variables whose names it could not write."""
    odd = [f"{name}={value}" for name, value in env.items() if not _IDENTIFIER.fullmatch(name)]
    # A name may begin with a hyphen, as options do.
    return ("/usr/bin/env", "--", *odd) if odd else ()


def latest(container_folder: Path) -> int:
    """The number of the latest attempt, -1 before the first."""
    numbers = (int(path.name) for path in container_folder.glob("[0-9]*")) if container_folder.exists() else ()
    return max(numbers, default=-1)


def _number(path: Path) -> int | None:
    """The number in a file that ends in a line end; None while it is not completely written."""
    with contextlib.suppress(FileNotFoundError):
        text = path.read_text()
        if text.endswith("\n"):
            return int(text)
    return None


def _last_change(folder: Path) -> float:
    return max((path.stat().st_mtime for path in (folder / "out", folder / "err") if path.exists()), default=0.0)


async def gone(pid: int, child: subprocess.Popen[bytes] | None) -> None:
    """Waits until the process has ended; a child stays a zombie where the system can announce the end."""
    if _pidfd_open is not None:
        with contextlib.suppress(ProcessLookupError):
            descriptor = _pidfd_open(pid)
            try:
                await _readable(descriptor)
            finally:
                os.close(descriptor)
        return
    while (child.poll() is None) if child is not None else command_line(pid):  # noqa: ASYNC110 - the system does not announce it
        await asyncio.sleep(_POLL)


async def killed(group: int, child: subprocess.Popen[bytes] | None = None) -> None:
    """Ends all processes of a group, and waits until they have ended."""
    signal_group(group, signal.SIGKILL)
    if child is not None:
        child.wait()
    # On a busy machine what was killed goes on for a while before it ends.
    while is_group_alive(group):  # noqa: ASYNC110 - the system does not announce it
        await asyncio.sleep(_SOON)


def _has_work(group: int, folder: Path) -> bool:
    """True if a process of the group is in this folder, or has it in its environment (as HOME); False without /proc."""
    if not signal_group(group, 0):
        return False
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(process.name)) != group:
                continue
            if folder in (where := (process / "cwd").readlink(), *where.parents):
                return True
            if os.fsencode(folder) in (process / "environ").read_bytes():
                return True
    return False


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
