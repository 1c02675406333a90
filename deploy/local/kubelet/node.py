"""The Node object: created at the start, with a heartbeat every few seconds, not ready after the end."""

import asyncio
import contextlib
import logging
import os
import platform
import time

from deploy.local.kubelet.containers.container_states import timestamp
from workers.api import loopback_addresses
from workers.api.kinds import NODE, Object, Ref
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, ClusterError, NotFound

log = logging.getLogger(__name__)

#: Seconds between two heartbeats, as the kubelet's.
HEARTBEAT = 10.0


def labels(name: str) -> dict[str, str]:
    """Returns the labels of the node, for node selectors."""
    machine = platform.machine().lower()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": architecture,
    }


def status(name: str, pods: int, *, ready: bool, since: float, now: float) -> Object:
    """The Node's status. pods: how many may run at once. since: when it became (un)ready."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    capacity = {"cpu": str(os.cpu_count() or 1), "memory": f"{memory // 1024}Ki", "pods": str(pods)}
    pressures = [
        _condition(type_, "False", "KubeletHasSufficientResources", "nothing is measured on this node", since, now)
        for type_ in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    addresses = {"InternalIP": loopback_addresses.SHARED, "Hostname": name}
    verdict = ("True", "KubeletReady", "pods run as local processes") if ready else ("False", "NodeShutdown", "stopped")
    return {
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [{"type": type_, "address": address} for type_, address in addresses.items()],
        "conditions": [*pressures, _condition("Ready", *verdict, since, now)],
        "nodeInfo": _info(),
    }


def _condition(type_: str, value: str, reason: str, message: str, since: float, now: float) -> Object:
    return {
        "type": type_,
        "status": value,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": timestamp(now),
        "lastTransitionTime": timestamp(since),
    }


def _info() -> Object:
    return {
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
        "kernelVersion": platform.release(),
        "osImage": platform.platform(terse=True),
        "containerRuntimeVersion": "process://1",
        "kubeletVersion": "penstock",
        "kubeProxyVersion": "",
        "operatingSystem": platform.system().lower(),
        "architecture": labels("")["kubernetes.io/arch"],
    }


class NodeObject:
    """Keeps the Node object alive. pods: how many may run at once."""

    def __init__(self, cluster: Cluster, name: str, pods: int) -> None:
        self._cluster = cluster
        self._ref = Ref(NODE, "", name)
        self._pods = pods
        self._since = time.time()
        self.labels = labels(name)

    async def live(self) -> None:
        """Registers the node and heartbeats until cancelled; an API server that is away is waited for."""
        while True:
            try:
                await self._beat(ready=True)
            except ClusterError as error:
                log.warning("the node could not be reported", extra={"node": self._ref.name, "error": str(error)})
            await asyncio.sleep(HEARTBEAT)

    async def leave(self) -> None:
        """Says that the node is not ready any more, if the API server can still be reached."""
        self._since = time.time()
        with contextlib.suppress(ClusterError):
            await self._beat(ready=False)

    async def _beat(self, *, ready: bool) -> None:
        now = time.time()
        body = {"status": status(self._ref.name, self._pods, ready=ready, since=self._since, now=now)}
        try:
            await self._cluster.patch(self._ref, body, subresource="status")
        except NotFound:
            with contextlib.suppress(AlreadyExists):
                metadata = {"name": self._ref.name, "labels": self.labels}
                await self._cluster.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}})
            await self._cluster.patch(self._ref, body, subresource="status")
