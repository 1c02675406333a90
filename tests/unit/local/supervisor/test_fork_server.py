"""The fork server: forks are as processes that were started afresh, and outlive it."""

import asyncio
import importlib.util
import json
import select
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from deploy.cli import forked_parts, main
from deploy.local.supervisor.fork_server import ForkServer
from deploy.processes import command_lines
from tests.support.paths import ROOT
from tests.support.tables import cases

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="parts are forked on Linux only")


@pytest.fixture(scope="module")
def found() -> Any:
    """What became of each command of the program."""
    program = [sys.executable, "-m", "tests.unit.local.supervisor.forked_commands"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_fork_has_words_environment_streams_session_and_title_of_its_own(found: Any) -> None:
    code, said = found["where a b"]
    words, given, hidden, streams, opened, leads, title = json.loads(said)
    assert (code, words, given, hidden) == (0, ["a", "b"], "yes", False)
    assert streams == ["/dev/null", "pipe", "pipe"]
    assert opened == [0, 1, 2]
    assert leads
    assert title == " ".join(command_lines.own("where", "a", "b"))


@cases(
    ("a code", "exit 3", 3, ""),
    ("a reason", "words", 1, "no such thing\n"),
    ("a traceback", "fail", 1, "ValueError: a defect\n"),
    ("threads and exit handlers first", "thread", 0, "the thread is done\nat exit\n"),
)
def test_a_fork_ends_as_a_program_ends(line: str, code: int, said: str, found: Any) -> None:
    assert found[line][0] == code
    assert found[line][1].endswith(said)


def test_every_fork_has_its_own_exit_code(found: Any) -> None:
    assert found["many"] == list(range(20))
    assert found["killed"] == -signal.SIGTERM


def test_forks_outlive_the_server_and_their_end_is_seen(found: Any) -> None:
    assert found["left"] is None
    assert found["refused"] == "the fork server is gone"
    # Who is no parent learns of the end, and not how it came.
    assert found["left ended"] == -signal.SIGKILL


def test_only_processes_of_this_installation_are_forked() -> None:
    assert ForkServer.serves(command_lines.beat())
    assert not ForkServer.serves((sys.executable, "-m", "http.server"))
    assert not ForkServer.serves(("valkey-server", "conf"))


def test_every_module_of_a_part_can_be_imported_for_its_command() -> None:
    for word, modules in forked_parts.MODULES.items():
        assert main.command_of(word).name == word
        assert [module for module in modules if importlib.util.find_spec(module) is None] == []


@cases(("while its output is connected", 0), ("while the answer is waited for", 50))
async def test_a_fork_that_is_given_up_before_its_answer_is_ended(turns: int) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as fork, theirs:
        server = ForkServer(ours, fork.pid)
        starting = asyncio.create_task(server.start(command_lines.beat(), {}))
        while not select.select([theirs], [], [], 0)[0]:
            await asyncio.sleep(0)
        request = json.loads(socket.recv_fds(theirs, 1 << 20, 1)[0])
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        theirs.send(json.dumps({"number": request["number"], "pid": fork.pid}).encode())
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert fork.wait() == -signal.SIGKILL
        asyncio.get_running_loop().remove_reader(ours)
        ours.close()
        await asyncio.sleep(0)


_ALONE = """
import os, socket, sys
from deploy.local.supervisor import fork_server
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
ours.close()
os.fork() and (os.wait(), os._exit(0))
request = {"number": 1, "words": [], "environment": {}}
fork_server.leave(lambda: fork_server._become(theirs, request, 2, "tests.unit.local.supervisor.forked_commands"))
"""


def test_a_fork_whose_master_has_ended_ends_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", _ALONE], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
