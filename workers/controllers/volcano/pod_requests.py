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
    whole, bounds = _of_the_pod(spec, "requests"), _of_the_pod(spec, "limits")
    containers = _of_containers(spec, _requested)
    # As for a container, a limit of the pod is its request where nothing else is.
    return amounts.total(({**bounds, **containers, **whole}, amounts.parse(spec.get("overhead"))))


def limits(spec: Object) -> dict[str, Amount]:
    """Returns the pod's limits, for resources with a limit."""
    found = {**_of_containers(spec, _limited), **_of_the_pod(spec, "limits")}
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


def _of_the_pod(spec: Object, kind: str) -> Amounts:
    """Returns the amounts of the pod as a whole (`spec.resources`), which replace those of its containers."""
    given = amounts.parse((spec.get("resources") or {}).get(kind))
    return {name: each for name, each in given.items() if name in ("cpu", "memory") or name.startswith("hugepages-")}


def _of_containers(spec: Object, of: Callable[[Object], Amounts]) -> dict[str, Amount]:
    """Returns the sum of the containers, or the maximum of the init containers if that is larger.

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
    return amounts.largest((running, *before))


def _requested(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    return amounts.parse({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _limited(container: Object) -> Amounts:
    return amounts.parse((container.get("resources") or {}).get("limits"))


def _is_extended(name: str) -> bool:
    """Returns True for an extended resource."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
