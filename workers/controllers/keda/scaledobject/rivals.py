"""Who else scales the same target: two that scale one workload undo each other's work, so that only one may."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workers.api import bool_annotations
from workers.api.keda.scaledobject import ScaledObject
from workers.api.kinds import HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT, Object, Ref, controller_of, ref_of
from workers.reconcile.plan import Delete, RecordEvent, Together
from workers.reconcile.snapshot import CachedObject, Scalable

#: KEDA's annotation of a ScaledObject that takes the place of the autoscaler it names.
TRANSFER = "scaledobject.keda.sh/transfer-hpa-ownership"
#: KEDA's annotation of an autoscaler that may stand beside a ScaledObject.
CHECKED = "validations.keda.sh/hpa-ownership"


@dataclass(frozen=True, slots=True)
class Taken:
    """Somebody else scales the target. why: who, for people. replaced: autoscalers that are to make room."""

    why: str
    replaced: tuple[Object, ...] = ()


def found(scaled: ScaledObject, body: Object, peers: Iterable[CachedObject], scale: Scalable) -> Taken | None:
    """Who keeps this ScaledObject from its target; None where it has the target for itself."""
    target = str(scale.ref) if scale.ref else "the target"
    if other := elder(body, peers):
        return Taken(f"spec.scaleTargetRef: {target} is scaled by {other} already, which is older")
    own = replaced(scaled, body, scale.autoscalers)
    if other_scaler := foreign(scale.autoscalers, own):
        name = other_scaler["metadata"]["name"]
        return Taken(f"spec.scaleTargetRef: {target} is scaled by HorizontalPodAutoscaler {name} already")
    if own:
        names = ", ".join(each["metadata"]["name"] for each in own)
        return Taken(f"waiting for HorizontalPodAutoscaler {names} to go, whose place this takes", own)
    return None


def elder(body: Object, peers: Iterable[CachedObject]) -> Ref | None:
    """The oldest other ScaledObject of the same target, if this one must leave the target to it."""
    others = [each.body for each in peers if each.body and not each.body["metadata"].get("deletionTimestamp")]
    oldest = min((*others, body), key=_age)
    return None if oldest is body else ref_of(SCALED_OBJECT, oldest)


def _age(body: Object) -> tuple[str, str]:
    """Orders objects from old to young; of two of one second the name decides."""
    metadata = body["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def replaced(scaled: ScaledObject, body: Object, autoscalers: Sequence[Object]) -> tuple[Object, ...]:
    """The autoscalers whose place this ScaledObject takes: KEDA's own for it, and the one it is told to take over."""
    config = scaled.spec.advanced.horizontal_pod_autoscaler_config if scaled.spec.advanced else None
    transferred = config.name if config and config.name and _transfers(body) else None
    return tuple(each for each in autoscalers if _is_own(each, body) or each["metadata"]["name"] == transferred)


def foreign(autoscalers: Iterable[Object], replaced: Sequence[Object]) -> Object | None:
    """An autoscaler that somebody else put on the target, and that is not declared to be no concern of ours."""
    return next((each for each in autoscalers if each not in replaced and not _is_let_be(each)), None)


def take_away(autoscalers: Sequence[Object]) -> Together:
    """Delete autoscalers; one that may not be deleted is left to the next decision."""
    return Together(
        tuple(Delete(ref_of(HORIZONTAL_POD_AUTOSCALER, each), each["metadata"]["uid"]) for each in autoscalers),
        then=RecordEvent("Normal", "AutoscalerReplaced", "Deleted {done} HorizontalPodAutoscaler of this target"),
        otherwise=RecordEvent(
            "Warning", "AutoscalerStays", "The target's HorizontalPodAutoscaler cannot be deleted: {error}"
        ),
        vital=False,
    )


def _is_own(autoscaler: Object, body: Object) -> bool:
    owner = controller_of(autoscaler)
    return owner is not None and owner["uid"] == body["metadata"]["uid"]


def _transfers(body: Object) -> bool:
    return bool_annotations.annotation(body, TRANSFER)


def _is_let_be(autoscaler: Object) -> bool:
    value = (autoscaler["metadata"].get("annotations") or {}).get(CHECKED)
    return value is not None and not bool_annotations.annotation(autoscaler, CHECKED)
