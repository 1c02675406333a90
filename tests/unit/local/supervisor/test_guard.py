"""The guard ends what a dead master left behind, unless the master said farewell or has a successor."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local.supervisor import guard
from tests.support.conditions import eventually
from tests.support.processes import alive
from tests.support.tables import cases, for_each

Start = Callable[..., "subprocess.Popen[bytes]"]
PidIn = Callable[[str], int]
MASTER = """
import subprocess, sys, time
from pathlib import Path
from deploy.local.supervisor.guard import Guard, hold

home, delay, farewell = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
lock = home / "lock"
assert hold(lock) is not None
one = Guard(delay=delay, lock=lock, grace=0.2, pids=(home, "*/pid"))
command = ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done", "name", str(home / "noted")]
child = subprocess.Popen(command, start_new_session=True)
if farewell in ("noted", "recycled"):
    folder = home / farewell
    folder.mkdir()
    (folder / "pid").write_text(str(child.pid))
else:
    one.add(child.pid)
(home / "guard").write_text(str(one.pid))
if farewell == "bye":
    one.dismiss()
elif farewell == "removed":
    one.remove(child.pid)
(home / "child").write_text(str(child.pid))
time.sleep(60)
"""


@pytest.fixture
def start(tmp_path: Path, pid_in: PidIn) -> Iterator[Start]:
    masters: list[subprocess.Popen[bytes]] = []

    # Not at once: the system may close a dead master's pipe before it releases its lock.
    def run(delay: float = 0.5, farewell: str = "none") -> subprocess.Popen[bytes]:
        masters.append(subprocess.Popen([sys.executable, "-c", MASTER, str(tmp_path), str(delay), farewell]))
        return masters[-1]

    yield run
    for master in masters:
        master.kill()
        master.wait()
    if child := pid_in("child"):
        guard.signal_group(child, signal.SIGKILL)


@cases(("that it was told", "none"), ("that a file notes", "noted"))
async def test_groups_of_a_killed_master_are_ended_even_if_they_ignore_term(
    farewell: str, start: Start, pid_in: PidIn
) -> None:
    master = start(farewell=farewell)
    await eventually(lambda: pid_in("child"))
    master.kill()
    await eventually(lambda: not alive(pid_in("child")) and not alive(pid_in("guard")))


def test_a_group_that_was_killed_is_gone_when_that_is_said() -> None:
    # The system takes a while to give so many pages back.
    script = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); kept = b'x' * (300 << 20); print(); input()"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        guard.end({child.pid}, 0.0)
        assert not guard.is_group_alive(child.pid)


@for_each("bye", "removed", "recycled")
async def test_groups_are_left_alone_after(farewell: str, start: Start, pid_in: PidIn) -> None:
    master = start(farewell=farewell)
    await eventually(lambda: pid_in("child"))
    master.kill()
    await eventually(lambda: not alive(pid_in("guard")))
    assert alive(pid_in("child"))


@cases(("lives", False), ("was killed, too: its own guard waits for the next one", True))
async def test_the_groups_are_a_successors_that(dies: bool, start: Start, pid_in: PidIn, tmp_path: Path) -> None:
    master = start(delay=3.0)
    await eventually(lambda: pid_in("child"))
    assert guard.hold(tmp_path / "lock") is None, "the master holds it"
    master.kill()
    master.wait()
    descriptor: int | None = None

    def taken() -> bool:
        nonlocal descriptor
        descriptor = guard.hold(tmp_path / "lock")
        return descriptor is not None

    await eventually(taken)
    assert descriptor is not None
    if dies:
        os.close(descriptor)
    await eventually(lambda: not alive(pid_in("guard")))
    assert alive(pid_in("child"))
    if not dies:
        os.close(descriptor)


HEIR = """
import subprocess, sys
from pathlib import Path
from deploy.local.supervisor.guard import hold

descriptor = hold(Path(sys.argv[1]))
child = subprocess.Popen(["/bin/cat"], stdin=3, stdout=subprocess.DEVNULL, pass_fds=[descriptor])
"""


def test_a_lock_that_a_child_of_its_dead_holder_still_has_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "lock"
    reader, writer = os.pipe()
    script = HEIR.replace("stdin=3", f"stdin={reader}")
    subprocess.run([sys.executable, "-c", script, str(lock)], pass_fds=[reader], check=True)
    os.close(reader)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        # Ends the child that has the lock.
        if not waits:
            os.close(writer)
        waits.append(seconds)

    monkeypatch.setattr("deploy.local.supervisor.guard.time.sleep", sleep)
    descriptor = guard.hold(lock)
    assert waits
    assert descriptor is not None
    assert guard.hold(lock) is None, "this process holds it, and lives"
    os.close(descriptor)
