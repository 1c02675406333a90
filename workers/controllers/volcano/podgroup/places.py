"""The shape of a pod: its requests, and the nodes allowed by node selector, required node affinity and tolerations.

Ignored: affinity to other pods, topology spread, ports and volumes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.api.kinds import Object
from workers.controllers.volcano.podgroup.vectors import Vector

#: Effects of taints that keep a pod without a toleration off the node.
_KEEP_OUT = ("NoSchedule", "NoExecute")
#: One requirement: matchExpressions or matchFields, key, operator, values.
Requirement = tuple[str, str, str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Machine:
    """A node. whole: allocatable. free: the part that no pod has taken."""

    name: str
    whole: Mapping[str, int]
    free: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class Places:
    """A pod's demands on its node. terms: one must hold, None for any node. lost: the demands are malformed.

    A requirement with an unknown operator holds on no node.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[tuple[str, str, str, str], ...] = ()
    lost: bool = False

    def allow(self, machine: Machine) -> bool:
        """Returns True if the pod may go to the node, given room."""
        if self.lost or any(machine.labels.get(key) != value for key, value in self.selector):
            return False
        if self.terms is not None and not any(_holds(term, machine) for term in self.terms):
            return False
        return all(self._tolerates(taint) for taint in machine.taints if taint.get("effect") in _KEEP_OUT)

    def _tolerates(self, taint: Object) -> bool:
        return any(_covers(toleration, taint) for toleration in self.tolerations)


ANYWHERE = Places()
_NOWHERE = Places(lost=True)


def read(spec: Object) -> Places:
    """Returns the demands of a pod's spec, or of the part that `part` keeps; malformed demands allow no node."""
    try:
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        found = Places(
            selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
            terms=None if required is None else tuple(map(_term, required.get("nodeSelectorTerms") or ())),
            tolerations=tuple(map(_toleration, spec.get("tolerations") or ())),
        )
        hash(found)
    except (AttributeError, TypeError):
        return _NOWHERE
    return found


def part(spec: Object) -> Object:
    """Returns the part of a pod's spec that restricts its nodes. Malformed parts are left to the API server."""
    found = {name: spec[name] for name in ("nodeSelector", "tolerations") if spec.get(name)}
    affinity = spec.get("affinity")
    node = affinity.get("nodeAffinity") if isinstance(affinity, dict) else None
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") if isinstance(node, dict) else None
    if required is None:
        return found
    return {**found, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _term(term: Object) -> tuple[Requirement, ...]:
    return tuple(
        (what, str(each.get("key")), str(each.get("operator")), tuple(map(str, each.get("values") or ())))
        for what in ("matchExpressions", "matchFields")
        for each in term.get(what) or ()
    )


def _toleration(given: Object) -> tuple[str, str, str, str]:
    return tuple(str(given.get(name) or "") for name in ("key", "operator", "value", "effect"))  # type: ignore[return-value]


def _holds(term: Iterable[Requirement], machine: Machine) -> bool:
    """Returns True if all requirements of a term hold; an empty term never holds."""
    empty = True
    for what, key, operator, values in term:
        empty = False
        known = machine.labels if what == "matchExpressions" else {"metadata.name": machine.name}
        rule = _OPERATORS.get(operator)
        if rule is None or not rule(known.get(key), values):
            return False
    return not empty


def _covers(toleration: tuple[str, str, str, str], taint: Object) -> bool:
    key, operator, value, effect = toleration
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    if operator == "Exists":
        return True
    return bool(key) and operator in ("", "Equal") and value == (taint.get("value") or "")


def _number(text: Any) -> int | None:
    try:
        return int(text)
    except (TypeError, ValueError):
        return None


def _compared(label: str | None, values: tuple[str, ...], is_greater: bool) -> bool:
    left, right = _number(label), _number(values[0] if len(values) == 1 else None)
    if left is None or right is None:
        return False
    return left > right if is_greater else left < right


#: By operator, the test of a label; None is an absent label.
_OPERATORS: Mapping[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda label, values: label is not None and label in values,
    "NotIn": lambda label, values: label not in values,
    "Exists": lambda label, _values: label is not None,
    "DoesNotExist": lambda label, _values: label is None,
    "Gt": lambda label, values: _compared(label, values, True),
    "Lt": lambda label, values: _compared(label, values, False),
}


@dataclass(frozen=True, slots=True)
class PodShape:
    """The requests of one pod, sorted, without zeros; and its nodes."""

    amounts: tuple[tuple[str, int], ...]
    places: Places = ANYWHERE

    def times(self, room: Mapping[str, int], most: int) -> int:
        """Returns the number of such pods that fit into the room, up to `most`."""
        for name, value in self.amounts:
            most = min(most, room.get(name, 0) // value)
        return max(most, 0)


def shape(asked: Vector, places: Places = ANYWHERE) -> PodShape:
    """Returns the shape of a pod with these requests."""
    return PodShape(tuple(sorted((name, value) for name, value in asked.items() if value > 0)), places)


def pieces(whole: Vector, number: int, places: Places = ANYWHERE) -> tuple[PodShape, ...]:
    """Returns equal parts of a sum, rounded up."""
    return (shape({name: -(-value // number) for name, value in whole.items()}, places),) * number
