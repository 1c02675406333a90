"""The facts that the checks judge: read from this machine, and asked of the broker and the API server. Read only."""

import fcntl
import os
import platform
import re
import resource
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import penstock
from deploy.cli import api_connection, options, output
from deploy.cli.doctor.verdicts import BrokerFacts, ClusterFacts, Facts
from deploy.local import home as homes
from deploy.local.home import Home
from deploy.local.supervisor import guard
from penstock import _healthy
from workers.errors import ClusterError, PenstockError, UserError

if TYPE_CHECKING:
    from workers.client.rest import Cluster
    from workers.settings import Settings

#: Seconds that the broker may take for an answer.
TIMEOUT = 15.0
#: The settings of the broker that the checks judge.
CONFIG = ("maxmemory", "maxmemory-policy", "appendonly", "notify-keyspace-events")
#: Ports from --metrics-port on: a worker, a scaler and the informers.
METRICS_PORTS = 3
_PROC = Path("/proc/sys")
#: Limits that the kernel shows in files.
_LIMITS = {
    "user namespaces": _PROC / "user/max_user_namespaces",
    "inotify instances": _PROC / "fs/inotify/max_user_instances",
    "inotify watches": _PROC / "fs/inotify/max_user_watches",
}


async def gather(flags: Mapping[str, Any]) -> Facts:
    """Returns the facts. flags: settings of the command line."""
    from workers.settings import Settings

    try:
        settings, problem = options.load(flags), ""
    except UserError as error:
        home_path = (
            flags.get("home") or os.environ.get(options.variable("home")) or Settings.model_fields["home"].default
        )
        settings, problem = Settings.model_construct(home=Path(home_path)), output.reason(error)
    # Where a setting cannot be read, broker and cluster are unknown: the defaults may name others.
    unreadable = bool(problem)
    home = Home(settings.home.resolve())
    running = _holder(home.lock)
    trouble = _home_problem(home)
    ports = [*range(settings.metrics_port, settings.metrics_port + METRICS_PORTS)] if settings.metrics_port else []
    gateway = _gateway_port(settings)
    if gateway is None:
        problem = problem or f"--gateway: {settings.gateway} is no HOST:PORT"
    elif gateway:
        ports.append(gateway)
    return Facts(
        penstock=penstock.__version__,
        installed=_installed(),
        python=(sys.version_info.major, sys.version_info.minor),
        system=platform.system(),
        unmet=tuple(_unmet()),
        home=str(home.root),
        home_problem=trouble,
        running=running,
        process=settings.health if _healthy.serves(settings.health) else "",
        ports={port: is_free(port) for port in ports},
        kept={} if trouble else {port: is_free(port) for port in _kept_ports(home)},
        settings_problem=problem,
        misspelt=tuple(options.misspelt(os.environ)),
        limits=_limits(),
        broker=None if unreadable else await _broker(settings, home, running),
        cluster=None if unreadable else await _cluster(settings, home, running),
        cluster_scoped=settings.cluster_scoped,
    )


# --- this machine


def _installed() -> str | None:
    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:
        return None


def _unmet() -> Iterable[str]:
    """Yields the requirements of the installed package that are not met, extras aside."""
    from packaging.requirements import Requirement

    try:
        listed = metadata.requires("penstock") or ()
    except metadata.PackageNotFoundError:
        return
    for text in listed:
        required = Requirement(text)
        if required.marker and not required.marker.evaluate({"extra": ""}):
            continue
        try:
            there = metadata.version(required.name)
        except metadata.PackageNotFoundError:
            yield f"{required.name} is missing"
        else:
            if not required.specifier.contains(there, prereleases=True):
                yield f"{required.name} is {there}, not {required.specifier}"


def _gateway_port(settings: "Settings") -> int | None:
    """Returns the port that a setting names for the gateway, 0 for a free one or without one; None if it is none."""
    if "gateway" not in settings.model_fields_set or settings.gateway == "off":
        return 0
    port = settings.gateway.rpartition(":")[2]
    return int(port) if port.isascii() and port.isdecimal() and int(port) < 2**16 else None


def _home_problem(home: Home) -> str:
    if home.root.exists() and not home.root.is_dir():
        return f"{home.root}: is no folder"
    try:
        homes.check(home)
    except UserError as error:
        return output.reason(error)
    except OSError as error:
        return f"{home.root}: {error.strerror}"
    return ""


def _holder(lock: Path) -> str | None:
    """Returns the process id of the run that holds the lock, None without one."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return guard.holder(lock)
    finally:
        os.close(descriptor)
    return None


def _kept_ports(home: Home) -> list[int]:
    """Returns the ports that the embedded broker and API server had last and will take again."""
    from deploy.local import private_files

    urls = re.findall(r"https://[^\s\"]+", private_files.read(home.kubeconfig) or "")
    if broker := home.broker_url():
        urls.append(broker)
    found = []
    for url in urls:
        with suppress(ValueError):
            parts = urlsplit(url)
            if parts.port and parts.hostname == "127.0.0.1":
                found.append(parts.port)
    return found


def is_free(port: int) -> bool:
    """Returns True if a server could listen on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _limits() -> dict[str, int | None]:
    limits = {name: _number(path) for name, path in _LIMITS.items()}
    # Debian's switch and Ubuntu's.
    clone, restricted = (
        _number(_PROC / "kernel" / name)
        for name in ("unprivileged_userns_clone", "apparmor_restrict_unprivileged_userns")
    )
    if os.geteuid() != 0 and (clone == 0 or restricted):
        limits["user namespaces"] = 0
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {
        **limits,
        "/proc": int(Path("/proc/self/stat").exists()),
        "cgroups v2": int(Path("/sys/fs/cgroup/cgroup.controllers").exists()),
        "open files": sys.maxsize if soft == resource.RLIM_INFINITY else soft,
    }


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def skew(told: float, before: float, after: float, *, unit: float = 0.0) -> float:
    """Returns the seconds that another clock is ahead, 0 as far as the time of the answer explains the difference.

    told: that clock's time, rounded down to `unit`. before, after: this machine's time around the question.
    """
    if told + unit < before:
        return told + unit - before
    return max(0.0, told - after)


