"""The parts of an installation on one machine: which run, in which order and with which settings."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deploy.local import broker
from deploy.local.home import Home
from deploy.local.supervisor.supervisor import Component
from deploy.processes import command_lines
from deploy.processes import readiness as ready
from workers.settings import Settings

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
    names = sorted((name for name, _ in started), key=lambda name: (last.index(name) + 1) if name in last else 0)
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
