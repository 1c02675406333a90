"""Which pods of a ReplicaSet go first when there are too many."""

from workers.api.kinds import Object
from workers.controllers.batch.job import pods

#: How dear a pod is among those that are as ready as it: the cheaper ones go first.
COST = "controller.kubernetes.io/pod-deletion-cost"


def rank(pod: Object) -> tuple[object, ...]:
    """The lowest goes first: as with Jobs, but among pods that are equally ready the cost comes before all else."""
    order = pods.rank(pod)
    return (*order[:3], cost(pod), *order[3:])


def cost(pod: Object) -> int:
    """The pod's cost; none, and one that is no number, is zero."""
    text = (pod["metadata"].get("annotations") or {}).get(COST, "")
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (digits != "0" and digits.startswith("0")):
        return 0
    value = int(text)
    return value if -(2**31) <= value < 2**31 else 0
