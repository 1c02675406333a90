"""A broker, an embedded API server, and processes of ours on them that tests start one by one."""

import asyncio
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis.asyncio as redis

from deploy.cli import forked_parts
from deploy.local import crd_installation
from deploy.local.supervisor.fork_server import ForkServer
from deploy.processes import command_lines
from tests.support.conditions import eventually
from tests.support.embedded import Embedded, embedded_apiserver
from tests.support.fork_parent import FORKS, Forked
from tests.support.ports import free_port
from tests.support.valkeys import ValkeyServer
from workers.api import crds
from workers.api.kinds import JOB
from workers.client.rest import Cluster

#: Seconds that a test waits for what processes do.
LONG = 120.0


@dataclass
class Site:
    """A broker and a cluster, and processes of ours on them."""

    folder: Path
    broker: str
    server: Embedded
    cluster: Cluster
    client: redis.Redis
    processes: "list[Process]" = field(default_factory=list)

    @property
    def address(self) -> str:
        """Host and port of the broker."""
        return self.broker.removeprefix("redis://").partition("/")[0]

    async def start(self, argv: Sequence[str], name: str, *, forked: bool = True, **settings: str) -> "Process":
        """Starts a process and waits until it is ready. forked: as a fork, if it is one of ours."""
        health = f"127.0.0.1:{free_port()}"
        ready, log = self.folder / f"{name}.ready", self.folder / f"{name}.log"
        variables = {
            **{"broker": self.broker, "kubeconfig": str(self.server.kubeconfig), "health": health, "cronjobs": "true"},
            **{"lease": "3", "leadership": "3", "stale": "4", "polling": "2", "ready_file": str(ready), **settings},
        }
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
        environment = kept | {f"PENSTOCK_{key.upper()}": value for key, value in variables.items()}
        with log.open("wb") as output:
            popen: Forked | subprocess.Popen[bytes]
            if forked and ForkServer.serves(argv):
                words = argv[len(command_lines.own()) :]
                popen = FORKS.start(forked_parts.COMMAND, words, output, environment=environment)
            else:
                popen = subprocess.Popen(argv, env=environment, stdout=output, stderr=subprocess.STDOUT)
        process = Process(popen, health, log)
        self.processes.append(process)
        await eventually(lambda: ready.exists() or popen.poll() is not None, LONG, told=log.read_text)
        assert popen.poll() is None, log.read_text()
        return process

    async def jobs(self, prefix: str = "") -> list[str]:
        """Returns the names of the Jobs of the default namespace that begin so."""
        found, _ = await self.cluster.list(JOB, "default")
        return [job["metadata"]["name"] for job in found if job["metadata"]["name"].startswith(prefix)]

    async def has_jobs(self, prefix: str, number: int) -> bool:
        """Returns whether there are exactly so many of them."""
        return len(await self.jobs(prefix)) == number


@dataclass
class Process:
    """A process of ours. health: the address of its health checks. log: what it wrote."""

    popen: "Forked | subprocess.Popen[bytes]"
    health: str
    log: Path

    async def failed(self, path: str) -> dict[str, str] | None:
        """The failed checks; None if nothing answers."""

        def ask() -> dict[str, str] | None:
            try:
                with urllib.request.urlopen(f"http://{self.health}{path}", timeout=15) as answer:
                    status, content = answer.status, answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    status, content = error.code, error.read()
            except OSError:
                return None
            found: dict[str, str] = json.loads(content)["failed"]
            assert (status == 200) is not bool(found)
            return found

        return await asyncio.to_thread(ask)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal; returns the exit code."""
        self.popen.send_signal(number)
        return self.popen.wait(60)


@asynccontextmanager
async def running_site(folder: Path) -> AsyncIterator[Site]:
    """A site without processes of ours so far; it ends those that a test starts."""
    with (
        embedded_apiserver(folder / "cluster") as server,
        ValkeyServer(config={"save": "", "notify-keyspace-events": "KEA"}) as broker,
    ):
        url = f"{broker.connection_url}/0"
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(await Cluster.connect(kubeconfig=server.kubeconfig))
            client = await stack.enter_async_context(redis.Redis.from_url(url))
            await crd_installation.install(cluster, crds.all_crds())
            site = Site(folder, url, server, cluster, client)
            try:
                yield site
            finally:
                for each in site.processes:
                    each.popen.kill()
                    each.popen.wait()
