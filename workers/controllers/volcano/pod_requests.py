"""The resources that a pod requests, and the amounts that a quota counts for it."""

from collections.abc import Callable
from functools import wraps

from workers.api.kinds import Object
from workers.controllers.volcano import amounts
from workers.controllers.volcano.amounts import Amount, Amounts
from workers.newest_entries import TurnCache

#: Resources that quotas limit by requests and by limits.
_COMMON = ("cpu", "memory", "ephemeral-storage")
_ONE = Amount.parse("1")
#: Different resources of pods whose amounts a process remembers.
_KEPT = 1000


def _remembered(amounts_of: Callable[[Object], Amounts]) -> Callable[[Object], Amounts]:
    """Returns a function that answers the same for pods with equal resources: those of a template are thousands.

    Callers share the answer, and must not change it.
    """
    known: TurnCache[str, Amounts] = TurnCache(_KEPT)

    @wraps(amounts_of)
    def found(spec: Object) -> Amounts:
        asked = repr(
            (
                [each.get("resources") for each in spec.get("containers") or ()],
                [(each.get("restartPolicy"), each.get("resources")) for each in spec.get("initContainers") or ()],
                spec.get("resources"),
                spec.get("overhead"),
            )
        )
        answer = known.used(asked)
        if answer is None:
            answer = amounts_of(spec)
            known.keep(asked, answer)
        return answer

    return found


@_remembered
def requests(spec: Object) -> Amounts:
    """Returns the resources that a scheduler reserves for a pod. A limit without a request counts as a request.

    As in Kubernetes the resources of the pod as a whole (`spec.resources`) take the place of its containers'.
    """
    found = _whole(spec, _requested)
    unasked = {name: limit for name, limit in _of_pod(spec, "limits").items() if name not in found}
    return amounts.total((found | unasked | _of_pod(spec, "requests"), amounts.parse(spec.get("overhead"))))


def limits(spec: Object) -> dict[str, Amount]:
    """Returns the pod's limits, for resources with a limit."""
    found = _whole(spec, lambda container: amounts.parse((container.get("resources") or {}).get("limits")))
    found |= _of_pod(spec, "limits")
    overhead = {name: more for name, more in amounts.parse(spec.get("overhead")).items() if name in found}
    return amounts.total((found, overhead))


def of_containers(spec: Object) -> dict[str, Amount]:
    """Returns what the containers request as they are written, without the resources of the pod as a whole."""
    return _whole(spec, lambda container: amounts.parse((container.get("resources") or {}).get("requests")))


def is_of_pods(name: str) -> bool:
    """True for a resource that a pod can have as a whole: cpu, memory and huge pages."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def has_of_pod(spec: Object) -> bool:
    """True if the pod has resources as a whole."""
    return bool(_of_pod(spec, "requests") or _of_pod(spec, "limits"))


def _of_pod(spec: Object, part: str) -> dict[str, Amount]:
    given = (spec.get("resources") or {}).get(part)
    return {name: amount for name, amount in amounts.parse(given).items() if is_of_pods(name)}


@_remembered
def usage(spec: Object) -> Amounts:
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


def _is_extended(name: str) -> bool:
    """Returns True for an extended resource."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
