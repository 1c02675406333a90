"""The runner of everything on one machine: it starts the parts in their order and keeps them together.

A broker or a cluster that the settings name is used as it is; what they do not name is embedded, with its data,
logs and credentials in one folder, the home. One run owns a home at a time.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from redis.exceptions import RedisError

from deploy.local import broker, crd_installation, private_files
from deploy.local.home import Home, owned
from deploy.local.kubelet.containers.attempt import PID_FILES
from deploy.local.parts import STARTING, UpOptions, plan
from deploy.local.supervisor import guard
from deploy.local.supervisor.fork_server import ForkServer
from deploy.local.supervisor.leftovers import Notes
from deploy.local.supervisor.supervisor import Component, Supervisor
from workers.errors import Unavailable, UserError
from workers.settings import Settings

#: The first Redis that has what our scripts and kombu use. Valkey says it is a 7.2.
OLDEST = (6, 2)


@dataclass(frozen=True, slots=True)
class RunningPart:
    """A started Penstock: the process ids of its parts by name, and the addresses of its cluster and broker.

    kubeconfig: None when the settings leave the choice to KUBECONFIG. gateway: URL, '' without one.
    """

    home: Home
    parts: Mapping[str, int]
    kubeconfig: Path | None
    broker: str
    gateway: str


async def run(
    options: UpOptions,
    *,
    started: Callable[[RunningPart], Awaitable[None]] | None = None,
    progress: Callable[[str], None] | None = None,
    forks: ForkServer | None = None,
) -> None:
    """Starts everything, awaits `started`, and serves until SIGINT or SIGTERM; then stops everything.

    progress: gets the name of each step before it begins. forks: starts our own processes. Raises UserError when
    another run owns the home, when a part does not start, when the named broker or cluster does not answer, or when
    the cluster lacks our CRDs.
    """
    report = progress or (lambda _: None)
    with owned(options.home):
        home = options.home
        own = broker.prepare(home.data) if options.own_broker else None
        store = own.url if own else options.settings.broker_url
        private_files.write(home.url, store + "\n")
        if not own:
            await reachable(store)
        address = gateway_address(options) if options.gateway else ""
        parts = plan(options, store, own, address)
        supervisor = Supervisor(home.logs, notes=Notes(home.parts), forks=forks)
        kubeconfig = home.kubeconfig if options.own_cluster else options.settings.kubeconfig

        async def begin() -> None:
            if own:
                await while_away("the broker", lambda: _open(options.settings, store), (RedisError, OSError), STARTING)
            report("CRDs")
            cluster = f"the cluster ({kubeconfig or 'KUBECONFIG'})"
            patience = STARTING if options.own_cluster else 0.0
            await while_away(cluster, lambda: crd_installation.define(options, kubeconfig), (Unavailable,), patience)
            report("processes")
            # What a killed run left behind is ended first: it may hold the addresses.
            await supervisor.start()
            check_addresses(parts.processes)
            await supervisor.start(*parts.processes)
            url = gateway_url(options.settings, address) if address else ""
            if url:
                private_files.write(home.gateway_url, url + "\n")
            if started is not None:
                await started(RunningPart(home, supervisor.pids(), kubeconfig, store, url))

        def end_pods() -> None:
            # A kubelet that was killed for its slowness, or by a second signal, leaves its pods to its guard, which
            # waits for a successor before it ends them.
            if options.own_cluster:
                guard.end(guard.noted(str(home.pods / "pods"), PID_FILES), 0.0)

        report(", ".join(part.name for part in parts.foundations) or "nothing embedded")
        await supervisor.run(parts.foundations, started=begin, stopped=end_pods)


def gateway_address(options: UpOptions) -> str:
    """Returns where the gateway will listen: as set, else on loopback, on the port of the last run if it is free."""
    wished = options.settings.gateway if "gateway" in options.settings.model_fields_set else "127.0.0.1:0"
    host, _, port = wished.rpartition(":")
    if port != "0":
        return wished
    last = (private_files.read(options.home.gateway_url) or "").strip().rpartition(":")[2]
    return f"{host}:{broker.free_or_any(int(last) if last.isdigit() else 0)}"


def gateway_url(settings: Settings, address: str) -> str:
    """Returns the URL of the gateway at an address, for clients on this machine."""
    host, _, port = address.rpartition(":")
    scheme = "https" if settings.tls_cert else "http"
    return f"{scheme}://{'127.0.0.1' if host in ('', '0.0.0.0', '[::]') else host}:{port}"


def check_addresses(processes: Sequence[Component]) -> None:
    """Raises UserError naming the option of an address that a process would listen on and another one has."""
    for part in processes:
        metrics = part.env.get("PENSTOCK_METRICS_PORT", "0")
        listens = {"--health": part.env.get("PENSTOCK_HEALTH", "")}
        if metrics != "0":
            listens["--metrics-port"] = f"{part.env.get('PENSTOCK_METRICS_ADDRESS', '')}:{metrics}"
        if part.name == "gateway":
            listens["--gateway"] = part.env["PENSTOCK_GATEWAY"]
        for option, address in listens.items():
            if address and not _is_free(address):
                raise UserError(
                    f"{option}: {part.name} cannot listen on {address}, where another process does; choose another one"
                )


def _is_free(address: str) -> bool:
    """Returns False if another process listens on HOST:PORT; the server tells what else is wrong with it."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return True
    host = host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, int(port)))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


async def while_away(
    what: str, step: Callable[[], Awaitable[None]], away: tuple[type[Exception], ...], patience: float
) -> None:
    """Repeats a step that needs an embedded part while that part is down: the supervisor starts it again.

    Raises UserError if it is still down after `patience` seconds.
    """
    deadline = asyncio.get_running_loop().time() + patience
    while True:
        try:
            await step()
        except away as error:
            if asyncio.get_running_loop().time() >= deadline:
                raise UserError(f"{what} does not answer: {error}") from error
            await asyncio.sleep(0.2)
        else:
            return


async def _open(settings: Settings, store: str) -> None:
    """Opens the work queues for claims: the processes that held leases ran under this home, and are gone."""
    from pydantic import SecretStr

    from workers.wiring import broker_services

    async with broker_services(settings.model_copy(update={"broker": SecretStr(store)})) as parts:
        for lane in parts.lanes.values():
            await lane.open()


async def reachable(store: str) -> None:
    """Raise UserError unless the named broker answers."""
    from redis.exceptions import ResponseError

    from scheduler.broker import clients

    try:
        async with clients.client(store, socket_timeout=5, socket_connect_timeout=3) as client:
            await client.ping()
            with suppress(ResponseError):  # an ACL may forbid INFO, which proves nothing about the version
                version = str((await client.info("server"))["redis_version"])
                if tuple(map(int, version.split(".")[:2])) < OLDEST:
                    raise UserError(f"--broker: version {version} is too old: Redis 6.2 or newer, or Valkey, is needed")
    except (RedisError, OSError, ValueError) as error:
        raise UserError(f"--broker: does not answer: {error}") from error
