"""The resources that a pod requests, and the amounts that a quota counts for it."""

from collections.abc import Callable

from workers.api.kinds import Object
from workers.controllers.volcano import amounts
from workers.controllers.volcano.amounts import Amount, Amounts

#: Resources that quotas limit by requests and by limits.
_COMMON = ("cpu", "memory", "ephemeral-storage")
_ONE = Amount.parse("1")


def requests(spec: Object) -> dict[str, Amount]:
    """Returns the resources that a scheduler reserves for a pod. A limit without a request counts as a request."""
    return _whole(spec, _requested)


def limits(spec: Object) -> dict[str, Amount]:
    """Returns the pod's limits, for resources with a limit."""
    found = _whole({**spec, "overhead": None}, _limited)
    overhead = {name: more for name, more in amounts.parse(spec.get("overhead")).items() if name in found}
    return amounts.total((found, overhead))


def usage(spec: Object) -> dict[str, Amount]:
    """Returns the amounts that a quota counts, under every name that may be limited; extended resources included.

    Raises ValueError for a malformed quantity.
    """
    found = {"pods": _ONE, "count/pods": _ONE}
    for name, amount in requests(spec).items():
        if name in _COMMON or name.startswith("hugepages-") or _is_extended(name):
            found |= {name: amount, f"requests.{name}": amount}
    bounds = limits(spec)
    return found | {f"limits.{name}": bounds[name] for name in _COMMON if name in bounds}


def _whole(spec: Object, of: Callable[[Object], Amounts]) -> dict[str, Amount]:
    """Returns the sum of the containers, or the maximum of the init containers if that is larger, plus overhead.

    A sidecar (an init container that restarts) counts with both.
    """
    beside: dict[str, Amount] = {}
    before: list[Amounts] = []
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            beside = amounts.total((beside, of(container)))
            before.append(beside)
        else:
            before.append(amounts.total((beside, of(container))))
    running = amounts.total((beside, *(of(container) for container in spec.get("containers") or ())))
    return amounts.total((amounts.largest((running, *before)), amounts.parse(spec.get("overhead"))))


def _requested(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    return amounts.parse({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _limited(container: Object) -> Amounts:
    return amounts.parse((container.get("resources") or {}).get("limits"))


def _is_extended(name: str) -> bool:
    """Returns True for an extended resource."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
