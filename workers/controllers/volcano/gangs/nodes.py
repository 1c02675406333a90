"""What the nodes have, and what of it is taken."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workers.api.kinds import Object
from workers.controllers.volcano.gangs import vectors
from workers.controllers.volcano.gangs.members import Member
from workers.controllers.volcano.gangs.vectors import Vector

_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_KEEP_OUT = ("NoSchedule", "NoExecute")
#: Resources that every machine has: where no node says how much, nobody measures it.
_COMMON = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True)
class Nodes:
    """total: what all nodes that take pods have together, None where no node is known. used: what is taken of it.

    free: by node, what is left of it.
    """

    total: Vector | None
    used: Vector
    free: Mapping[str, Vector]

    def measures(self, name: str) -> bool:
        """Whether anything is known of a resource: one that no node has is not there, unless every machine has it."""
        return self.total is not None and (name in self.total or name not in _COMMON)


def observe(bodies: Iterable[Object], members: Iterable[Member]) -> Nodes:
    """The nodes with the pods of the whole cluster."""
    known = list(bodies)
    if not known:
        return Nodes(None, {}, {})
    allocatable = {node["metadata"]["name"]: _allocatable(node) for node in known if _takes_pods(node)}
    used: dict[str, dict[str, int]] = {name: {} for name in allocatable}
    for each in members:
        if each.holds and each.node in used:
            on = used[each.node]
            for name, value in each.requests.items():
                on[name] = on.get(name, 0) + value
    return Nodes(
        total=vectors.total(allocatable.values()),
        used=vectors.total(used.values()),
        free={name: vectors.minus(allocatable[name], used[name]) for name in allocatable},
    )


def _allocatable(node: Object) -> Vector:
    return vectors.readable((node.get("status") or {}).get("allocatable"))


def _takes_pods(node: Object) -> bool:
    """Whether ordinary pods may come to the node now. Taints that some pods tolerate are not looked at."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable") or any(_keeps_out(taint) for taint in spec.get("taints") or ()):
        return False
    conditions = (node.get("status") or {}).get("conditions") or ()
    return not any(each.get("type") == "Ready" and each.get("status") != "True" for each in conditions)


def _keeps_out(taint: Object) -> bool:
    return taint.get("key") in _CONTROL_PLANE and taint.get("effect") in _KEEP_OUT
