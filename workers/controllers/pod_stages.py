"""Stages of a plan that create or delete pods side by side, with one Event for all of them."""

from collections.abc import Sequence
from datetime import timedelta

from workers.api.kinds import POD, Object, ref_of
from workers.decision.plan import Create, Delete, RecordEvent, Step, Together

#: A pod that disappears at once when it is deleted causes no further watch event: the key comes back after this.
RECHECK = timedelta(seconds=1)


def create(bodies: Sequence[Object]) -> tuple[Step, ...]:
    """Creates these pods; no step for none."""
    if not bodies:
        return ()
    names = [body["metadata"]["name"] for body in bodies]
    return (
        Together(
            tuple(Create(POD, body) for body in bodies),
            then=_event("SuccessfulCreate", "Created", names),
            otherwise=RecordEvent("Warning", "FailedCreate", "Error creating: {error}"),
        ),
    )


def delete(pods: Sequence[Object]) -> tuple[Step, ...]:
    """Deletes exactly these pods, by UID; no step for none."""
    if not pods:
        return ()
    names = [pod["metadata"]["name"] for pod in pods]
    return (
        Together(
            tuple(Delete(ref_of(POD, pod), pod["metadata"]["uid"]) for pod in pods),
            then=_event("SuccessfulDelete", "Deleted", names),
            otherwise=DELETE_FAILED,
        ),
    )


DELETE_FAILED = RecordEvent("Warning", "FailedDelete", "Error deleting: {error}")


def _event(reason: str, verb: str, names: Sequence[str]) -> RecordEvent:
    # One Event for all pods of a stage: an object of a thousand pods must not write a thousand Events.
    message = f"{verb} pod: {names[0]}" if len(names) == 1 else f"{verb} {{done}} pods"
    return RecordEvent("Normal", reason, message)
