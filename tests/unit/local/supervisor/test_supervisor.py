"""The supervisor: order, readiness, restarts, and no process left behind after any death."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from deploy.local.supervisor import supervisor
from deploy.local.supervisor.leftovers import Notes
from deploy.local.supervisor.supervisor import Component, StartFailed, Supervisor
from tests.support.conditions import eventually
from tests.support.processes import alive
from tests.support.tables import cases

PidIn = Callable[[str], int]


def shell(name: str, script: str, **kwargs: object) -> Component:
    return Component(name, ("/bin/sh", "-c", script), **kwargs)  # type: ignore[arg-type]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Supervisor]:
    one = Supervisor(tmp_path / "logs")
    yield one
    await one.stop()


async def test_a_part_is_ready_when_its_file_appears(running: Supervisor, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    flag.touch()  # left over from the last run: must not count
    await running.start(shell("one", f"sleep 0.1; echo up > {flag}; exec sleep 60", ready=flag))
    assert flag.read_text() == "up\n"


async def test_a_part_is_ready_when_its_check_says_so(running: Supervisor) -> None:
    answers = iter([False, False, True])

    async def check() -> bool:
        return next(answers)

    await running.start(shell("one", "exec sleep 60", ready=check))
    assert next(answers, None) is None


@cases(
    ("it ends", "echo no such luck >&2; exit 3", r"component part: ended with exit code 3[^|]*\n  no such luck"),
    ("it is too slow", "exec sleep 60", r"component part: was not ready within 0\.3 s"),
)
async def test_a_part_that_does_not_become_ready_is_named_quoted_and_stopped(
    script: str, message: str, running: Supervisor, tmp_path: Path, pid_in: PidIn
) -> None:
    script = f"echo $$ > {tmp_path}/pid; {script}"
    with pytest.raises(StartFailed, match=message):
        await running.start(shell("part", script, ready=tmp_path / "never", timeout=0.3 if "60" in script else 30.0))
    assert not alive(pid_in("pid"))
    assert running.pids() == {}


@cases(
    ("it is killed", "kill -KILL $$"),
    ("it ends, and then the death of another part is noticed", "touch $H/die; exit 1"),
)
async def test_a_part_that_cannot_help_its_early_end_is_started_again(
    fails: str, running: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SHORTEST", 0.01)
    monkeypatch.setattr(supervisor, "NOTICED", 60.0)
    home = {"H": str(tmp_path)}
    # The other part's death comes after this one's.
    death = "until [ -e $H/die ]; do sleep 0.02; done; sleep 0.3; touch $H/died; exit 1"
    dies = f"[ -e $H/died ] || {{ {death}; }}; exec sleep 60"
    await running.start(shell("base", dies, env=home))
    script = f"[ -e $H/again ] || {{ touch $H/again; {fails}; }}; touch $H/ready; exec sleep 60"
    await running.start(shell("part", script, env=home, ready=tmp_path / "ready"))
    assert alive(running.pids()["part"])


async def test_no_part_is_left_when_the_start_of_its_neighbour_is_cancelled(
    running: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn, started = running._spawn, []

    async def slow(component: Component) -> object:
        if component.name == "second":
            await asyncio.Event().wait()
        started.append(await spawn(component))
        return started[-1]

    monkeypatch.setattr(running, "_spawn", slow)
    starting = asyncio.create_task(running.start(shell("first", "exec sleep 60"), shell("second", "exec sleep 60")))
    await eventually(lambda: started)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await running.stop()
    assert not alive(started[0].pid)


async def test_a_part_that_dies_is_started_again(running: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "SHORTEST", 0.01)
    await running.start(shell("one", "exec sleep 60"))
    first = running.pids()["one"]
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: running.pids().get("one", first) != first)
    assert alive(running.pids()["one"])


async def test_a_part_that_cannot_be_started_again_is_tried_until_it_can(
    running: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "SHORTEST", 0.01)
    monkeypatch.setattr(supervisor, "LONGEST", 0.05)
    program, away = tmp_path / "program", tmp_path / "away"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    await running.start(Component("one", (str(program),)))
    first = running.pids()["one"]
    program.rename(away)
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: caplog.text.count("a part cannot be started again") >= 2)
    assert running.pids() == {}
    away.rename(program)
    await eventually(running.pids)
    assert alive(running.pids()["one"])


async def test_a_part_whose_log_cannot_be_opened_runs_once_only(
    running: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "SHORTEST", 0.01)
    monkeypatch.setattr(supervisor, "LONGEST", 0.05)
    await running.start(shell("one", f"echo $$ >> {tmp_path}/pids; exec sleep 60"))
    await eventually((tmp_path / "pids").exists)
    (tmp_path / "logs").rename(tmp_path / "away")
    os.kill(running.pids()["one"], signal.SIGKILL)
    await eventually(lambda: "a part cannot be started again" in caplog.text)
    (tmp_path / "away").rename(tmp_path / "logs")
    await eventually(running.pids)
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert [pid for pid in pids if alive(pid)] == [running.pids()["one"]]


async def test_output_goes_to_a_file_of_its_own(running: Supervisor, tmp_path: Path) -> None:
    script = "echo hello; echo again >&2; head -c 200000 /dev/zero | tr '\\0' x; exec sleep 60"
    await running.start(shell("talker", script))
    log = tmp_path / "logs" / "talker.log"
    await eventually(lambda: log.exists() and "x" * 1000 in log.read_text())
    assert log.read_text().startswith("hello\nagain\n")


async def test_parts_stop_in_reverse_order(running: Supervisor, tmp_path: Path) -> None:
    order = tmp_path / "order"
    for name in ("a", "b", "c"):
        ready = tmp_path / f"{name}.ready"
        loop = f"trap 'echo {name} >> {order}; exit 0' TERM; touch {ready}; while :; do sleep 0.02; done"
        await running.start(shell(name, loop, ready=ready))
    await running.stop()
    assert order.read_text().split() == ["c", "b", "a"]


async def test_parts_of_one_start_are_waited_for_and_stopped_side_by_side(running: Supervisor, tmp_path: Path) -> None:
    meet = (
        "touch {me}; until [ -e {other} ]; do sleep 0.02; done; trap '{last}' TERM; touch {me}.ready; sleep 60 & wait"
    )
    parts = []
    for me, other in (("a", "b"), ("b", "a")):
        # each ends only when the other has been told to end too
        last = f"touch {tmp_path}/{me}.told; until [ -e {tmp_path}/{other}.told ]; do sleep 0.02; done; exit 0"
        script = meet.format(me=tmp_path / me, other=tmp_path / other, last=last)
        parts.append(shell(me, script, ready=tmp_path / f"{me}.ready"))
    await running.start(*parts)
    assert set(running.pids()) == {"a", "b"}
    await running.stop()
    assert running.pids() == {}
    assert (tmp_path / "a.told").exists()
    assert (tmp_path / "b.told").exists()


async def test_a_part_that_fails_takes_those_started_with_it_along(running: Supervisor, tmp_path: Path) -> None:
    waiting = shell("patient", f"echo $$ > {tmp_path}/pid; exec sleep 60", ready=tmp_path / "never")
    broken = shell("broken", f"until [ -s {tmp_path}/pid ]; do sleep 0.02; done; exit 1", ready=tmp_path / "never")
    with pytest.raises(StartFailed, match="component broken"):
        await running.start(waiting, broken)
    assert not alive(int((tmp_path / "pid").read_text()))
    assert running.pids() == {}


async def test_a_part_that_ignores_term_is_killed_with_all_its_children(
    running: Supervisor, tmp_path: Path, pid_in: PidIn
) -> None:
    script = f"trap '' TERM; sleep 60 & echo $! > {tmp_path}/child; touch {tmp_path}/up; wait; sleep 60"
    await running.start(shell("stubborn", script, ready=tmp_path / "up", grace=0.2))
    pid = running.pids()["stubborn"]
    await running.stop()
    assert not alive(pid)
    await eventually(lambda: not alive(pid_in("child")))


async def test_a_part_that_appears_twice_is_refused(running: Supervisor) -> None:
    await running.start(shell("one", "exec sleep 60"))
    with pytest.raises(ValueError, match="component one: already started"):
        await running.start(shell("one", "exec sleep 60"))


PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from deploy.local.supervisor.leftovers import Notes
from deploy.local.supervisor.supervisor import Component, Supervisor

home = Path(sys.argv[1])
async def started():
    (home / "guard").write_text(str(one._guard.pid))
    (home / "started").touch()
def stopped():
    os.kill(os.getpid(), signal.SIGTERM)
    (home / "stopped").touch()
script = f"{sys.argv[2]}sleep 60 & echo $! > {home}/child; echo $$ > {home}/part; wait; sleep 60"
part = Component("part", ("/bin/sh", "-c", script), grace=1000 if sys.argv[2] else 1)
one = Supervisor(home / "logs", notes=Notes(home / "parts"))
asyncio.run(one.run([part], started=started, stopped=stopped))
"""


