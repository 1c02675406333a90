"""Short failure reasons of Jobs and pods, for table cells. Pure."""

from collections.abc import Iterator

from workers.api import conditions
from workers.api.kinds import JOB, POD, Kind, Object

#: Waiting reasons of a container that starts normally.
ORDINARY = frozenset({"ContainerCreating", "PodInitializing"})


def of(kind: Kind, body: Object) -> str:
    """Returns the reason why a Job failed, or a pod failed, cannot start or has no node; empty if there is none."""
    if kind.id == JOB.id:
        found = conditions.find(body, "Failed") or {}
        return _reason(found) if found.get("status") == "True" else ""
    if kind.id == POD.id:
        return "; ".join(_of_pod(body.get("status") or {})) or _unschedulable(body)
    return ""


def _of_pod(status: Object) -> Iterator[str]:
    if reason := _reason(status):
        yield reason
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if reason := _of_container(container.get("state") or {}):
            yield f"{container.get('name', '')}: {reason}"


def _unschedulable(body: Object) -> str:
    found = conditions.find(body, "PodScheduled") or {}
    return _reason(found) if (found.get("status"), found.get("reason")) == ("False", "Unschedulable") else ""


def _of_container(state: Object) -> str:
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    if waiting:
        return "" if waiting.get("reason") in ORDINARY else _reason(waiting)
    code = ended.get("exitCode")
    if not code:
        return ""
    return f"exit code {code}" if ended.get("reason") in (None, "", "Error") else _reason(ended)


def _reason(entry: Object) -> str:
    """Returns reason and message on one line."""
    text = ": ".join(str(part) for part in (entry.get("reason"), entry.get("message")) if part)
    return " ".join(text.split())
