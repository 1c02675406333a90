"""What the nodes have, and what of it is taken."""

from collections.abc import Iterable
from dataclasses import dataclass

from workers.api.kinds import Object
from workers.controllers.volcano.podgroup import vectors
from workers.controllers.volcano.podgroup.members import Member
from workers.controllers.volcano.podgroup.places import Machine
from workers.controllers.volcano.podgroup.vectors import Vector

#: Resources that every machine has: where no node says how much, nobody measures it.
COMMON = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True)
class Nodes:
    """total: what all nodes that take pods have together, None where no node is known. used: what is taken of it.

    machines: each of those nodes.
    """

    total: Vector | None
    used: Vector
    machines: tuple[Machine, ...]

    def measures(self, name: str) -> bool:
        """Whether anything is known of a resource: one that no node has is not there, unless every machine has it."""
        return self.total is not None and (name in self.total or name not in COMMON)


def observe(bodies: Iterable[Object], members: Iterable[Member]) -> Nodes:
    """The nodes with the pods of the whole cluster."""
    known = list(bodies)
    if not known:
        return Nodes(None, {}, ())
    taking = {node["metadata"]["name"]: node for node in known if _takes_pods(node)}
    used: dict[str, dict[str, int]] = {name: {} for name in taking}
    for each in members:
        if each.holds and each.node in used:
            on = used[each.node]
            for name, value in each.requests.items():
                on[name] = on.get(name, 0) + value
    machines = tuple(_machine(name, node, used[name]) for name, node in taking.items())
    total = vectors.total(each.whole for each in machines)
    return Nodes(total, vectors.total(used.values()), machines)


def _machine(name: str, node: Object, used: Vector) -> Machine:
    whole = vectors.readable((node.get("status") or {}).get("allocatable"))
    return Machine(
        name=name,
        whole=whole,
        free={resource: value - used.get(resource, 0) for resource, value in whole.items()},
        labels=node["metadata"].get("labels") or {},
        taints=tuple((node.get("spec") or {}).get("taints") or ()),
    )


def _takes_pods(node: Object) -> bool:
    """Whether new pods may come to the node now: it is not cordoned, and is known to be ready."""
    if (node.get("spec") or {}).get("unschedulable"):
        return False
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
