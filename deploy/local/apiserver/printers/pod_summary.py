"""A pod's condition in a word and a few numbers, the way ``kubectl get pods`` shows it."""

from datetime import datetime
from typing import Any

from deploy.local.apiserver.printers import ages
from workers.api import conditions
from workers.api.kinds import Object


def summary(pod: Object, now: datetime) -> tuple[str, str, str]:
    """Ready containers of all (``1/2``), the word, and the restarts (``3 (5m ago)``)."""
    status = pod.get("status") or {}
    init_specs = {each.get("name"): each for each in pod["spec"].get("initContainers") or ()}
    sidecars = {name for name, each in init_specs.items() if each.get("restartPolicy") == "Always"}
    total = len(pod["spec"].get("containers") or ()) + len(sidecars)
    word = status.get("reason") or _gated(status) or status.get("phase") or "Pending"
    inits = status.get("initContainerStatuses") or []
    containers = status.get("containerStatuses") or []
    beside = [each for each in inits if each.get("name") in sidecars]
    ready = sum(bool(c.get("ready") and "running" in (c.get("state") or {})) for c in containers)
    ready += sum(bool(c.get("started") and c.get("ready")) for c in beside)
    initializing = _initializing(inits, len(init_specs), sidecars)
    word, counted = initializing or word, inits
    if initializing is None or conditions.holds(pod, "Initialized"):
        word, counted = _containers_word(word, containers, pod), [*beside, *containers]
    if "deletionTimestamp" in pod["metadata"]:
        word = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return f"{ready}/{total}", word, _restarts(counted, now)


def _gated(status: Object) -> str | None:
    """The word for a pod that waits for its scheduling gates."""
    scheduled = [c.get("reason") for c in status.get("conditions") or () if c.get("type") == "PodScheduled"]
    return "SchedulingGated" if "SchedulingGated" in scheduled else None


def _restarts(containers: list[Object], now: datetime) -> str:
    count = sum(c.get("restartCount", 0) for c in containers)
    ends = [
        end
        for c in containers
        if (end := ((c.get("lastState") or {}).get("terminated") or {}).get("finishedAt")) is not None
    ]
    return f"{count} ({ages.age(max(ends), now)} ago)" if count and ends else str(count)


def _ended(terminated: Object) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(containers: list[Object], total: int, sidecars: set[Any]) -> str | None:
    """The word while init containers are at work, None when they are done: a sidecar is once it has started."""
    for index, container in enumerate(containers):
        state: dict[str, Any] = container.get("state") or {}
        if container.get("name") in sidecars and container.get("started"):
            continue
        if "terminated" in state:
            if state["terminated"].get("exitCode", 0) == 0:
                continue
            return f"Init:{_ended(state['terminated'])}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{total}"
    return None


def _containers_word(word: str, containers: list[Object], pod: Object) -> str:
    running = False
    for container in reversed(containers):
        state: dict[str, Any] = container.get("state") or {}
        if waiting := (state.get("waiting") or {}).get("reason"):
            word = waiting
        elif "terminated" in state:
            word = _ended(state["terminated"])
        elif container.get("ready") and "running" in state:
            running = True
    if word == "Completed" and running:
        return "Running" if conditions.holds(pod, "Ready") else "NotReady"
    return word
