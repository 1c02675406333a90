"""What a user would run instead, on the same API server in the same run.

KEDA names the binary of KEDA's operator, KUBE_CONTROLLER_MANAGER that of kube-controller-manager: a row without its
binary is left out. Each runs as it comes, and with its limits lifted.
"""

import os
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local import crd_installation
from tests.benchmarks.cpu import CpuUse
from tests.benchmarks.stack import Server
from tests.support import kube
from tests.support.certificates import certificates
from tests.support.conditions import eventually
from tests.support.ports import free_port, free_ports
from workers.api import crds
from workers.api.kinds import NAMESPACE, Object

#: Requests a second that no limit of a client holds back.
UNLIMITED = 10_000
#: The namespace that KEDA believes to run in.
KEDA_NAMESPACE = "keda"
#: The kinds that KEDA's operator follows beside ours, without a schema.
_EVENTING = (("CloudEventSource", "Namespaced"), ("ClusterCloudEventSource", "Cluster"))


@dataclass(frozen=True)
class Peer:
    """A program beside the API server. name: as the rows say it. limited: with the limits it comes with."""

    name: str
    binary: str
    limited: bool


def keda() -> Sequence[Peer]:
    """KEDA's operator, both ways; nothing without a binary."""
    return _both("KEDA", os.environ.get("KEDA"))


def controller_manager() -> Sequence[Peer]:
    """kube-controller-manager, both ways; nothing without a binary."""
    return _both("kube-controller-manager", os.environ.get("KUBE_CONTROLLER_MANAGER"))


def _both(name: str, binary: str | None) -> Sequence[Peer]:
    if not binary:
        return ()
    return (Peer(f"{name}, by default", binary, True), Peer(f"{name}, limits lifted", binary, False))


@asynccontextmanager
async def running_keda(peer: Peer, server: Server) -> AsyncIterator[CpuUse]:
    """Runs KEDA's operator until the block ends; its CPU time."""
    await crd_installation.install(server.cluster, [*crds.all_crds(volcano=False), *map(_without_schema, _EVENTING)])
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KEDA_NAMESPACE}}
    await server.cluster.create(NAMESPACE, namespace)
    metrics, probes, service = free_ports(3)
    arguments = [
        *("--kubeconfig", str(server.kubeconfig), "--cert-dir", str(_certificates(server.folder))),
        *("--metrics-bind-address", f"127.0.0.1:{metrics}", "--health-probe-bind-address", f"127.0.0.1:{probes}"),
        *("--metrics-service-bind-address", f"127.0.0.1:{service}", "--zap-log-level", "error"),
    ]
    if not peer.limited:
        arguments += ["--kube-api-qps", str(UNLIMITED), "--kube-api-burst", str(UNLIMITED)]
    names = ("POD_NAMESPACE", "KEDA_CLUSTER_OBJECT_NAMESPACE")
    environment = {**dict.fromkeys(names, KEDA_NAMESPACE), "WATCH_NAMESPACE": ""}
    async with _process([peer.binary, *arguments], server.folder, environment, ready=probes) as cpu:
        yield cpu


@asynccontextmanager
async def running_controllers(peer: Peer, controllers: str, server: Server) -> AsyncIterator[CpuUse]:
    """Runs some controllers of kube-controller-manager until the block ends; their CPU time.

    controllers: their names, with commas. server: a real one.
    """
    at = kube.version(Path(peer.binary).parent)
    port = free_port()
    arguments = [
        *kube.controllers_arguments(at, server.folder, server.kubeconfig, port),
        f"--controllers={controllers}",
    ]
    if at < (1, 21):
        # The controller that later versions have; the one before looks at all CronJobs every ten seconds.
        arguments.append("--feature-gates=CronJobControllerV2=true")
    if not peer.limited:
        arguments += [f"--kube-api-qps={UNLIMITED}", f"--kube-api-burst={UNLIMITED}"]
        if at >= (1, 27):
            # Before, five of each work, whatever one asks for.
            arguments += ["--concurrent-job-syncs=16", "--concurrent-cron-job-syncs=16"]
    async with _process([peer.binary, *arguments], server.folder, {}, ready=port) as cpu:
        yield cpu


@asynccontextmanager
async def _process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], ready: int
) -> AsyncIterator[CpuUse]:
    """Runs a program until the block ends. ready: a port on which it listens once it works."""
    log = folder / "peer.log"
    with kube.process(log, command, environment) as running:
        await eventually(lambda: _listens(ready, running, log))
        yield CpuUse({Path(command[0]).name: running.pid})


def _listens(port: int, process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"the peer ended with {process.returncode}: {log.read_text()[-2000:]}")
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _certificates(folder: Path) -> Path:
    """Returns the folder of certificates without which the operator does not start."""
    made = certificates()
    found = folder / "certificates-of-keda"
    found.mkdir()
    for name, text in (("ca.crt", made.authority), ("tls.crt", made.server), ("tls.key", made.server_key)):
        (found / name).write_text(text)
    return found


def _without_schema(each: tuple[str, str]) -> Object:
    kind, scope = each
    plural, group = f"{kind.lower()}s", "eventing.keda.sh"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        **{"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [version]},
    }