# --- the broker


async def _broker(settings: "Settings", home: Home, running: str | None) -> BrokerFacts | None:
    named = "broker" in settings.model_fields_set
    try:
        url = settings.broker_url if named else home.broker_url()
    except UserError:
        return None  # that is a problem of the home
    if url is None:
        return None
    address = options.mask(url)
    if not named and running is None:
        return BrokerFacts(address, named, problem="stopped")
    return await _ask_broker(url, address, named=named, prefix=settings.prefix)


async def _ask_broker(url: str, address: str, *, named: bool, prefix: str = "penstock") -> BrokerFacts:
    from redis.exceptions import RedisError, ResponseError

    from scheduler.broker import address as addresses
    from scheduler.broker import clients, permissions
    from scheduler.keys import Keys

    async def shown(question: Any) -> dict[str, Any]:
        try:
            return dict(await question)
        except ResponseError:
            return {}  # an access list may forbid it

    try:
        at = addresses.parse(url, prefix=prefix)
        async with clients.client(
            at, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT, decode_responses=True
        ) as client:
            before = time.time()
            seconds, micros = await client.time()
            ahead = skew(int(seconds) + int(micros) / 1e6, before, time.time())
            info = await shown(client.info("server"))
            config = await shown(client.config_get(*CONFIG)) or _of_info(await shown(client.info("memory")))
            versions: set[str] = set()
            with suppress(ResponseError):
                names = [each["name"] for each in await client.client_list()]
                versions = {name.partition("/")[2] for name in names if name.startswith("penstock/")}
            may_not = await permissions.lacking(client, Keys(prefix), at.database)
            return BrokerFacts(
                address,
                named,
                version=str(info.get("redis_version", "")),
                config=config,
                skew=ahead,
                versions=frozenset(versions),
                user=at.user,
                lacking=may_not.needed,
                degraded={name: permissions.OPTIONAL[name][1] for name in may_not.optional},
            )
    except (RedisError, OSError, ValueError) as error:
        return BrokerFacts(address, named, problem=f"does not answer: {output.reason(error)}")


def _of_info(memory: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings that INFO shows too, for servers that show no configuration."""
    found = {"maxmemory": memory.get("maxmemory"), "maxmemory-policy": memory.get("maxmemory_policy")}
    return {name: str(value) for name, value in found.items() if value is not None}


# --- the cluster


async def _cluster(settings: "Settings", home: Home, running: str | None) -> ClusterFacts | None:
    from deploy.cli.doctor.account_rights import examined
    from deploy.local import crd_installation
    from workers.api.kinds import CRON_JOB
    from workers.client.rest import Cluster

    named = settings.kubeconfig is not None or settings.context is not None
    kubeconfig = None if settings.kubeconfig is None else str(settings.kubeconfig)
    try:
        to = api_connection.target(kubeconfig=kubeconfig, context=settings.context, home=str(home.root))
    except PenstockError as error:
        return ClusterFacts("the kubeconfig", named, ours=False, problem=output.reason(error))
    ours = to.kubeconfig is not None and not named
    source = str(to.kubeconfig or to.source)
    if to.kubeconfig is None and not _has_kubeconfig():
        return None
    if ours and running is None:
        return ClusterFacts(source, named, ours, problem="stopped")
    try:
        cluster = await Cluster.connect(kubeconfig=to.kubeconfig, context=to.context, timeout=TIMEOUT, in_flight=4)
        async with cluster:
            version = (await cluster.request("GET", "/version")).get("gitVersion", "")
            rights, missing = await examined(cluster, settings), await _missing(cluster, settings, ours=ours)
            return ClusterFacts(
                source,
                named,
                ours,
                version=version,
                skew=await _skew(cluster),
                role=rights.role,
                denied=rights.lacking,
                missing=missing,
                lacks_cron_jobs=settings.cronjobs and not await crd_installation.serves(cluster, CRON_JOB),
            )
    except PenstockError as error:
        return ClusterFacts(source, named, ours, problem=f"does not answer: {output.reason(error)}")


def _has_kubeconfig() -> bool:
    listed = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    files = [Path(part) for part in listed.split(os.pathsep) if part]
    return any(path.is_file() for path in (*files, api_connection.SERVICE_ACCOUNT / "token"))


async def _missing(cluster: "Cluster", settings: "Settings", *, ours: bool) -> tuple[str, ...]:
    from deploy.local import crd_installation
    from workers.api import crds

    return tuple(await crd_installation.missing(cluster, crds.all_crds(volcano=ours or settings.volcano)))


async def _skew(cluster: "Cluster") -> float | None:
    """Returns the seconds that the API server's clock is ahead, by the object that a dry run would create."""
    from workers.api import times

    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "penstock-doctor-"}}
    before = time.time()
    try:
        made = await cluster.request(
            "POST", "/api/v1/namespaces/default/configmaps", query={"dryRun": "All"}, body=body
        )
    except ClusterError:
        return None
    return skew(times.parse(made["metadata"]["creationTimestamp"]).timestamp(), before, time.time(), unit=1.0)
