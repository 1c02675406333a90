"""The lifecycle of a pod's containers: a pure function of the pod, its containers and the time.

The rules are the kubelet's: init containers one after the other, then all others side by side; `restartPolicy` decides
over what ended; restarts back off; `activeDeadlineSeconds` and deletion stop everything, sidecars last.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from deploy.local.kubelet.containers.container_states import (
    START_ERROR,
    Container,
    ContainerEnding,
    ContainerRunning,
    Containers,
    ContainerWaiting,
    Terminated,
    is_sidecar,
)
from workers.api import times
from workers.api.kinds import Object

#: Seconds between TERM and KILL when the pod does not say.
GRACE = 30.0


@dataclass(frozen=True, slots=True)
class ContainerBackoff:
    """Pauses before restarts, in seconds.

    As in Kubernetes the first restart follows at once, the second after `base`, each further one after twice the
    last, at most `cap`; a container that ran for `quiet` starts from the beginning.
    """

    base: float = 10.0
    cap: float = 300.0
    quiet: float = 600.0

    def pause(self, container: Container, end: Terminated) -> float:
        """Returns the seconds between a container's end and its restart."""
        if container.streak <= 1 or end.finished - end.started >= self.quiet:
            return 0.0
        return min(self.base * 2.0 ** min(container.streak - 2, 60), self.cap)

    def next_streak(self, container: Container) -> int:
        """The streak of the start that comes now."""
        end = container.state
        quiet = isinstance(end, Terminated) and end.finished - end.started >= self.quiet
        return 1 if quiet else container.streak + 1


@dataclass(frozen=True, slots=True)
class PodDecision:
    """start, stop, kill: names of containers to start, to ask to end (TERM), to end (KILL).

    hook: sidecars that are asked to end later, and whose preStop hooks run from now on, if they do not yet.
    backing_off: containers that wait for their restart, with the pause in seconds. wake: when to decide again if
    nothing happens before. ending: the verdict on the pod, if there is one. finished: nothing runs and nothing will.
    stuck: nothing runs, and all that the pod waits for are containers that could not be started.
    """

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    hook: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    backing_off: dict[str, float] = field(default_factory=dict)
    wake: float = math.inf
    ending: ContainerEnding | None = None
    finished: bool = False
    stuck: bool = False


@dataclass(slots=True)
class _PodDraft:
    """A decision while it is being made."""

    pod: Object
    containers: Containers
    now: float
    backoff: ContainerBackoff
    start: list[str] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)
    hook: list[str] = field(default_factory=list)
    kill: list[str] = field(default_factory=list)
    backing_off: dict[str, float] = field(default_factory=dict)
    wake: float = math.inf

    def at(self, instant: float) -> bool:
        """True if the instant has come; otherwise the decision is due again at that instant."""
        if instant > self.now:
            self.wake = min(self.wake, instant)
        return instant <= self.now

    def end(self, container: Container, grace: float) -> None:
        """Stops a running container, or kills it when its grace is over; once in a decision."""
        if container.name in (*self.stop, *self.kill):
            return
        if container.stopping is None:
            self.stop.append(container.name)
        elif self.at(container.stopping + grace):
            self.kill.append(container.name)

    def ensure(self, spec: Object, policy: str) -> bool:
        """Starts or restarts a container if its policy wants that; False when it has ended for good.

        policy: for a container without one of its own.
        """
        container = self.containers[spec["name"]]
        state = container.state
        if isinstance(state, ContainerRunning):
            return True
        if isinstance(state, ContainerWaiting):
            if self.at(state.retry):
                self.start.append(container.name)
            return True
        if not _restarts(spec, policy, state.code):
            return False
        pause = self.backoff.pause(container, state)
        if self.at(state.finished + pause):
            self.start.append(container.name)
        else:
            self.backing_off[container.name] = pause
        return True

    def decision(self, *, ending: ContainerEnding | None = None, over: bool = False) -> PodDecision:
        running = any(isinstance(container.state, ContainerRunning) for container in self.containers.values())
        return PodDecision(
            start=tuple(self.start),
            stop=tuple(self.stop),
            hook=tuple(self.hook),
            kill=tuple(self.kill),
            backing_off=self.backing_off,
            wake=self.wake,
            ending=ending,
            finished=over and not running,
            stuck=not (over or running or self.start) and all(map(self._never_ran, self.backing_off)),
        )

    def _never_ran(self, name: str) -> bool:
        """True for a container that backs off because its program could not be started."""
        state = self.containers[name].state
        return isinstance(state, Terminated) and state.reason == START_ERROR


