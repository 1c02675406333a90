"""The nodes that one kubelet presents, and the node that each of its pods goes to.

All of them are this machine. Their resources are what gangs, queues and the choice of a node reckon with; a pod that
fits on none goes to the one with the fewest pods, because only the number of pods bounds what runs.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deploy.local.kubelet.node import RUNTIME, NodeObject, machine
from workers.api.kinds import NODE, Object, ref_of
from workers.client.rest import Cluster
from workers.errors import ClusterError

if TYPE_CHECKING:
    from workers.controllers.volcano.podgroup.places import Machine, PodShape

#: Seconds between two heartbeats, as the kubelet's.
HEARTBEAT = 10.0
GPU = "nvidia.com/gpu"
_OF_THE_NODE_CONTROLLER = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The nodes as they are wished for. number: of nodes.

    cpus, memory: quantities that each node offers, empty for what the machine has. gpus: that each offers as
    ``nvidia.com/gpu``. labels: ``KEY=VALUE``; the nodes get the values of ``KEY=VALUE/VALUE`` in turn.
    """

    number: int = 1
    cpus: str = ""
    memory: str = ""
    gpus: int = 0
    labels: tuple[str, ...] = ()

    def names(self, first: str) -> list[str]:
        """Returns the nodes' names: ``local``, ``local-2``, ``local-3``."""
        return [first, *(f"{first}-{index}" for index in range(2, self.number + 1))]

    def capacity(self, index: int, pods: int) -> dict[str, str]:
        """Returns what a node offers. index: from 0. pods: that run at once on all nodes, in equal shares."""
        wished = {"cpu": self.cpus, "memory": self.memory, GPU: str(self.gpus or "")}
        share = pods // self.number + (index < pods % self.number)
        return {**machine(), **{name: text for name, text in wished.items() if text}, "pods": str(share)}

    def labels_of(self, index: int) -> dict[str, str]:
        """Returns the labels that a node was given. index: from 0."""
        pairs = (text.partition("=")[::2] for text in self.labels)
        return {key: (values := value.split("/"))[index % len(values)] for key, value in pairs}


def mismatch(pod: Object, nodes: Iterable[Object]) -> str | None:
    """Returns the reason why none of these nodes may take the pod, room aside; None if one may."""
    from workers.controllers.volcano.podgroup import places

    wanted = places.read(pod["spec"])
    anywhere = replace(wanted, selector=(), terms=None)
    found: Counter[str] = Counter()
    for node in nodes:
        if (node.get("spec") or {}).get("unschedulable"):
            found["cordoned"] += 1
            continue
        one = _machine(node)
        if wanted.allow(one):
            return None
        lacking = [f"{key}={value}" for key, value in wanted.selector if one.labels.get(key) != value]
        if lacking:
            found[f"without the labels of spec.nodeSelector: {', '.join(lacking)}"] += 1
        elif anywhere.allow(one):
            found["without the labels that the required node affinity asks for"] += 1
        else:
            found["with a taint that the pod does not tolerate"] += 1
    reasons = "; ".join(f"{count} {reason}" for reason, count in found.items())
    return f"0/{found.total()} nodes are available: {reasons}"


def choose(pod: "PodShape", machines: Iterable["Machine"], pods: Mapping[str, int]) -> str:
    """Returns the name of the node for a pod: the first that allows it and has room; of nodes without, see the module.

    machines: with what is free there. pods: how many each has.
    """
    allowed = [each for each in machines if pod.places.allow(each)]
    roomy = (each for each in allowed if pod.times(each.free, 1))
    return (next(roomy, None) or min(allowed, key=lambda each: pods.get(each.name, 0))).name


