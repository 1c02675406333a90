"""exec: a command beside a running container, with its input, output and, if it is asked for, a terminal."""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import struct
import subprocess
import termios
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deploy.local.kubelet.containers.attempt import gone, killed, words_for_shell
from deploy.local.kubelet.streams import channels, descriptors
from deploy.local.kubelet.streams.channels import Channels
from deploy.local.supervisor.guard import signal_group, stat_fields

#: $0: the terminal, which the opening makes that of the session; the rest: the command.
_ON_TERMINAL = 'exec <>"$0" >&0 2>&0; exec "$@"'
#: What a terminal takes as the end of the input.
_END_OF_INPUT = b"\x04"


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams a client asks for."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Streams":
        """The streams of a request. Raises ValueError if there is none; a terminal has no second output."""
        stdin, stdout, stderr, tty = (
            query.get(name, "").lower() in ("1", "true", "t") for name in ("stdin", "stdout", "stderr", "tty")
        )
        if not (stdin or stdout or stderr):
            raise ValueError("you must specify at least 1 of stdin, stdout, stderr")
        return cls(stdin, stdout, stderr and not tty, tty)


@dataclass(frozen=True, slots=True)
class ExecutionPlace:
    """The place of a command. entering: the words that lead into an isolated container, and its working directory."""

    env: Mapping[str, str]
    cwd: Path
    entering: tuple[str, ...] = ()


def argv(command: Sequence[str], place: ExecutionPlace, terminal: str = "") -> tuple[str, ...]:
    """Returns the words that run a command at its place and on its terminal. Pure."""
    words = (*place.entering, *command)
    if not terminal:
        return words
    if place.entering:
        # A shell with process ids of its own has jobs only in a session that began there.
        return (*place.entering, "setsid", "--ctty", *command)
    return ("/bin/sh", "-c", _ON_TERMINAL, terminal, *words_for_shell(place.env), *words)


class Execution:
    """One command that runs; its processes are a session of their own.

    ends: our ends of its input, output and error output, -1 for one that is not asked for. ended: its exit code, once
    nothing of it is left; what it has left behind is killed.
    """

    def __init__(self, child: "subprocess.Popen[bytes]", ends: Sequence[int], *, tty: bool) -> None:
        self.pid = child.pid
        self._stdin, *outputs = ends
        self._outputs = {
            channel: end for channel, end in zip((channels.STDOUT, channels.STDERR), outputs, strict=True) if end >= 0
        }
        self._tty = tty
        self.ended = asyncio.ensure_future(_ended(child))

    @classmethod
    def start(cls, command: Sequence[str], place: ExecutionPlace, streams: Streams) -> "Execution":
        """Starts a command. Raises OSError if it has no program or no working directory."""
        ours, theirs = _ends(streams)
        try:
            if streams.tty:
                place = replace(place, env={"TERM": "xterm", **place.env})
            child = subprocess.Popen(
                argv(command, place, os.ttyname(theirs[0]) if streams.tty else ""),
                cwd="/" if place.entering else place.cwd,
                env=place.env,
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                start_new_session=True,
            )
        except BaseException:
            _close(ours)
            raise
        finally:
            _close(theirs)
        return cls(child, ours, tty=streams.tty)

    async def exit_code(self, client: Channels) -> int:
        """Sends all output, and returns the exit code when there will be no more."""
        pouring = (
            descriptors.pour(end, self.ended, lambda data, channel=channel: client.send(channel, data))  # type: ignore[misc]
            for channel, end in self._outputs.items()
        )
        await asyncio.gather(*pouring)
        return await asyncio.shield(self.ended)

    async def take_input(self, client: Channels) -> None:
        """Takes what the client sends until it has closed the connection."""
        async for channel, data in client.receive():
            if channel == channels.STDIN:
                await self._feed(data)
            elif channel == channels.RESIZE and self._tty:
                with contextlib.suppress(ValueError, KeyError, TypeError, struct.error):
                    size = json.loads(data)
                    window = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                    fcntl.ioctl(self._outputs[channels.STDOUT], termios.TIOCSWINSZ, window)
            elif channel == channels.CLOSE and data == bytes((channels.STDIN,)):
                await self._end_input()

    async def _feed(self, data: bytes) -> None:
        if self._stdin >= 0:
            try:
                await descriptors.feed(self._stdin, data, self.ended)
            except OSError:
                # It takes no more. What follows is dropped, as by a real one.
                await self._end_input()

    async def _end_input(self) -> None:
        end, self._stdin = self._stdin, -1
        if end >= 0 and self._tty:
            with contextlib.suppress(OSError):
                await descriptors.feed(end, _END_OF_INPUT, self.ended)
        elif end >= 0:
            os.close(end)

    def kill(self) -> None:
        """Kills what still runs."""
        if not self.ended.done():
            kill_session(self.pid)

    async def close(self) -> None:
        """Kills what still runs, and waits for its end."""
        self.kill()
        await asyncio.shield(self.ended)
        _close({self._stdin, *self._outputs.values()})


def _ends(streams: Streams) -> tuple[list[int], list[int]]:
    """Our ends and the command's of its input, output and error output."""
    if streams.tty:
        master, slave = os.openpty()
        return [master if streams.stdin else -1, master, -1], [slave] * 3
    ours, theirs = [], []
    for wanted, is_input in ((streams.stdin, True), (streams.stdout, False), (streams.stderr, False)):
        if wanted:
            read, write = os.pipe()
            ours.append(write if is_input else read)
            theirs.append(read if is_input else write)
        else:
            ours.append(-1)
            theirs.append(os.open(os.devnull, os.O_RDWR))
    return ours, theirs


def _close(ends: Iterable[int]) -> None:
    for end in {*ends} - {-1}:
        os.close(end)


def kill_session(leader: int) -> None:
    """Kills the processes of a session whose leader has not been waited for, and of a session that its child has begun.

    The jobs of a shell are groups of their own; what enters an isolated container waits for a child.
    """
    # State, parent, group and session come first.
    fields = {path.parent.name: stat_fields(path)[:4] for path in Path("/proc").glob("[0-9]*/stat")}
    sessions = {str(leader), *(pid for pid, found in fields.items() if found[1:2] == [str(leader)])}
    for pid, found in fields.items():
        if found[3:4] and found[3] in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    signal_group(leader, signal.SIGKILL)


async def _ended(child: "subprocess.Popen[bytes]") -> int:
    await gone(child.pid, child)
    kill_session(child.pid)
    await killed(child.pid, child)
    return 128 - child.returncode if child.returncode < 0 else child.returncode
