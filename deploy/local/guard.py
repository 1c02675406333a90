"""The guard: a small process that outlives its master and ends the process groups the master left behind.

A master (the supervisor, the kubelet) that is killed cannot clean up after itself. It therefore starts a guard, tells
it over a pipe which process groups are alive, and when the pipe breaks without a farewell the guard ends those groups:
TERM first, KILL after a grace period. Unlike a parent-death signal this reaches whole groups, works on every Unix,
and needs no code between fork and exec.

The guard's own program is this file run without site packages, so that it costs a few megabytes and milliseconds.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


class Guard:
    """The master's end: says which groups the guard must end if the master dies.

    delay: seconds the guard waits after the master's death before it acts; lock: a file a successor of the master
    holds locked (`hold`): when somebody holds it after the delay began, the groups are the successor's and the guard
    leaves them alone. grace: seconds between TERM and KILL.
    """

    def __init__(self, *, delay: float = 0.0, lock: Path | None = None, grace: float = 10.0) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(delay), str(grace), str(lock or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The guard's process id."""
        return self._process.pid

    def add(self, group: int) -> None:
        """From now on the group is to be ended with the master."""
        self._say(f"+{group}\n")

    def remove(self, group: int) -> None:
        """The group has ended; its number may soon be somebody else's."""
        self._say(f"-{group}\n")

    def alive(self) -> bool:
        """Whether the guard still stands; a master that cares starts another one when it does not."""
        return self._process.poll() is None

    def dismiss(self) -> None:
        """Says farewell: the guard ends without touching anything."""
        self._say("bye\n")
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            os.write(self._process.stdin.fileno(), line.encode())


def hold(lock: Path) -> int | None:
    """Takes the lock file for the life of this process; its descriptor, or None when another process holds it."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def signal_group(group: int, number: int) -> bool:
    """Signals every process of the group; False when there is none (left)."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        # macOS answers EPERM for a group of zombies only
        return False
    return True


def _succeeded(lock: str, delay: float) -> bool:
    """Whether a successor of the master took the lock within the delay."""
    deadline = time.monotonic() + delay
    while lock and time.monotonic() < deadline:
        descriptor = hold(Path(lock))
        if descriptor is None:
            return True
        os.close(descriptor)
        time.sleep(0.2)
    return False


def _end(groups: set[int], grace: float) -> None:
    remaining = {group for group in groups if signal_group(group, signal.SIGTERM)}
    deadline = time.monotonic() + grace
    while remaining and time.monotonic() < deadline:
        time.sleep(0.05)
        remaining = {group for group in remaining if signal_group(group, 0)}
    for group in remaining:
        signal_group(group, signal.SIGKILL)


def main() -> None:
    """Reads ``+group``, ``-group`` and ``bye`` lines from standard input until it ends."""
    delay, grace, lock = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        if line.startswith(b"+"):
            groups.add(int(line[1:]))
        elif line.startswith(b"-"):
            groups.discard(int(line[1:]))
        else:
            return
    if groups and not _succeeded(lock, delay):
        _end(groups, grace)


if __name__ == "__main__":
    main()
