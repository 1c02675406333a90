"""The status of a pod, computed whole from what is known of its containers. Pure; the words are the kubelet's."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from deploy.local.kubelet.containers.container_states import (
    Container,
    ContainerEnding,
    ContainerRunning,
    Containers,
    ContainerWaiting,
    Terminated,
    is_sidecar,
    timestamp,
)
from deploy.local.kubelet.pods.lifecycle import PodDecision
from workers.api import loopback_addresses
from workers.api.kinds import Object

_OWN = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_STATUSES = frozenset({"containerStatuses", "initContainerStatuses"})
_INITIALIZING = ContainerWaiting("PodInitializing")


def build(pod: Object, containers: Containers, decision: PodDecision, now: float) -> Object:
    """The whole status. What others wrote into the conditions stays; times of unchanged conditions stay."""
    before = pod.get("status") or {}
    phase = "Failed" if decision.finished and decision.ending else _phase(pod, containers, decision)
    status: dict[str, Any] = {
        "phase": phase,
        "startTime": before.get("startTime") or timestamp(now),
        "hostIP": loopback_addresses.SHARED,
        "podIP": loopback_addresses.of(pod),
        "podIPs": [{"ip": loopback_addresses.of(pod)}],
        "conditions": _conditions(pod, containers, phase, decision.ending, now),
        "containerStatuses": _statuses(pod, containers, decision, init=False),
    }
    if pod["spec"].get("initContainers"):
        status["initContainerStatuses"] = _statuses(pod, containers, decision, init=True)
    if decision.ending is not None and phase == "Failed":
        status |= {"reason": decision.ending.reason, "message": decision.ending.message}
    return status


def merged(pod: Object, own: Object | None) -> Object:
    """The pod with the status this kubelet computed last, and the conditions of others as the API server has them.

    What the API server shows may be older than what is on its way to it.
    """
    if own is None:
        return pod
    shown = (pod.get("status") or {}).get("conditions") or ()
    mine = {one["type"] for one in own["conditions"]}
    conditions = own["conditions"] + [one for one in shown if one["type"] not in mine]
    return {**pod, "status": {**own, "conditions": conditions}}


def unschedulable(pod: Object, why: str, now: float, problems: Mapping[str, str] = MappingProxyType({})) -> Object:
    """The status of a pod that has no node (yet): its conditions, and the containers that cannot be made.

    problems: why each of these cannot.
    """
    known = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
    more = {"reason": "Unschedulable", "message": why}
    mine = _condition(known.pop("PodScheduled", None), "PodScheduled", False, more, now)
    return {"conditions": [*known.values(), mine], **_unmade(pod, problems)}


def _unmade(pod: Object, problems: Mapping[str, str]) -> Object:
    """The container statuses of a pod without a node; those of an earlier report are taken away."""
    if not problems:
        return dict.fromkeys(_STATUSES & (pod.get("status") or {}).keys())
    parts = ("initContainers", "containers")
    names = [one["name"] for part in parts for one in pod["spec"].get(part) or ()]
    waiting = {name: ContainerWaiting("CreateContainerError", problem) for name, problem in problems.items()}
    containers = {name: Container(name, waiting.get(name, ContainerWaiting())) for name in names}
    shown = {"containerStatuses": _statuses(pod, containers, PodDecision(), init=False)}
    if pod["spec"].get("initContainers"):
        shown["initContainerStatuses"] = _statuses(pod, containers, PodDecision(), init=True)
    return shown


def _phase(pod: Object, containers: Containers, decision: PodDecision) -> str:
    mains = [containers[one["name"]] for one in pod["spec"]["containers"]]
    if decision.finished:
        return "Succeeded" if all(_code(one) == 0 for one in mains) else "Failed"
    if _uninitialized(pod, containers):
        return "Pending"
    # started once means Running from then on, also between restarts
    return "Running" if all(one.attempt >= 0 for one in mains) else "Pending"


def _code(container: Container) -> int | None:
    return container.state.code if isinstance(container.state, Terminated) else None


def _uninitialized(pod: Object, containers: Containers) -> list[str]:
    if any(containers[one["name"]].attempt >= 0 for one in pod["spec"]["containers"]):
        return []
    return [
        one["name"]
        for one in pod["spec"].get("initContainers") or ()
        if not (containers[one["name"]].started if is_sidecar(one) else _code(containers[one["name"]]) == 0)
    ]


def _conditions(
    pod: Object, containers: Containers, phase: str, ending: ContainerEnding | None, now: float
) -> list[Object]:
    known = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
    kept = [one for type_, one in known.items() if type_ not in _OWN and type_ != "DisruptionTarget"]
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    closed = [gate for gate in gates if known.get(gate, {}).get("status") != "True"]
    message = f"readiness gates that are not met: {', '.join(closed)}"
    gated = {"reason": "ReadinessGatesNotReady", "message": message} if closed else {}
    ready, why_not = _readiness(pod, containers, phase)
    waiting_for = _uninitialized(pod, containers)
    wanted = [
        ("Initialized", not waiting_for, _initialized_reason(phase, waiting_for)),
        ("Ready", ready and not closed, why_not or gated),
        ("ContainersReady", ready, why_not),
        ("PodScheduled", True, {}),
    ]
    if ending is not None and ending.disruption:
        wanted.append(("DisruptionTarget", True, {"reason": "TerminationByKubelet", "message": ending.message}))
    elif "DisruptionTarget" in known:
        kept.append(known["DisruptionTarget"])
    return [_condition(known.get(type_), type_, true, more, now) for type_, true, more in wanted] + kept


def _condition(before: Object | None, type_: str, true: bool, more: Mapping[str, str], now: float) -> Object:
    value = "True" if true else "False"
    since = before.get("lastTransitionTime") if before and before.get("status") == value else None
    times = {"lastProbeTime": None, "lastTransitionTime": since or timestamp(now)}
    return {"type": type_, "status": value, **times, **more}


def _initialized_reason(phase: str, waiting_for: list[str]) -> dict[str, str]:
    if phase == "Succeeded":
        return {"reason": "PodCompleted"}
    if waiting_for:
        names = " ".join(waiting_for)
        return {"reason": "ContainersNotInitialized", "message": f"containers with incomplete status: [{names}]"}
    return {}


def _readiness(pod: Object, containers: Containers, phase: str) -> tuple[bool, dict[str, str]]:
    if phase == "Succeeded":
        return False, {"reason": "PodCompleted"}
    if phase == "Failed":
        return False, {"reason": "PodFailed"}
    counted = [one["name"] for one in pod["spec"].get("initContainers") or () if is_sidecar(one)]
    counted += [one["name"] for one in pod["spec"]["containers"]]
    unready = [name for name in counted if not containers[name].ready]
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        return False, {"reason": "ContainersNotReady", "message": message}
    return True, {}


def _statuses(pod: Object, containers: Containers, decision: PodDecision, *, init: bool) -> list[Object]:
    waits = _INITIALIZING if init or _uninitialized(pod, containers) else None
    statuses = []
    for one in pod["spec"]["initContainers" if init else "containers"]:
        container = containers[one["name"]]
        status = _status(pod, one, container, decision, waits)
        if init and not is_sidecar(one):
            status["ready"] = _code(container) == 0
        statuses.append(status)
    return statuses


def _status(
    pod: Object, spec: Object, container: Container, decision: PodDecision, default: ContainerWaiting | None
) -> Object:
    """default: what a container that was never touched waits for."""
    state: ContainerWaiting | ContainerRunning | Terminated = container.state
    last = container.last
    if default is not None and state == ContainerWaiting():
        state = default
    if container.name in decision.backing_off and isinstance(state, Terminated):
        last, state = state, _backing_off(pod, container, decision.backing_off[container.name])
    uid = pod["metadata"]["uid"]
    status: dict[str, Any] = {
        "name": container.name,
        "image": spec.get("image", ""),
        "imageID": "",
        "ready": container.ready,
        "started": container.started,
        "restartCount": container.restarts,
        "state": _state(state, uid, container.name, container.attempt),
        "lastState": {},
    }
    if container.attempt >= 0:
        status["containerID"] = _id(uid, container.name, container.attempt)
    if last is not None:
        attempt = container.attempt if last is container.state else container.attempt - 1
        status["lastState"] = _state(last, uid, container.name, attempt)
    return status


def _backing_off(pod: Object, container: Container, pause: float) -> ContainerWaiting:
    metadata = pod["metadata"]
    where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    return ContainerWaiting(
        "CrashLoopBackOff", f"back-off {pause:g}s restarting failed container={container.name} pod={where}"
    )


def _state(state: ContainerWaiting | ContainerRunning | Terminated, uid: str, name: str, attempt: int) -> Object:
    match state:
        case ContainerWaiting(reason, message):
            return {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        case ContainerRunning(started):
            return {"running": {"startedAt": timestamp(started)}}
        case Terminated(code, started, finished, reason, message):
            return {
                "terminated": {
                    "exitCode": code,
                    "reason": reason or ("Completed" if code == 0 else "Error"),
                    **({"message": message} if message else {}),
                    "startedAt": timestamp(started),
                    "finishedAt": timestamp(finished),
                    "containerID": _id(uid, name, attempt),
                }
            }


def _id(uid: str, name: str, attempt: int) -> str:
    return f"process://{uid}/{name}/{attempt}"
