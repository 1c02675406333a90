"""The annotations that pause a ScaledObject, wholly or in one direction, or keep it active."""

from dataclasses import dataclass

from workers.api import bool_annotations
from workers.api.kinds import Object
from workers.errors import UserError

PAUSED_SCALE_IN = "autoscaling.keda.sh/paused-scale-in"
PAUSED_SCALE_OUT = "autoscaling.keda.sh/paused-scale-out"
FORCE_ACTIVATION = "autoscaling.keda.sh/force-activation"


@dataclass(frozen=True, slots=True)
class Pause:
    """Scaling is paused. replicas: what to scale to before that, None for what is there."""

    replicas: int | None = None


def of(body: Object) -> Pause | None:
    """The pause the annotations ask for; one with replicas wins over any other that is said.

    Raises UserError where the replicas are no number.
    """
    text = (body["metadata"].get("annotations") or {}).get(bool_annotations.PAUSED_REPLICAS)
    if text is None:
        return Pause() if bool_annotations.is_paused(body) else None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UserError(
            f"metadata.annotations[{bool_annotations.PAUSED_REPLICAS}]: {text!r} is not a number of replicas"
        )
    return Pause(int(text))