def decide(
    pod: Object,
    containers: Containers,
    now: float,
    *,
    ending: ContainerEnding | None = None,
    backoff: ContainerBackoff = ContainerBackoff(),
) -> PodDecision:
    """Decides which of the pod's containers to start, stop and kill at this instant.

    ending: the verdict of an earlier decision or of the kubelet, which stays.
    """
    draft = _PodDraft(pod, containers, now, backoff)
    ending = ending or _deadline(draft)
    if ending is not None or pod["metadata"].get("deletionTimestamp"):
        _end_in_turn(draft, _grace(pod, ending))
        return draft.decision(ending=ending, over=True)
    for container in _running(containers.values()):
        if container.unhealthy is not None:
            own = container.unhealthy_grace
            draft.end(container, _grace(pod, None) if own is None else own)
    over = _progress(draft)
    return draft.decision(over=over)


def _progress(draft: _PodDraft) -> bool:
    """Init containers, then the others. Whether the pod has come to its end."""
    spec = draft.pod["spec"]
    policy = spec.get("restartPolicy", "Always")
    begun = any(draft.containers[one["name"]].attempt >= 0 for one in spec["containers"])
    for one in spec.get("initContainers") or ():
        container = draft.containers[one["name"]]
        if is_sidecar(one):
            continue
        if isinstance(container.state, Terminated) and container.state.code == 0:
            continue
        if begun:
            # after a crash of the kubelet its record may be gone; it did end, or nothing would have come after it
            continue
        return _initialize(draft, one, policy)
    if not begun and not _sidecars(draft, None):
        return False
    # every container is asked, so that one that ended does not keep the others from being started
    going = [draft.ensure(one, policy) for one in spec["containers"]]
    if any(going):
        _sidecars(draft, None)
        return False
    _end_in_turn(draft, _grace(draft.pod, None))
    return True


def _restarts(spec: Object, policy: str, code: int) -> bool:
    """True if a container that ended with this code begins again. policy: the pod's."""
    for rule in spec.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        named = code in (codes.get("values") or ())
        if {"In": named, "NotIn": not named}.get(codes.get("operator", "")):
            return True
    policy = spec.get("restartPolicy") or policy
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _initialize(draft: _PodDraft, spec: Object, policy: str) -> bool:
    """Brings the init container on its way, after the sidecars that stand before it."""
    if not _sidecars(draft, spec["name"]):
        return False
    if draft.ensure(spec, "Never" if policy == "Never" else "OnFailure"):
        return False
    _end_in_turn(draft, _grace(draft.pod, None))
    return True


def _sidecars(draft: _PodDraft, before: str | None) -> bool:
    """Keeps sidecars running, those before the named init container or all; whether all of these have started.

    They start in their order: each waits for the one before it.
    """
    for one in draft.pod["spec"].get("initContainers") or ():
        if one["name"] == before:
            return True
        if is_sidecar(one):
            container = draft.containers[one["name"]]
            if one["name"] not in draft.start:
                draft.ensure(one, "Always")
            if not (isinstance(container.state, ContainerRunning) and container.started):
                return False
    return True


def _end_in_turn(draft: _PodDraft, grace: float) -> None:
    """Ends what runs: sidecars after all others, the last one first. One grace, from the first stop on, is for all.

    As in the kubelet, sidecars wait for their turn after their preStop hooks, which begin at once.
    """
    running = _running(draft.containers.values())
    # A sick container is stopped on its own account.
    begun = [one.stopping for one in draft.containers.values() if one.stopping is not None and one.unhealthy is None]
    if begun and draft.at(min(begun) + grace):
        draft.kill += [container.name for container in running if container.name not in draft.kill]
        return
    sidecars = {one["name"]: one for one in draft.pod["spec"].get("initContainers") or () if is_sidecar(one)}
    others = [container for container in running if container.name not in sidecars]
    last = [draft.containers[name] for name in sidecars if draft.containers[name] in running][-1:]
    turn = others or last
    for container in turn:
        draft.end(container, grace)
    for container in running:
        has_hook = "preStop" in (sidecars.get(container.name, {}).get("lifecycle") or {})
        if has_hook and container not in turn and container.stopping is None:
            draft.hook.append(container.name)


def _deadline(draft: _PodDraft) -> ContainerEnding | None:
    seconds = draft.pod["spec"].get("activeDeadlineSeconds")
    begun = (draft.pod.get("status") or {}).get("startTime")
    if seconds is None or begun is None or not draft.at(times.parse(begun).timestamp() + seconds):
        return None
    return ContainerEnding("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


def _grace(pod: Object, ending: ContainerEnding | None) -> float:
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    own = pod["spec"].get("terminationGracePeriodSeconds")
    grace = float(next((seconds for seconds in (asked, own) if seconds is not None), GRACE))
    return grace if ending is None or ending.grace is None else min(grace, ending.grace)


def _running(containers: Iterable[Container]) -> list[Container]:
    return [container for container in containers if isinstance(container.state, ContainerRunning)]
