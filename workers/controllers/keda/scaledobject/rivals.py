"""Other scalers of the same target. Two that scale one workload would undo each other's work, so only one may."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workers.api import bool_annotations
from workers.api.keda.scaledobject import ScaledObject
from workers.api.kinds import HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT, Object, Ref, controller_of, ref_of
from workers.decision.plan import Delete, RecordEvent, Together
from workers.decision.snapshot import CachedObject, Scalable

#: KEDA's annotation of a ScaledObject that replaces the autoscaler it names.
TRANSFER = "scaledobject.keda.sh/transfer-hpa-ownership"
#: KEDA's annotation of an autoscaler that may exist beside a ScaledObject.
CHECKED = "validations.keda.sh/hpa-ownership"


@dataclass(frozen=True, slots=True)
class Taken:
    """The target has another scaler. why: the scaler, for people. replaced: autoscalers to delete."""

    why: str
    replaced: tuple[Object, ...] = ()


def found(scaled: ScaledObject, body: Object, peers: Iterable[CachedObject], scale: Scalable) -> Taken | None:
    """Returns the scaler that keeps this ScaledObject from its target, None if there is no other."""
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
    """Returns the oldest ScaledObject of the same target, None if this one is the oldest."""
    others = [each.body for each in peers if each.body and not each.body["metadata"].get("deletionTimestamp")]
    oldest = min((*others, body), key=_age)
    return None if oldest is body else ref_of(SCALED_OBJECT, oldest)


def _age(body: Object) -> tuple[str, str]:
    """Returns a sort key from old to young; the name decides between two of one second."""
    metadata = body["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def replaced(scaled: ScaledObject, body: Object, autoscalers: Sequence[Object]) -> tuple[Object, ...]:
    """Returns the autoscalers that this ScaledObject replaces: KEDA's own for it, and the one that it takes over."""
    config = scaled.spec.advanced.horizontal_pod_autoscaler_config if scaled.spec.advanced else None
    transferred = config.name if config and config.name and bool_annotations.annotation(body, TRANSFER) else None
    return tuple(each for each in autoscalers if _is_own(each, body) or each["metadata"]["name"] == transferred)


def foreign(autoscalers: Iterable[Object], replaced: Sequence[Object]) -> Object | None:
    """Returns an autoscaler of the target that is neither replaced nor declared harmless, None without one."""
    return next((each for each in autoscalers if each not in replaced and not _is_harmless(each)), None)


def delete_autoscalers(autoscalers: Sequence[Object]) -> Together:
    """Returns the step that deletes autoscalers; a refused deletion is left to the next decision."""
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


def _is_harmless(autoscaler: Object) -> bool:
    value = (autoscaler["metadata"].get("annotations") or {}).get(CHECKED)
    return value is not None and not bool_annotations.annotation(autoscaler, CHECKED)