class PresentedNodes:
    """Keeps the Node objects alive, and knows which pods hold room where. pods: how many run at once on all of them."""

    def __init__(self, cluster: Cluster, first: str, pods: int, options: NodeOptions) -> None:
        self._cluster = cluster
        self._objects = {
            name: NodeObject(cluster, name, options.capacity(index, pods), options.labels_of(index))
            for index, name in enumerate(options.names(first))
        }
        self._first = first
        self._ours = re.compile(re.escape(first) + r"(-[1-9][0-9]*)?")
        #: pods that hold room, by uid: their node among `spec`
        self._held: dict[str, Object] = {}
        self._retired = False

    def __contains__(self, name: object) -> bool:
        """True for a node of this kubelet, also one of an earlier run with more of them: its pods are run, too."""
        return isinstance(name, str) and self._ours.fullmatch(name) is not None

    def mismatch(self, pod: Object) -> str | None:
        """Returns the reason why no node may take the pod, room aside; None if one may."""
        spec, nodes = pod["spec"], self._bodies
        picky = spec.get("nodeSelector") or spec.get("affinity")
        if not picky and not any((node.get("spec") or {}).keys() & {"unschedulable", "taints"} for node in nodes):
            return None
        return mismatch(pod, nodes)

    def choose(self, pod: Object) -> str:
        """Returns the node for a pod that `mismatch` has nothing against."""
        if len(self._objects) == 1:
            return self._first
        from workers.controllers.volcano.podgroup import members, nodes

        ready = [node for node in self._bodies if not (node.get("spec") or {}).get("unschedulable")]
        held = [members.member(each) for each in self._held.values()]
        machines = nodes.observe(ready, held).machines
        return choose(members.member(pod).shape, machines, Counter(each.node for each in held))

    def hold(self, pod: Object, node: str) -> None:
        """Keeps the room of a pod on its node until `free`."""
        metadata = {name: pod["metadata"][name] for name in ("name", "uid")}
        self._held[metadata["uid"]] = {"metadata": metadata, "spec": {**pod["spec"], "nodeName": node}}

    def free(self, uid: str) -> None:
        """Gives the room of a pod back; it may hold none."""
        self._held.pop(uid, None)

    async def live(self, changed: Callable[[], None]) -> None:
        """Registers the nodes and heartbeats until cancelled; an API server that is away is waited for.

        changed: called when nodes have other labels or taints than before, or are cordoned or no longer are.
        """
        while True:
            if await self.report():
                changed()
            await asyncio.sleep(HEARTBEAT)

    async def report(self) -> bool:
        """Reports all nodes once; returns True if the API server has other labels, taints or cordons than before."""
        before = self._constraints()
        await asyncio.gather(*(each.report() for each in self._objects.values()))
        self._retired = self._retired or await self._retire()
        return before != self._constraints()

    async def leave(self) -> None:
        """Says that the nodes are not ready any more, if the API server can still be reached."""
        await asyncio.gather(*(each.leave() for each in self._objects.values()))

    async def _retire(self) -> bool:
        """Deletes the nodes of an earlier run that had more of them; returns False to be asked again."""
        try:
            for node in (await self._cluster.list(NODE))[0]:
                name, info = node["metadata"]["name"], (node.get("status") or {}).get("nodeInfo") or {}
                ours = name in self and info.get("containerRuntimeVersion") == RUNTIME
                if ours and name not in self._objects:
                    await self._cluster.delete(ref_of(NODE, node), uid=node["metadata"]["uid"])
        except ClusterError:
            return False
        return True

    @property
    def _bodies(self) -> list[Object]:
        return [_judged_here(each.body) for each in self._objects.values()]

    def _constraints(self) -> list[tuple[object, ...]]:
        return [
            (
                node["metadata"].get("labels"),
                *((node.get("spec") or {}).get(name) for name in ("taints", "unschedulable")),
            )
            for node in self._bodies
        ]


def _judged_here(node: Object) -> Object:
    """Returns the node without the taints by which a cluster's node controller judges a kubelet: this one lives.

    A node has one of them from its creation on, and keeps it where no such controller runs.
    """
    spec = node.get("spec") or {}
    taints = [each for each in spec.get("taints") or () if each.get("key") not in _OF_THE_NODE_CONTROLLER]
    if len(taints) == len(spec.get("taints") or ()):
        return node
    rest = {name: value for name, value in spec.items() if name != "taints"}
    return {**node, "spec": {**rest, "taints": taints} if taints else rest}


def _machine(node: Object) -> "Machine":
    """The node for what a pod demands of it, room aside."""
    from workers.controllers.volcano.podgroup.places import Machine

    labels, taints = node["metadata"].get("labels") or {}, (node.get("spec") or {}).get("taints") or ()
    return Machine(node["metadata"]["name"], {}, {}, labels, tuple(taints))
