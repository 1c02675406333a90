"""The console: the process above the command of a container that has an input or a terminal.

It keeps both open whether a client is attached or not, and outlives the kubelet. What clients send arrives as frames in
a named pipe: a kind, a length, the data. Frames are short enough for several writers not to mix them.

This file is run without site packages, and therefore imports the standard library only.
"""

import contextlib
import fcntl
import os
import select
import signal
import struct
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path

#: The named pipe, in the folder of the attempt.
PIPE = "in"
#: What the command reads from: a pipe, or a terminal that is its output too.
INPUT, TERMINAL = "input", "terminal"
#: Kinds of frames: input, its end, and the terminal's size (rows and columns).
DATA, END, SIZE = range(3)
#: Most bytes of data in a frame. A write of up to 4,096 bytes is never mixed with another one.
LONGEST = 4000
#: The descriptor from which the shell that becomes the command takes its standard error.
_STANDARD_ERROR = 3
#: What a terminal takes as the end of the input.
_END_OF_INPUT = b"\x04"
_BLOCK = 32 * 1024
_HEAD = struct.Struct("!BH")
_PR_SET_PDEATHSIG = 1
#: The shim lives on after these, and so does the console: they are for the command.
_PASSED_OVER = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGTERM),
)


def frames(kind: int, data: bytes = b"") -> Iterator[bytes]:
    """Yields the frames that carry the data; one for no data. Pure."""
    for start in range(0, max(len(data), 1), LONGEST):
        part = data[start : start + LONGEST]
        yield _HEAD.pack(kind, len(part)) + part


def window(rows: int, columns: int) -> bytes:
    """Returns the frame of a terminal's size. Raises struct.error for numbers that no terminal has. Pure."""
    return next(frames(SIZE, struct.pack("!HH", rows, columns)))


def unpacked(buffer: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Returns the complete frames, as kind and data, and the beginning of the next one. Pure."""
    found = []
    while len(buffer) >= _HEAD.size:
        kind, length = _HEAD.unpack_from(buffer)
        if len(buffer) < _HEAD.size + length:
            break
        found.append((kind, buffer[_HEAD.size : _HEAD.size + length]))
        buffer = buffer[_HEAD.size + length :]
    return found, buffer


class Console:
    """The input and, if there is one, the terminal of one command. ours: our end of either."""

    def __init__(self, frames_pipe: int, ours: int, *, is_terminal: bool) -> None:
        self._pipe = frames_pipe
        self._ours = ours
        self._is_terminal = is_terminal
        self._rest = b""
        #: Input that the command has not taken yet, and whether no more follows.
        self._pending = b""
        self._is_ended = False
        os.set_blocking(ours, False)

    def relay(self, child: int, wakeup: int) -> int:
        """Passes everything on until the child has ended; its exit code. wakeup: readable after a signal."""
        while True:
            self._wait(wakeup)
            if self._is_terminal:
                self._show()
            ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                if self._is_terminal:
                    # Its number is the session's as long as it has not been waited for.
                    _kill_session(child)
                    self._show()
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                return 128 - code if code < 0 else code

    def _wait(self, wakeup: int) -> None:
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        is_behind = bool(self._pending) and self._ours >= 0
        if not is_behind:
            poll.register(self._pipe, select.POLLIN)
        if self._ours >= 0 and (wanted := is_behind * select.POLLOUT | self._is_terminal * select.POLLIN):
            poll.register(self._ours, wanted)
        ready = dict(poll.poll())
        if wakeup in ready:
            os.read(wakeup, _BLOCK)
        if self._pipe in ready:
            found, self._rest = unpacked(self._rest + os.read(self._pipe, _BLOCK))
            for kind, data in found:
                self._take(kind, data)
        self._feed()

    def _take(self, kind: int, data: bytes) -> None:
        if kind == SIZE and self._is_terminal and self._ours >= 0:
            fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", *struct.unpack("!HH", data), 0, 0))
        elif kind == DATA and not self._is_ended:
            self._pending += data
        elif kind == END and not self._is_ended:
            self._is_ended = True
            self._pending += _END_OF_INPUT * self._is_terminal

    def _feed(self) -> None:
        """Gives the command what it takes now."""
        try:
            while self._pending and self._ours >= 0:
                self._pending = self._pending[os.write(self._ours, self._pending) :]
        except BlockingIOError:
            return
        except OSError:
            # It reads no more.
            self._close()
        if self._is_ended and not self._is_terminal:
            self._close()

    def _show(self) -> None:
        """Writes down what the terminal shows, as far as it can be read now."""
        with contextlib.suppress(BlockingIOError):
            while self._ours >= 0:
                try:
                    data = os.read(self._ours, _BLOCK)
                except BlockingIOError:
                    raise
                except OSError:
                    # Its last process has gone.
                    self._close()
                    return
                while data:
                    data = data[os.write(sys.stdout.fileno(), data) :]

    def _close(self) -> None:
        self._pending = b""
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1


def _kill_session(leader: int) -> None:
    """Kills what the command of a terminal left behind. The group of the shim, which others are in, is not meant."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(process.name)) == leader:
                os.kill(int(process.name), signal.SIGKILL)


def _become(command: Sequence[str], theirs: int, *, is_terminal: bool) -> None:
    """Becomes the command, with its end of the input or of the terminal."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # The interpreter ignores them, and a program inherits that.
        signal.signal(number, signal.SIG_DFL)
    os.dup2(theirs, 0)
    if is_terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.dup2(theirs, 1)
        os.dup2(theirs, _STANDARD_ERROR)
        _end_with_parent()
    os.execv(command[0], list(command))


def _end_with_parent() -> None:
    """A command with a session of its own is not reached by a KILL for the group of its shim (Linux)."""
    if sys.platform == "linux":
        # It takes as long to import as the rest together.
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Runs the command of the arguments below a console; ends with its exit code."""
    folder, wanted, *command = sys.argv[1:]
    is_terminal = wanted == TERMINAL
    # Open both ways it has no end, whoever comes and goes.
    pipe = os.open(Path(folder, PIPE), os.O_RDWR)
    if is_terminal:
        ours, theirs = os.openpty()
    else:
        theirs, ours = os.pipe()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if child == 0:
        try:
            _become(command, theirs, is_terminal=is_terminal)
        finally:
            os._exit(127)
    for number in _PASSED_OVER:
        signal.signal(number, lambda *_: None)
    os.close(theirs)
    os._exit(Console(pipe, ours, is_terminal=is_terminal).relay(child, woken))


if __name__ == "__main__":
    main()
