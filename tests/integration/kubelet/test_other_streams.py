"""Logs, exec and port-forward with clients that others wrote: kr8s and lightkube."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.kubelet.conftest import Server
from tests.integration.kubelet.lab import PATIENCE, Lab, phase, until
from tests.support.ports import free_port

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True, scope="package")

#: Prints two lines, and goes on with a third when it is told.
TALKS = "echo one; echo two; while [ ! -e go ]; do sleep 0.05; done; echo three"
#: Answers every connection to a port with what it sent, in upper case.
SHOUTS = """
import socketserver, sys
class Shout(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline().upper())
socketserver.TCPServer(("127.0.0.1", int(sys.argv[1])), Shout).serve_forever()
"""


@pytest.fixture
async def pods(lab: Lab) -> AsyncIterator[Any]:
    """kr8s' pods, asynchronous."""
    kr8s = pytest.importorskip("kr8s.asyncio", reason="kr8s is not installed: NOT tested with it")
    from kr8s.asyncio.objects import Pod

    api = await kr8s.api(kubeconfig=str(lab._kubeconfig), namespace="default")

    async def get(name: str) -> Any:
        return await Pod.get(name, api=api)

    yield get
    if api._session is not None:
        await api._session.aclose()


async def test_kr8s_reads_and_follows_logs(lab: Lab, pods: Any) -> None:
    shown = await lab.running("p", TALKS)
    await until(lambda: len(lab.log(shown)) == 2, "both lines are there")
    pod = await pods("p")
    assert [line async for line in pod.logs()] == ["one", "two"]
    assert [line async for line in pod.logs(tail_lines=1)] == ["two"]
    seen = []
    async with asyncio.timeout(PATIENCE):
        async for line in pod.logs(follow=True):
            seen.append(line)
            if line == "two":
                assert (await pod.exec(["touch", "go"])).returncode == 0
    assert seen == ["one", "two", "three"]


async def test_kr8s_runs_commands(lab: Lab, pods: Any) -> None:
    await lab.running("p", TALKS)
    pod = await pods("p")
    done = await pod.exec(["sh", "-c", "echo out; echo err >&2; exit 3"], check=False)
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 3)
    assert len((await pod.exec(["head", "-c", "1000000", "/dev/zero"])).stdout) == 1_000_000


async def test_kr8s_forwards_a_port(lab: Lab, pods: Any) -> None:
    port = free_port()
    await lab.create("p", {"name": "main", "image": "none", "command": [sys.executable, "-c", SHOUTS, str(port)]})
    await lab.wait("p", lambda pod: phase(pod) == "Running")
    pod = await pods("p")
    async with pod.portforward(port, local_port="auto") as local, asyncio.timeout(PATIENCE):
        said = b""
        # The pod runs before its program listens.
        while not said:
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            writer.write(b"hello\n")
            said = await reader.readline()
            writer.close()
    assert said == b"HELLO\n"


async def test_lightkube_reads_and_follows_logs(server: Server, lab: Lab) -> None:
    lightkube = pytest.importorskip("lightkube", reason="lightkube is not installed: NOT tested with it")
    await lab.running("p", "echo one; echo two")
    await lab.ended("p")
    client = lightkube.Client(config=lightkube.KubeConfig.from_file(str(server.kubeconfig)), namespace="default")

    def lines(**options: Any) -> list[str]:
        return list(client.log("p", newlines=False, **options))

    try:
        assert await asyncio.to_thread(lines, follow=True) == ["one", "two"]
        assert lines(tail_lines=1) == ["two"]
        [line] = lines(tail_lines=1, timestamps=True)
        assert line.endswith("Z two")
    finally:
        client.close()
