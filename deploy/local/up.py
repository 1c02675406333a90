"""Everything on one machine: which parts run, in which order, and the runner that keeps them together.

A broker or a cluster that the settings name is used as it is; what they do not name is embedded, with its data,
logs and credentials in one folder, the home. One run owns a home at a time.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from redis.exceptions import RedisError

from deploy.local import broker, private_files
from deploy.local.home import Home, owned
from deploy.local.kubelet.containers.attempt import PID_FILES
from deploy.local.supervisor import guard
from deploy.local.supervisor.fork_server import ForkServer
from deploy.local.supervisor.leftovers import Notes
from deploy.local.supervisor.supervisor import Component, Supervisor
from deploy.processes import command_lines
from deploy.processes import readiness as ready
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, Object, Ref
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, Forbidden, NotFound, Unavailable, UserError
from workers.settings import Settings

#: Seconds that the cluster may take to serve a kind after its definition was stored.
ESTABLISHING = 15.0
#: The first Redis that has what our scripts and kombu use. Valkey says it is a 7.2.
OLDEST = (6, 2)
#: A Python process with Celery needs seconds to start, more when several start on few cores.
STARTING = 90.0


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of `penstock up`. workers, scalers: numbers of processes.

    install_crds: store our CRDs in a cluster that is not embedded. single: one process runs informers, clock, scaler
    and worker.
    """

    settings: Settings
    workers: int = 1
    scalers: int = 1
    install_crds: bool = False
    single: bool = False

    @property
    def home(self) -> Home:
        return Home(self.settings.home.resolve())

    @property
    def own_broker(self) -> bool:
        """True if the broker is embedded: none was named."""
        return "broker" not in self.settings.model_fields_set

    @property
    def own_cluster(self) -> bool:
        """True if the cluster is embedded: neither a kubeconfig nor a context was named."""
        return self.settings.kubeconfig is None and self.settings.context is None

    @property
    def gateway(self) -> bool:
        """True if a gateway runs."""
        return self.settings.gateway != "off"

    @property
    def volcano(self) -> bool:
        """True if Volcano's kinds are run: as the settings say, on an embedded cluster unless they say no."""
        return self.settings.volcano or (self.own_cluster and "volcano" not in self.settings.model_fields_set)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts in the order of their start: what the processes stand on, then the processes side by side."""

    foundations: tuple[Component, ...]
    processes: tuple[Component, ...]


def plan(options: UpOptions, store: str, own: broker.EmbeddedBroker | None = None, gateway: str = "") -> Parts:
    """The parts for these options. Pure.

    store: URL of the broker, embedded or not. own: the embedded broker, if there is one. gateway: HOST:PORT of the
    gateway, '' for none.
    """
    foundations = []
    if own:
        foundations.append(Component("broker", own.argv, ready=own.ready, timeout=STARTING))
    if options.own_cluster:
        foundations += [_apiserver(options, store), _kubelet(options)]
    return Parts(tuple(foundations), tuple(_processes(options, store, gateway)))


def _apiserver(options: UpOptions, store: str) -> Component:
    home = options.home
    arguments = {
        "--prefix": options.settings.prefix,
        "--token-file": home.token,
        "--kubeconfig": home.kubeconfig,
        "--logs": home.pod_logs,
        "--ready-file": home.ready("apiserver"),
    }
    if options.volcano:
        arguments |= {
            "--gangs": ",".join(options.settings.scheduler_names),
            "--pod-scheduler": options.settings.pod_scheduler,
        }
    return Component(
        "apiserver",
        (*_part("apiserver", arguments), *_images(options)),
        # Not in the command line, which every user of the machine can read: the URL carries a password.
        {"PENSTOCK_BROKER": store},
        ready=home.ready("apiserver"),
        timeout=STARTING,
    )


def _kubelet(options: UpOptions) -> Component:
    home = options.home
    arguments = {
        "--kubeconfig": home.kubeconfig,
        "--logs": home.pod_logs,
        "--root": home.pods,
        "--max-pods": pods(options.settings.pods, options.settings.nodes),
        "--isolation": options.settings.isolation,
        "--ready-file": home.ready("kubelet"),
    }
    wished = options.settings
    arguments |= {
        "--nodes": wished.nodes,
        "--cpus": wished.cpus,
        "--memory": wished.memory,
        "--gpus": wished.gpus,
        "--node-labels": ",".join(wished.node_labels),
    }
    argv = (*_part("kubelet", arguments), *_images(options))
    return Component("kubelet", argv, ready=home.ready("kubelet"), timeout=STARTING)


def _images(options: UpOptions) -> tuple[str, ...]:
    return tuple(f"--image={entry}" for entry in options.settings.images)


def _part(name: str, arguments: Mapping[str, object]) -> tuple[str, ...]:
    return command_lines.own(name, *(str(part) for pair in arguments.items() for part in pair))


def pods(wanted: int, nodes: int = 1) -> int:
    """Returns the number of pods that run at once: the setting, or two per core and at least four per node."""
    return wanted or max(4 * nodes, 2 * (os.cpu_count() or 1))


def _processes(options: UpOptions, store: str, gateway: str) -> Iterator[Component]:
    """Our own processes. Each gets ports of its own for metrics and health, counted up from the settings."""
    environment = _environment(options, store)
    started = [("standalone", command_lines.standalone())] if options.single else _pool(options)
    if gateway:
        environment = {**environment, "PENSTOCK_GATEWAY": gateway}
        started = [*started, ("gateway", command_lines.gateway())]
    # The watch, the gateway and the beat have the last ones: the first worker keeps the port that was asked for.
    last = ("watch", "gateway", "beat")
    names = [name for name, _ in started if name not in last] + list(last)
    metrics, health = options.settings.metrics_port, options.settings.health
    for name, argv in started:
        place = names.index(name)
        ports = {
            "PENSTOCK_METRICS_PORT": str(metrics + place if metrics and name != "beat" else 0),
            "PENSTOCK_HEALTH": _counted(health, place),
        }
        yield _process(options, name, argv, {**environment, **ports})


def _pool(options: UpOptions) -> list[tuple[str, tuple[str, ...]]]:
    """The names and command lines of the processes that share the work."""
    return [
        ("watch", command_lines.watch()),
        ("beat", command_lines.beat()),
        *((f"worker-{number}", command_lines.worker(number)) for number in range(1, options.workers + 1)),
        *((f"scaler-{number}", command_lines.scaler(number)) for number in range(1, options.scalers + 1)),
    ]


def _counted(address: str, places: int) -> str:
    """Returns an address whose port is so many places higher; '' and what is no address as they are."""
    host, colon, port = address.rpartition(":")
    return f"{host}{colon}{int(port) + places}" if port.isdecimal() else address


def _process(options: UpOptions, name: str, argv: tuple[str, ...], environment: Mapping[str, str]) -> Component:
    ready_file = options.home.ready(name)
    return Component(name, argv, {**environment, ready.VARIABLE: str(ready_file)}, ready=ready_file, timeout=STARTING)


def _environment(options: UpOptions, store: str) -> dict[str, str]:
    """The settings of every process of ours."""
    environment = {**command_lines.environment(options.settings), "PENSTOCK_BROKER": store}
    environment["PENSTOCK_HOME"] = str(options.home.root)
    # /metrics asks for no credentials, and this machine may be a laptop in a network of strangers.
    environment.setdefault("PENSTOCK_METRICS_ADDRESS", "127.0.0.1")
    if options.own_cluster:
        environment["PENSTOCK_KUBECONFIG"] = str(options.home.kubeconfig)
        # An embedded cluster has no other controllers of Jobs, CronJobs and workloads.
        environment.setdefault("PENSTOCK_JOBS", "all")
        environment.setdefault("PENSTOCK_CRONJOBS", "true")
        environment.setdefault("PENSTOCK_WORKLOADS", "true")
        environment.setdefault("PENSTOCK_VOLCANO", "true")
        # Their definition is among those that an embedded cluster begins with.
        environment.setdefault("PENSTOCK_POLICIES", "true")
        # No names resolve there: its pods are processes that share this machine's network.
        environment.setdefault("PENSTOCK_POD_ADDRESSES", "true")
    return environment


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
            await while_away(cluster, lambda: define(options, kubeconfig), (Unavailable,), patience)
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

        report(", ".join(part.name for part in parts.foundations) or "nothing embedded")
        try:
            await supervisor.run(parts.foundations, started=begin)
        finally:
            if options.own_cluster:
                # A kubelet that was killed for its slowness, or by a second signal, leaves its pods to its guard, which
                # waits for a successor before it ends them.
                guard.end(guard.noted(str(home.pods / "pods"), PID_FILES), 0.0)


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
    """Returns False if another process listens on HOST:PORT; whoever listens tells what else is wrong with it."""
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


# --- our kinds in the cluster


async def define(options: UpOptions, kubeconfig: Path | None) -> None:
    """Stores our CRDs in the cluster, or raises UserError naming those that it lacks."""
    from workers.api import crds

    settings = options.settings
    definitions = crds.all_crds(volcano=options.own_cluster or settings.volcano)
    cluster = await Cluster.connect(
        kubeconfig=kubeconfig, context=settings.context, timeout=settings.timeout, in_flight=settings.in_flight
    )
    try:
        if options.own_cluster or options.install_crds:
            await install(cluster, definitions)
        elif lacking := await missing(cluster, definitions):
            raise UserError(
                f"the cluster lacks these CRDs: {', '.join(lacking)}; install them with --install-crds, "
                "or with `penstock crds | kubectl apply -f -`"
            )
    except Forbidden as error:
        raise UserError(f"the cluster ({kubeconfig or 'KUBECONFIG'}) refuses this user: {error}") from error
    finally:
        await cluster.close()


async def install(cluster: Cluster, definitions: Sequence[Object]) -> None:
    """Store the definitions and wait until their kinds are served."""
    for definition in definitions:
        try:
            await cluster.create(CUSTOM_RESOURCE_DEFINITION, definition)
        except AlreadyExists:
            name = definition["metadata"]["name"]
            await cluster.patch(Ref(CUSTOM_RESOURCE_DEFINITION, "", name), {"spec": definition["spec"]})
    deadline = asyncio.get_running_loop().time() + ESTABLISHING
    while lacking := await missing(cluster, definitions):
        if asyncio.get_running_loop().time() > deadline:
            raise UserError(f"the cluster does not serve {', '.join(lacking)} {ESTABLISHING:g} s after their CRDs")
        await asyncio.sleep(0.1)


async def missing(cluster: Cluster, definitions: Sequence[Object]) -> list[str]:
    """The names of those definitions whose kinds the cluster does not serve. Asks discovery, which needs no rights."""
    lacking = []
    for definition in definitions:
        spec = definition["spec"]
        paths = [f"/apis/{spec['group']}/{version['name']}" for version in spec["versions"] if version["served"]]
        answers = await asyncio.gather(*(_resources(cluster, path) for path in paths))
        if not all(spec["names"]["plural"] in names for names in answers):
            lacking.append(definition["metadata"]["name"])
    return lacking


async def _resources(cluster: Cluster, path: str) -> set[str]:
    try:
        answer = await cluster.request("GET", path)
    except NotFound:
        return set()
    return {entry["name"] for entry in answer.get("resources") or ()}
