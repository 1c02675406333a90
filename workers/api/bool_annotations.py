"""Boolean annotations, read as KEDA reads them."""

from workers.api.kinds import SCALED_OBJECT, Object

PAUSED = "autoscaling.keda.sh/paused"
#: Pauses a ScaledObject at a number of replicas; it wins over PAUSED.
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"

_FALSE = frozenset({"0", "f", "F", "false", "False", "FALSE"})


def annotation(body: Object, key: str) -> bool:
    """Returns True if an annotation is set and not one of Go's spellings of false.

    KEDA's rule: a malformed annotation, also an empty one, counts as true.
    """
    value = (body["metadata"].get("annotations") or {}).get(key)
    return value is not None and value not in _FALSE


def is_paused(body: Object) -> bool:
    """Returns True if the user paused scaling of this object; of a ScaledObject also at a number of replicas."""
    annotations = body["metadata"].get("annotations") or {}
    return annotation(body, PAUSED) or (body.get("kind") == SCALED_OBJECT.kind and PAUSED_REPLICAS in annotations)