async def program(home: Path, pid_in: PidIn, trap: str = "", stderr: int | None = None) -> asyncio.subprocess.Process:
    """Runs PROGRAM until its part has started. trap: the part's own answer to signals."""
    command = (sys.executable, "-c", PROGRAM, str(home), trap)
    process = await asyncio.create_subprocess_exec(*command, stderr=stderr)
    await eventually(lambda: (home / "started").exists() and pid_in("child") and pid_in("part"))
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
async def test_no_process_is_left_when_the_supervisor_gets(
    number: signal.Signals, tmp_path: Path, pid_in: PidIn
) -> None:
    process = await program(tmp_path, pid_in)
    assert alive(pid_in("child"))
    process.send_signal(number)
    code = await process.wait()
    assert code == (-9 if number is signal.SIGKILL else 0)
    await eventually(lambda: not alive(pid_in("part")) and not alive(pid_in("child")))


async def test_a_guard_that_dies_is_replaced_and_protects_as_before(tmp_path: Path, pid_in: PidIn) -> None:
    process = await program(tmp_path, pid_in, stderr=asyncio.subprocess.PIPE)
    first = pid_in("guard")
    os.kill(first, signal.SIGKILL)
    assert process.stderr is not None
    said = await asyncio.wait_for(process.stderr.readline(), 30)
    assert said.startswith(b"the guard died and is started again"), said
    process.kill()
    await process.wait()
    await eventually(lambda: not alive(pid_in("part")) and not alive(pid_in("child")))


