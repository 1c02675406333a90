"""Probes: how answers become verdicts, and how each kind asks."""

import asyncio
import os
import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.kubelet.containers import probes
from deploy.local.kubelet.containers.probes import ProbeResults
from tests.support.tables import cases
from tests.unit.kubelet.factories import box
from workers.api.kinds import Object

ENV = {"PATH": os.environ["PATH"], "WORD": "x"}


@cases(
    ("one success", "+", {}, [True]),
    ("three failures", "---", {}, [None, None, False]),
    ("fewer do not count", "+--+--", {}, [True] * 6),
    ("recovery", "+---+", {}, [True, True, True, False, True]),
    ("own threshold", "-", {"failureThreshold": 1}, [False]),
    ("two successes", "++-++", {"successThreshold": 2, "failureThreshold": 1}, [None, True, False, False, True]),
)
def test_thresholds(answers: str, probe: Object, verdicts: list[bool | None]) -> None:
    tally, found = ProbeResults(), []
    for answer in answers:
        tally = tally.count(answer == "+", probe)
        found.append(tally.healthy)
    assert found == verdicts


async def test_only_changes_of_the_verdict_are_reported() -> None:
    answers = iter([None, None, "bad", "bad", "worse", None])
    told: list[tuple[bool, str]] = []
    done = asyncio.Event()

    async def check(_: Object) -> str | None:
        try:
            return next(answers)
        except StopIteration:
            done.set()
            return None

    task = asyncio.create_task(probes.observe({"periodSeconds": 0}, check, lambda *verdict: told.append(verdict)))
    await asyncio.wait_for(done.wait(), 30)
    task.cancel()
    assert told == [(True, ""), (False, "worse"), (True, "")]


async def test_a_question_that_could_not_be_asked_is_no_answer() -> None:
    answers = iter(["bad", probes.NotAsked("no ConfigMap"), None, "bad", probes.NotAsked("no ConfigMap"), "bad"])
    told: list[tuple[bool, str]] = []
    done = asyncio.Event()

    async def check(_: Object) -> str | None:
        answer = next(answers, done)
        if isinstance(answer, probes.NotAsked):
            raise answer
        if isinstance(answer, asyncio.Event):
            answer.set()
            await asyncio.Event().wait()
            return None
        return answer

    probe = {"periodSeconds": 0, "failureThreshold": 2}
    task = asyncio.create_task(probes.observe(probe, check, lambda *verdict: told.append(verdict)))
    await asyncio.wait_for(done.wait(), 30)
    task.cancel()
    assert told == [(True, ""), (False, "bad")]


async def test_a_startup_probe_is_asked_until_it_succeeds() -> None:
    answers = iter(["not yet", None])

    async def check(_: Object) -> str | None:
        return next(answers)

    told: list[bool] = []
    await probes.observe({"periodSeconds": 0}, check, lambda healthy, _: told.append(healthy), once=True)
    assert told == [True]


@pytest.fixture
async def server() -> AsyncIterator[int]:
    """Answers 200 to ``/good?`` with the right header, 302 to ``/moved``, 500 to everything else."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:
            # A TCP probe connects and says nothing.
            writer.close()
            return
        path = head.split(" ")[1]
        status = {"/good": "200 OK" if "X-A: b" in head else "400 Bad", "/moved": "302 Found"}.get(path, "500 Oops")
        writer.write(f"HTTP/1.1 {status}\r\nLocation: /bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1]


def http(path: str) -> Object:
    return {"httpGet": {"port": "web", "path": path, "httpHeaders": [{"name": "X-A", "value": "b"}]}}


@cases(
    ("2xx", http("/good"), None),
    ("3xx is not followed", http("moved"), None),
    ("5xx", http("/bad"), "HTTP status 500"),
    ("TCP", {"tcpSocket": {"port": "web"}}, None),
    ("an unknown port", {"httpGet": {"port": "api"}}, "container main: no port is named api"),
    ("a command that succeeds", {"exec": {"command": ["true"]}}, None),
    ("one that fails", {"exec": {"command": ["sh", "-c", "echo why; exit 3"]}}, "exit code 3: why"),
    ("no such program", {"exec": {"command": ["no-such"]}}, "No such file"),
)
async def test_a_probe_asks_and_says_why_it_failed(
    probe: Object, failure: str | None, server: int, tmp_path: Path
) -> None:
    container = box("main", ports=[{"name": "web", "containerPort": server}])
    answer = await probes.ask({**probe, "timeoutSeconds": 30}, container, env=ENV, cwd=tmp_path)
    assert answer == failure or (failure == "No such file" and failure in str(answer))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is one loopback address only")
async def test_a_pod_with_an_address_of_its_own_is_asked_there(tmp_path: Path) -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.4.5.6", 0) as listening:
        ask = {"tcpSocket": {"port": listening.sockets[0].getsockname()[1]}, "timeoutSeconds": 30}
        assert await probes.ask(ask, box("main"), env=ENV, cwd=tmp_path, address="127.4.5.6") is None
        assert await probes.ask(ask, box("main"), env=ENV, cwd=tmp_path) is not None


async def test_a_closed_port_is_a_failure(tmp_path: Path) -> None:
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
    failure = await probes.ask({"tcpSocket": {"port": port}, "timeoutSeconds": 30}, box("main"), env=ENV, cwd=tmp_path)
    assert failure is not None


async def test_a_command_that_takes_too_long_is_a_failure_and_is_ended(tmp_path: Path) -> None:
    probe = {"exec": {"command": ["sh", "-c", "echo $$ > pid; exec sleep 60"]}, "timeoutSeconds": 0.5}
    assert await probes.ask(probe, box("main"), env=ENV, cwd=tmp_path) == "no answer within 0.5 s"
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_the_output_of_a_chatty_command_is_not_kept(tmp_path: Path) -> None:
    chatty = ["sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' x; echo why; exit 3"]
    tracemalloc.start()
    try:
        failure = await probes.execute(chatty, env=ENV, cwd=tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert failure == f"exit code 3: {'x' * 508}why"
    assert peak < 4_000_000


@pytest.mark.parametrize("kind", probes.KINDS)
def test_an_unsupported_probe_is_named(kind: str) -> None:
    problem = probes.unsupported(box("main", **{kind: {"grpc": {"port": 1}}}))
    assert problem is not None
    assert problem.startswith(f"{kind}: only exec, httpGet, tcpSocket")
    assert probes.unsupported(box("main", **{kind: {"tcpSocket": {"port": 1}}})) is None
