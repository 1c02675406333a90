"""One start of a container: what its folder tells, and that it runs once."""

import asyncio
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from deploy.local.kubelet.containers import attempt as attempts
from deploy.local.kubelet.containers import restore
from deploy.local.kubelet.containers.attempt import ContainerAttempt, NotStartable
from deploy.local.kubelet.containers.container_states import Container, ContainerRunning, Terminated
from deploy.local.supervisor.guard import signal_group
from tests.support.conditions import eventually
from tests.support.processes import alive
from tests.support.tables import cases, for_each

ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture
def attempt(tmp_path: Path) -> ContainerAttempt:
    one = ContainerAttempt(tmp_path / "main" / "0")
    one.prepare()
    return one


def start(attempt: ContainerAttempt, *command: str, env: dict[str, str] = ENV, cwd: str = "") -> None:
    attempt.start(command, env=env, cwd=cwd)


async def finished(attempt: ContainerAttempt) -> Terminated:
    await asyncio.wait_for(attempt.ended(), 30)
    state = attempt.state()
    assert isinstance(state, Terminated)
    return state


@for_each(("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 137), ("kill -15 $$", 143), ("exec false", 1))
async def test_the_exit_code_is_kept(script: str, code: int, attempt: ContainerAttempt) -> None:
    start(attempt, "sh", "-c", script)
    state = await finished(attempt)
    assert state.code == code
    assert state.started <= state.finished


async def test_it_prints_into_its_files_and_the_shim_adds_nothing(attempt: ContainerAttempt) -> None:
    start(attempt, "sh", "-c", "echo out; echo err >&2; kill -SEGV $$")
    await finished(attempt)
    assert (attempt.folder / "out").read_text() == "out\n"
    assert (attempt.folder / "err").read_text() == "err\n"


async def test_it_starts_in_its_own_folder_or_in_its_working_directory(
    attempt: ContainerAttempt, tmp_path: Path
) -> None:
    start(attempt, "pwd")
    await finished(attempt)
    other = ContainerAttempt(tmp_path / "other" / "0")
    other.prepare()
    start(other, "pwd", cwd="/")
    await finished(other)
    assert (attempt.folder / "out").read_text().strip() == str(attempt.work)
    assert (other.folder / "out").read_text().strip() == "/"


async def test_variables_of_any_name_arrive(attempt: ContainerAttempt) -> None:
    start(attempt, "env", env={**ENV, "PLAIN": "a b", "app.conf": "$x 'y'", "1st": "z", "-u": "y"})
    await finished(attempt)
    assert {"PLAIN=a b", "app.conf=$x 'y'", "1st=z", "-u=y"} <= set((attempt.folder / "out").read_text().splitlines())


@cases(
    ("not on PATH", ("no-such-thing",), "", "no-such-thing: no such program"),
    ("a word of the shell", ("exit",), "", "exit: no such program"),
    ("not in the folder", ("./here",), "", "./here: no such program"),
    ("not executable", ("/etc/passwd",), "", "/etc/passwd: not executable"),
    ("no directory", ("true",), "/no/where", "workingDir /no/where: no such directory"),
)
def test_a_command_that_cannot_run_is_named(
    command: tuple[str, ...], cwd: str, message: str, attempt: ContainerAttempt
) -> None:
    with pytest.raises(NotStartable) as raised:
        start(attempt, *command, cwd=cwd)
    assert str(raised.value).startswith(message)


async def test_a_command_is_asked_to_end_and_its_workers_are_left_to_it(attempt: ContainerAttempt) -> None:
    """As a worker pool needs it that lets its processes finish what they are at."""
    worker = 'trap "touch asked" TERM; touch up; until [ -e go ]; do sleep 0.02; done; touch finished'
    start(attempt, "sh", "-c", f"trap 'touch go; wait; exit 9' TERM; sh -c '{worker}' & wait")
    await eventually((attempt.work / "up").exists)
    attempt.signal(signal.SIGTERM)
    assert (await finished(attempt)).code == 9
    assert (attempt.work / "finished").exists()
    assert not (attempt.work / "asked").exists()


async def test_a_command_that_is_asked_to_end_while_it_starts_does_end(tmp_path: Path) -> None:
    starting = [ContainerAttempt(tmp_path / "main" / str(number)) for number in range(20)]
    for one in starting:
        one.prepare()
        start(one, "sleep", "60")
        await one.begun()
        one.signal(signal.SIGTERM)
    assert {(await finished(one)).code for one in starting} == {143}


async def test_killing_reaches_every_process(attempt: ContainerAttempt) -> None:
    start(attempt, "sh", "-c", "sleep 60 & echo $! > child; touch up; wait")
    await eventually((attempt.work / "up").exists)
    child = int((attempt.work / "child").read_text())
    attempt.signal(signal.SIGKILL)
    assert (await finished(attempt)).code == 137
    await eventually(lambda: not alive(child))


async def test_processes_that_a_command_leaves_behind_are_ended(attempt: ContainerAttempt) -> None:
    start(attempt, "sh", "-c", "(trap '' TERM; sleep 60) & echo $! > child")
    assert (await finished(attempt)).code == 0
    assert not alive(int((attempt.work / "child").read_text()))


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs /proc")
@cases(("in its folder", "sleep 60"), ("elsewhere", "cd / && exec sleep 60"))
async def test_processes_left_behind_without_a_kubelet_are_ended_by_the_next(
    behind: str, attempt: ContainerAttempt
) -> None:
    start(attempt, "sh", "-c", f"({behind}) & echo $! > child", env=ENV | {"HOME": str(attempt.work)})
    await eventually((attempt.folder / "code").exists)
    child, shim = int((attempt.work / "child").read_text()), attempt.pid
    await eventually(lambda: shim is not None and not alive(shim))
    found = ContainerAttempt(attempt.folder)
    assert isinstance(found.state(), Terminated)
    assert alive(child)
    await asyncio.wait_for(found.ended(), 30)
    assert not alive(child)
    await attempt.ended()


async def test_an_attempt_ends_after_its_slowest_process(
    attempt: ContainerAttempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(group: int, number: int) -> bool:
        threading.Timer(0.2, signal_group, (group, number)).start()
        return True

    monkeypatch.setattr(attempts, "signal_group", late)
    start(attempt, "sh", "-c", "sleep 60 & echo $! > child")
    assert (await finished(attempt)).code == 0
    assert not alive(int((attempt.work / "child").read_text()))


async def test_another_kubelet_finds_it_running_and_then_its_code(attempt: ContainerAttempt) -> None:
    start(attempt, "sh", "-c", "until [ -e go ]; do sleep 0.02; done; exit 6")
    await eventually(lambda: (attempt.folder / "pid").exists() and (attempt.folder / "pid").read_text().endswith("\n"))
    found = ContainerAttempt(attempt.folder)
    assert isinstance(found.state(), ContainerRunning)
    assert found.pid == attempt.pid
    waiting = asyncio.create_task(found.ended())
    (attempt.work / "go").touch()
    await asyncio.wait_for(waiting, 30)
    state = found.state()
    assert isinstance(state, Terminated)
    assert state.code == 6
    await attempt.ended()


async def test_a_killed_shim_counts_as_killed(attempt: ContainerAttempt) -> None:
    start(attempt, "sleep", "60")
    await eventually(lambda: (attempt.folder / "pid").exists())
    attempt.signal(signal.SIGKILL)
    assert (await finished(attempt)).code == 137


async def test_a_silent_command_that_is_killed_ends_when_it_is_killed(attempt: ContainerAttempt) -> None:
    start(attempt, "sleep", "60")
    await attempt.begun()
    for name in ("pid", "out", "err"):
        os.utime(attempt.folder / name, (1, 1))
    # Both instants are the file system's: its clock is coarser than the system's.
    (attempt.work / "before").touch()
    attempt.signal(signal.SIGKILL)
    state = await finished(attempt)
    assert (state.code, state.started) == (137, 1)
    assert state.finished >= (attempt.work / "before").stat().st_mtime
    assert ContainerAttempt(attempt.folder).state() == state


async def test_a_command_that_was_killed_without_a_kubelet_ends_when_it_is_found(attempt: ContainerAttempt) -> None:
    with subprocess.Popen(["true"]) as other:
        other.wait()
    write(attempt.folder, pid=f"{other.pid}\n", out="")
    for name in ("pid", "out"):
        os.utime(attempt.folder / name, (1, 1))
    assert attempt.state() == Terminated(137, 1, 1)
    state = await finished(attempt)
    assert (state.code, state.started) == (137, 1)
    assert state.finished >= attempt.work.stat().st_mtime


async def test_a_shim_killed_before_it_wrote_anything_counts_as_killed(
    attempt: ContainerAttempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "_SHIM", "kill -KILL $$")
    start(attempt, "true")
    assert (await finished(attempt)).code == 137


async def test_two_starts_of_one_attempt_run_the_command_once_and_both_learn_the_code(
    attempt: ContainerAttempt,
) -> None:
    script = "echo $$ >> starts; until [ -e go ]; do sleep 0.02; done; exit 5"
    second = ContainerAttempt(attempt.folder)
    for one in (attempt, second):
        start(one, "sh", "-c", script)
    shims = [one.pid for one in (attempt, second)]
    ends = [asyncio.create_task(finished(one)) for one in (attempt, second)]
    await eventually(lambda: not all(pid is not None and alive(pid) for pid in shims))
    await eventually((attempt.work / "starts").exists)
    (attempt.work / "go").touch()
    assert [end.code for end in await asyncio.gather(*ends)] == [5, 5]
    assert len((attempt.work / "starts").read_text().split()) == 1


async def test_a_recycled_process_id_is_not_taken_for_it(attempt: ContainerAttempt) -> None:
    """The number belongs to the group of an unrelated process by now."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        (attempt.folder / "pid").write_text(f"{other.pid}\n")
        state = attempt.state()
        assert isinstance(state, Terminated)
        attempt.signal(signal.SIGKILL)
        await asyncio.wait_for(attempt.ended(), 30)
        assert other.poll() is None
        other.terminate()
        assert other.wait() == -signal.SIGTERM


async def test_an_end_is_noticed_without_the_help_of_the_system(
    attempt: ContainerAttempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "_pidfd_open", None)
    start(attempt, "sh", "-c", "exit 8")
    assert (await finished(attempt)).code == 8


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content)


def test_a_container_without_a_trace_is_new(tmp_path: Path) -> None:
    assert restore.container("main", tmp_path / "main", None) == (Container("main"), None)


def test_a_container_that_has_ended_is_found_with_the_end_before(tmp_path: Path) -> None:
    write(tmp_path / "main" / "3", pid="1\n", code="2\n")
    write(tmp_path / "main" / "4", pid="1\n", code="0\n")
    found, attempt = restore.container("main", tmp_path / "main", None)
    assert isinstance(found.state, Terminated)
    assert (found.state.code, found.attempt, found.restarts) == (0, 4, 4)
    assert found.last is not None
    assert found.last.code == 2
    assert attempt is not None


def test_an_attempt_that_never_came_to_life_is_made_again(tmp_path: Path) -> None:
    write(tmp_path / "main" / "0", pid="1\n", code="2\n")
    write(tmp_path / "main" / "1")
    found, _ = restore.container("main", tmp_path / "main", None)
    assert isinstance(found.state, Terminated)
    assert (found.state.code, found.attempt) == (2, 0)


@cases(
    ("shown as running", {"running": {"startedAt": "2024-01-01T00:00:00Z"}}, 137, "ContainerStatusUnknown"),
    (
        "shown as ended",
        {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2024-01-01T00:00:00Z"}},
        0,
        "Completed",
    ),
)
def test_a_container_that_was_reported_is_not_run_again_when_its_files_are_lost(
    shown: dict[str, object], code: int, reason: str, tmp_path: Path
) -> None:
    found, _ = restore.container("main", tmp_path / "main", {"state": shown, "restartCount": 2})
    assert isinstance(found.state, Terminated)
    assert (found.state.code, found.state.reason, found.attempt) == (code, reason, 2)