async def test_parts_left_behind_by_a_killed_master_and_guard_are_ended_by_the_next(
    tmp_path: Path, pid_in: PidIn, caplog: pytest.LogCaptureFixture
) -> None:
    process = await program(tmp_path, pid_in)
    process.send_signal(signal.SIGSTOP)  # it must not start another guard
    os.kill(pid_in("guard"), signal.SIGKILL)
    process.kill()
    await process.wait()
    left = pid_in("part"), pid_in("child")
    assert all(map(alive, left))
    following = Supervisor(tmp_path / "logs", notes=Notes(tmp_path / "parts"))
    await following.start(shell("next", "exec sleep 60"))
    try:
        assert not any(map(alive, left))
        assert "left behind by an earlier run, and ended now" in caplog.text
        assert [path.name for path in (tmp_path / "parts").iterdir()] == ["next"]
    finally:
        await following.stop()
    assert list((tmp_path / "parts").iterdir()) == []


@pytest.mark.parametrize("note", ["{pid} 1", "{pid}", "", "x y", "-1 1"], ids=lambda note: note or "nothing")
async def test_a_reused_process_id_is_left_alone(note: str, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "part").write_text(note.format(pid=process.pid))
    assert list(await Notes(tmp_path / "parts").end(0.1)) == []
    assert alive(process.pid)
    process.kill()
    await process.wait()


async def test_a_second_signal_takes_all_patience_away(tmp_path: Path, pid_in: PidIn) -> None:
    process = await program(tmp_path, pid_in, f"trap 'touch {tmp_path}/told' TERM;")
    process.send_signal(signal.SIGINT)
    await eventually((tmp_path / "told").exists)
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 30) == 0
    assert not alive(pid_in("part"))


async def test_no_further_signal_keeps_the_last_step_from_its_end(tmp_path: Path, pid_in: PidIn) -> None:
    process = await program(tmp_path, pid_in)
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 30) == 0
    assert (tmp_path / "stopped").exists()
