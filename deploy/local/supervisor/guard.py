"""The guard: a small process that outlives its master and ends the process groups the master left behind.

A master (the supervisor, the kubelet) that is killed cannot clean up after itself. It therefore starts a guard, sends
it the living process groups over a pipe, and when the pipe breaks without a farewell the guard ends those groups:
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

#: Seconds within which the system ends a process that is killed; one that waits for a broken disk takes for ever.
KILLING = 5.0
#: Seconds within which the system releases the lock of a process that was killed: a child that the process was about
#: to start has the lock, too, until it runs its program.
_RELEASE = 5.0


class Guard:
    """The master's end: says which groups the guard must end if the master dies.

    pids: a folder and a pattern of files in it that hold the numbers of more groups, read when the master is
    dead; such a group counts only if its leader's command line names the file's folder. This way no group is missed
    that was started just before. delay: seconds the guard waits after the master's death before it acts; lock: a file
    that the master and its successors hold locked (`hold`): when a successor has taken it by the end of the delay, the
    groups are the successor's, or its guard's, and this guard leaves them alone. grace: seconds between TERM and KILL.
    """

    def __init__(
        self, *, delay: float = 0.0, lock: Path | None = None, grace: float = 10.0, pids: tuple[Path, str] | None = None
    ) -> None:
        self._words = [str(os.getpid()), str(delay), str(grace), str(lock or ""), *map(str, pids or ())]
        self._groups: set[int] = set()
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *self._words],
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
        self._groups.add(group)
        self._say(f"+{group}\n")

    def remove(self, group: int) -> None:
        """The group has ended, and the system may reuse its number."""
        self._groups.discard(group)
        self._say(f"-{group}\n")

    def renew(self) -> int | None:
        """Start another guard in the place of one that died; the dead one's exit code, or None while it lives.

        Raises OSError when there can be none.
        """
        code = self._process.poll()
        if code is None:
            return None
        dead, self._process = self._process, self._start()
        assert dead.stdin is not None
        dead.stdin.close()
        for group in self._groups:
            self._say(f"+{group}\n")
        return code

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
    """Takes the lock file for the life of this process; its descriptor, or None when another process holds it.

    The file says who holds it (`holder`). Waits for the lock of one that has died. Raises OSError if the file cannot be
    opened, or is a symbolic link.
    """
    # Its content is replaced: a link could lead to any file of this user.
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _RELEASE
    while not _is_taken(descriptor):
        pid = holder(lock)
        # A process that has just taken the lock has yet to write its number.
        if not pid.isdecimal() or command_line(int(pid)) or time.monotonic() > deadline:
            os.close(descriptor)
            return None
        time.sleep(0.01)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def _is_taken(descriptor: int) -> bool:
    """Takes the lock of an open file. Returns False if it is held elsewhere."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(lock: Path) -> str:
    """Returns the process id in the lock file, or `unknown`."""
    with contextlib.suppress(OSError):
        return lock.read_text(encoding="utf-8").strip() or "unknown"
    return "unknown"


def signal_group(group: int, number: int) -> bool:
    """Signals every process of the group; False when there is none (left)."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        # macOS answers EPERM for a group of zombies only
        return False
    return True


def is_group_alive(group: int) -> bool:
    """True if a process of the group is alive. A zombie is not."""
    if not signal_group(group, 0):
        return False
    if not Path("/proc/self/stat").exists():
        return True
    return any(_lives_in(path, group) for path in Path("/proc").glob("[0-9]*/stat"))


def _lives_in(stat: Path, group: int) -> bool:
    state, _, number = (*stat_fields(stat), "", "", "")[:3]
    return number == str(group) and state not in ("Z", "X")


def stat_fields(stat: Path) -> list[str]:
    """Returns the fields of a process in /proc/<pid>/stat from its state on; none for a process that is gone."""
    try:
        # A program's name, in brackets, may hold anything.
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def command_line(pid: int) -> str:
    """The command line of a process that is alive, its words separated by blanks; empty otherwise."""
    if Path("/proc/self/cmdline").exists():
        try:
            # a zombie's is empty
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    listed = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout


def noted(folder: str, pattern: str) -> set[int]:
    """Returns the process groups whose numbers are in files, if their leader's command line names the file's folder."""
    found = set()
    for path in Path(folder).glob(pattern):
        with contextlib.suppress(OSError, ValueError):
            pid = int(path.read_text())
            if str(path.parent) in command_line(pid):
                found.add(pid)
    return found


def _succeeded(master: str, lock: str, delay: float) -> bool:
    """Waits for the delay. Returns True if a successor of the master has taken the lock then.

    Not sooner: the system may close a dead master's pipe before it releases its lock. A free lock stays with this
    process, so that no successor takes over groups that are being ended. One that took it and was killed, too, has a
    guard that waits for the next.
    """
    time.sleep(delay)
    return bool(lock) and (holder(Path(lock)) != master or hold(Path(lock)) is None)


def end(groups: set[int], grace: float) -> None:
    """Ends these process groups: TERM first, KILL after so many seconds. Returns when they are gone."""
    remaining = _alive_after({group for group in groups if signal_group(group, signal.SIGTERM)}, grace)
    for group in remaining:
        signal_group(group, signal.SIGKILL)
    # The system takes its time with a process that is killed: it gives its memory back first.
    _alive_after(remaining, KILLING)


def _alive_after(groups: set[int], patience: float) -> set[int]:
    """Waits so many seconds at most until all these groups have ended. Returns those that have not."""
    deadline = time.monotonic() + patience
    while groups and time.monotonic() < deadline:
        time.sleep(0.05)
        groups = {group for group in groups if is_group_alive(group)}
    return groups


def main() -> None:
    """Reads ``+group``, ``-group`` and ``bye`` lines from standard input until it ends."""
    master, delay, grace, lock, *pids = sys.argv[1:]
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        if line.startswith(b"+"):
            groups.add(int(line[1:]))
        elif line.startswith(b"-"):
            groups.discard(int(line[1:]))
        else:
            return
    if (groups or pids) and not _succeeded(master, lock, float(delay)):
        end(groups | (noted(*pids) if pids else set()), float(grace))


if __name__ == "__main__":
    main()
