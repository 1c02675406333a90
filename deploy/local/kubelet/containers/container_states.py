"""The states of a pod's containers: frozen values. Instants are seconds since the epoch."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from workers.api import times
from workers.api.kinds import Object

#: Reason of the end of a container whose program could not be started.
START_ERROR = "StartError"
#: Exit code of a process whose shim did not record its end: it was killed, so the process counts as killed by SIGKILL.
LOST = 137


@dataclass(frozen=True, slots=True)
class ContainerWaiting:
    """Not running. retry: from when on a start may be tried (again); infinite when it would never succeed."""

    reason: str = "ContainerCreating"
    message: str = ""
    retry: float = 0.0


@dataclass(frozen=True, slots=True)
class ContainerRunning:
    """Its process lives."""

    started: float


@dataclass(frozen=True, slots=True)
class Terminated:
    """Its process ended. code: the exit code, 128 + n after signal n."""

    code: int
    started: float
    finished: float
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod.

    attempt: number of the latest start, counted from 0; -1 before the first. streak: starts in a row that did not
    lead to ten quiet minutes; the restart backoff grows with it. last: how the attempt before this one ended.
    stopping: when it was asked to end, kept after its end if that was for the sake of the pod. unhealthy: why a probe
    wants it stopped. unhealthy_grace: seconds between TERM and KILL that this probe grants, None for the pod's. started
    and ready: what the startup and the readiness probe say of the running process; True without such a probe.
    """

    name: str
    state: ContainerWaiting | ContainerRunning | Terminated = ContainerWaiting()
    attempt: int = -1
    streak: int = 0
    last: Terminated | None = None
    stopping: float | None = None
    unhealthy: str | None = None
    unhealthy_grace: float | None = None
    started: bool = False
    ready: bool = False

    @property
    def restarts(self) -> int:
        """The number of restarts."""
        return max(self.attempt, 0)


#: All containers of a pod by name, init containers included.
Containers = Mapping[str, Container]


@dataclass(frozen=True, slots=True)
class ContainerEnding:
    """A verdict on the whole pod: its containers are stopped and it fails with this reason.

    grace: seconds between TERM and KILL at most, None for the pod's own. disruption: the pod is not to blame (condition
    DisruptionTarget).
    """

    reason: str
    message: str
    grace: float | None = None
    disruption: bool = False


def is_sidecar(spec: Object) -> bool:
    """An init container that keeps running beside the others (`restartPolicy: Always`)."""
    return spec.get("restartPolicy") == "Always"


def timestamp(instant: float) -> str:
    """Renders seconds since the epoch as the RFC 3339 text of every time in a status."""
    return times.render(datetime.fromtimestamp(instant, UTC))
