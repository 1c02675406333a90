"""A Node object: created at the start, with a heartbeat every few seconds, not ready after the end."""

import contextlib
import logging
import os
import platform
import time
from collections.abc import Mapping

from deploy.local.kubelet.containers.container_states import timestamp
from workers.api import loopback_addresses
from workers.api.kinds import NODE, Object, Ref
from workers.client.rest import Cluster
from workers.errors import AlreadyExists, ClusterError, NotFound

log = logging.getLogger(__name__)

#: `status.nodeInfo.containerRuntimeVersion` of the nodes that kubelets of this kind present.
RUNTIME = "process://1"


def machine() -> dict[str, str]:
    """Returns what this machine has: ``cpu`` and ``memory`` as quantities."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": str(os.cpu_count() or 1), "memory": f"{memory // 1024}Ki"}


def labels(name: str) -> dict[str, str]:
    """Returns the labels that every node has."""
    hardware = platform.machine().lower()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(hardware, hardware)
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": architecture,
    }


def status(name: str, capacity: Mapping[str, str], *, ready: bool, since: float, now: float) -> Object:
    """The Node's status. since: when it became (un)ready."""
    pressures = [
        _condition(type_, "False", "KubeletHasSufficientResources", "nothing is measured on this node", since, now)
        for type_ in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    addresses = {"InternalIP": loopback_addresses.SHARED, "Hostname": name}
    verdict = ("True", "KubeletReady", "pods run as local processes") if ready else ("False", "NodeShutdown", "stopped")
    return {
        "capacity": dict(capacity),
        "allocatable": dict(capacity),
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
        "containerRuntimeVersion": RUNTIME,
        "kubeletVersion": "penstock",
        "kubeProxyVersion": "",
        "operatingSystem": platform.system().lower(),
        "architecture": labels("")["kubernetes.io/arch"],
    }


class NodeObject:
    """Keeps one Node object alive. capacity: quantities by resource. more: labels beside those of every node."""

    def __init__(self, cluster: Cluster, name: str, capacity: Mapping[str, str], more: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._ref = Ref(NODE, "", name)
        self._since = time.time()
        self._capacity = capacity
        self._labels = {**labels(name), **more}
        self._labelled = False
        #: The newest version: as it is created at first, then as the API server answers.
        self.body: Object = {"metadata": {"name": name, "labels": self._labels}, "status": self._status(ready=True)}

    async def report(self) -> None:
        """Registers the node, or reports that it is ready; logs a failure."""
        try:
            await self._beat(ready=True)
        except ClusterError as error:
            log.warning("the node could not be reported", extra={"node": self._ref.name, "error": str(error)})

    async def leave(self) -> None:
        """Says that the node is not ready any more, if the API server can still be reached."""
        self._since = time.time()
        with contextlib.suppress(ClusterError):
            await self._beat(ready=False)

    def _status(self, *, ready: bool) -> Object:
        return status(self._ref.name, self._capacity, ready=ready, since=self._since, now=time.time())

    async def _beat(self, *, ready: bool) -> None:
        body = {"status": self._status(ready=ready)}
        metadata = {"name": self._ref.name, "labels": self._labels}
        try:
            if not self._labelled:
                # The Node may be that of an earlier run, with other labels; those that users gave it stay.
                await self._cluster.patch(self._ref, {"metadata": {"labels": self._labels}})
            answer = await self._cluster.patch(self._ref, body, subresource="status")
        except NotFound:
            with contextlib.suppress(AlreadyExists):
                await self._cluster.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}})
            answer = await self._cluster.patch(self._ref, body, subresource="status")
        self._labelled = True
        self.body = answer or self.body
