"""An installation of all parts as processes, whose connections to every server go through proxies."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from deploy.local import broker, crd_installation, private_files, up
from deploy.local.home import owned
from deploy.local.parts import UpOptions, plan
from deploy.local.supervisor.fork_server import ForkServer
from deploy.local.supervisor.leftovers import Notes
from deploy.local.supervisor.supervisor import Component, Supervisor
from deploy.processes import readiness
from tests.chaos.parts import settings
from tests.soak.proxy import Proxy
from tests.support.fault_proxy import FaultProxy, fault_proxy


@dataclass(frozen=True)
class Installation:
    """A running one. store: the URL of its broker, past the proxies. gateway: its URL.

    to_truth: to the server that triggers measure. answers: what workers hear of the API server. notes: the folder of
    what the processes did under their leases.
    """

    supervisor: Supervisor
    kubeconfig: Path
    store: str
    gateway: str
    to_broker: Proxy
    to_cluster: Proxy
    to_truth: Proxy
    answers: FaultProxy
    notes: Path

    def pids(self) -> dict[str, int]:
        """Returns the process id of each part that runs now."""
        return self.supervisor.pids()


@asynccontextmanager
async def installation(home: Path, forks: ForkServer | None, pods: int, truth: int) -> AsyncIterator[Installation]:
    """Starts broker, API server, kubelet, two workers, scalers and beats, the informers and the gateway.

    pods: that run at once. truth: port of the measured server. Stops everything in the end.
    """
    options = UpOptions(settings(home, pods=pods), workers=2, scalers=2)
    with owned(options.home):
        own = broker.prepare(options.home.data)
        supervisor = Supervisor(options.home.logs, notes=Notes(options.home.parts), forks=forks)
        gateway = up.gateway_address(options)
        proxies: list[Proxy] = []
        try:
            await supervisor.start(*plan(options, own.url, own).foundations[:1])
            await supervisor.start(*plan(options, own.url, own).foundations[1:])
            await crd_installation.define(options, options.home.kubeconfig)
            to_broker = await Proxy(urlsplit(own.url).port or 0).start()
            to_cluster = await Proxy(_port(options.home.kubeconfig)).start()
            to_truth = await Proxy(truth).start()
            proxies += [to_broker, to_cluster, to_truth]
            kubeconfig = home / "kubeconfig.proxied"
            _through(options.home.kubeconfig, to_cluster.port, kubeconfig)
            store = own.url.replace(f":{to_broker.upstream}/", f":{to_broker.port}/")
            parts = plan(options, store, None, gateway).processes
            async with fault_proxy(kubeconfig, home) as answers:
                await supervisor.start(*_parts(options, parts, kubeconfig, answers.kubeconfig))
                url = up.gateway_url(options.settings, gateway)
                found = (to_broker, to_cluster, to_truth)
                yield Installation(supervisor, options.home.kubeconfig, own.url, url, *found, answers, noted(home))
        finally:
            await supervisor.stop()
            for proxy in proxies:
                await proxy.stop()


def noted(home: Path) -> Path:
    """Returns the folder in which processes note what they did under their leases."""
    return home / "leases"


def _parts(options: UpOptions, parts: tuple[Component, ...], kubeconfig: Path, of_workers: Path) -> list[Component]:
    """The processes with their way to the cluster, and a second beat."""

    def variables(part: Component) -> dict[str, str]:
        chosen = of_workers if part.name.startswith("worker") else kubeconfig
        return {**part.env, "PENSTOCK_KUBECONFIG": str(chosen)}

    found = [replace(part, env=variables(part)) for part in parts]
    [beat] = [part for part in found if part.name == "beat"]
    ready = options.home.ready("beat-2")
    return [*found, replace(beat, name="beat-2", env={**beat.env, readiness.VARIABLE: str(ready)}, ready=ready)]


def _cluster(kubeconfig: Path) -> dict[str, str]:
    found: dict[str, str] = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    return found


def _port(kubeconfig: Path) -> int:
    return urlsplit(_cluster(kubeconfig)["server"]).port or 0


def _through(kubeconfig: Path, port: int, proxied: Path) -> None:
    """Writes a kubeconfig whose server is a proxy."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    with contextlib.suppress(FileNotFoundError):
        proxied.unlink()
    private_files.write(proxied, yaml.safe_dump(config))
