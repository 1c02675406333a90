"""Forks behave as processes do that were started afresh."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from deploy.processes import command_lines
from tests.support.fork_parent import Forked, ForkParent
from tests.support.tables import cases

MODULE = "tests.unit.support.forked"


@pytest.fixture(scope="module")
def forks() -> ForkParent:
    return ForkParent()


def start(forks: ForkParent, folder: Path, *arguments: str) -> Forked:
    with (folder / "output").open("wb") as output:
        return forks.start(MODULE, arguments, output)


def told(folder: Path) -> str:
    while not (text := (folder / "output").read_text()).endswith("\n"):
        pass
    return text


def test_a_fork_has_the_folder_environment_and_arguments_of_who_asked(
    forks: ForkParent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASKED", "yes")
    process = start(forks, tmp_path, "a", "b c")
    assert process.wait(60) == process.poll() == process.returncode == 3
    assert told(tmp_path) == f"{MODULE} a b c {tmp_path} yes {sorted(os.environ)}\n"


@cases(
    ("asked to end", Forked.terminate, signal.SIGTERM),
    ("killed", Forked.kill, signal.SIGKILL),
)
def test_the_signal_that_ended_it_is_known(end, number, forks: ForkParent, tmp_path: Path) -> None:
    process = start(forks, tmp_path, "wait")
    told(tmp_path)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert psutil.Process(process.pid).cmdline() == [sys.executable, "-m", MODULE, "wait"]
    end(process)
    assert process.wait(60) == -number
    end(process)
    assert not psutil.pid_exists(process.pid)


def test_what_runs_by_itself_is_no_part_of_an_installation(forks: ForkParent, tmp_path: Path) -> None:
    process = start(forks, tmp_path, "wait")
    told(tmp_path)
    with forks.forking() as server:
        assert server.alive
        assert forks.parts() == []
    assert not server.alive
    process.kill()
    assert process.wait(60) == -signal.SIGKILL


async def test_a_part_is_a_child_of_its_fork_server(forks: ForkParent) -> None:
    with forks.forking() as server:
        part = await server.start(command_lines.own("healthy", "--help"), os.environ)
        assert part.stdout is not None
        assert (await part.stdout.read()).startswith(b"Usage: penstock healthy")
        assert await part.wait() == 0
        part = await server.start(command_lines.own("watch"), {**os.environ, "PENSTOCK_BROKER": "redis://127.0.0.1:1"})
        assert [each.pid for each in forks.parts()] == [part.pid]
        forks.parts()[0].kill()
        assert await part.wait() == -signal.SIGKILL
        assert forks.parts() == []
