"""A program that starts commands through a fork server and prints what became of each, as JSON.

It is a process of its own, because a process with threads, as a test runner is, starts no fork server.
"""

import asyncio
import atexit
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from deploy.local.supervisor import fork_server
from deploy.local.supervisor.fork_server import ForkedProcess, ForkServer
from deploy.processes import command_lines

_PREFIX = command_lines.own()


def _command() -> None:
    """Stands for the `penstock` command in the forks."""
    word, *rest = sys.argv[1:]
    match word:
        case "where":
            own = Path("/proc/self")
            streams = [str((own / "fd" / number).readlink()).partition(":")[0] for number in "012"]
            leads, title = os.getsid(0) == os.getpid(), (own / "cmdline").read_text().rstrip("\0")
            # The last one reads the folder.
            opened = sorted(int(each.name) for each in (own / "fd").iterdir())[:-1]
            print(json.dumps([rest, os.environ.get("GIVEN"), "HIDDEN" in os.environ, streams, opened, leads, title]))
        case "exit":
            sys.exit(int(rest[0]))
        case "words":
            sys.exit("no such thing")
        case "fail":
            raise ValueError("a defect")
        case "thread":
            threading.Thread(target=lambda: (time.sleep(0.05), print("the thread is done"))).start()
            atexit.register(print, "at exit")
        case "sleep":
            print("asleep", flush=True)
            signal.pause()


async def _read(child: ForkedProcess) -> str:
    assert child.stdout is not None
    return (await child.stdout.read()).decode()


async def _ended(server: ForkServer, *words: str) -> tuple[int, str]:
    child = await server.start((*_PREFIX, *words), {"GIVEN": "yes", "PATH": os.environ["PATH"]})
    said = await _read(child)
    return await child.wait(), said


async def _asleep(server: ForkServer) -> ForkedProcess:
    child = await server.start((*_PREFIX, "sleep"), {})
    assert child.stdout is not None
    await child.stdout.readline()
    return child


async def _all(server: ForkServer) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in ("where a b", "exit 3", "words", "fail", "thread"):
        found[line] = await _ended(server, *line.split())
    many = [await server.start((*_PREFIX, "exit", str(code)), {}) for code in range(20)]
    found["many"] = [await child.wait() for child in many]
    killed, left = await _asleep(server), await _asleep(server)
    os.kill(killed.pid, signal.SIGTERM)
    found["killed"] = await killed.wait()
    os.kill(server._pid, signal.SIGKILL)
    while server.alive:
        await asyncio.sleep(0.01)
    found["left"] = left.returncode
    try:
        await server.start((*_PREFIX, "exit", "0"), {})
    except ConnectionError as error:
        found["refused"] = str(error)
    os.kill(left.pid, signal.SIGTERM)
    found["left ended"] = await left.wait()
    return found


if __name__ == "__main__":
    os.environ["HIDDEN"] = "from the parts"
    sys.modules["command"] = fake = ModuleType("command")
    fake.main = _command  # type: ignore[attr-defined]
    with Path(os.devnull).open() as _, fork_server.forking({}, "command") as forks:
        assert forks is not None
        print(json.dumps(asyncio.run(_all(forks))))
