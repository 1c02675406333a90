"""Restores a container after a restart of the kubelet, from its folder and from its reported status."""

from pathlib import Path

from deploy.local.kubelet.containers.attempt import ContainerAttempt, latest
from deploy.local.kubelet.containers.container_states import LOST, Container, Terminated
from workers.api import times
from workers.api.kinds import Object


def container(name: str, folder: Path, shown: Object | None) -> tuple[Container, ContainerAttempt | None]:
    """The container as it is, and its latest attempt that has begun.

    folder: the container's. shown: its entry in the reported status. A container that was reported as started but
    has left no trace is not run again: it counts as ended.
    """
    number = latest(folder)
    attempt = ContainerAttempt(folder / str(number))
    state = attempt.state() if number >= 0 else None
    if state is None:
        # prepared, but its process never came to life: the attempt is made again under the same number
        number -= 1
        attempt = ContainerAttempt(folder / str(number))
        state = attempt.state() if number >= 0 else None
    if state is None:
        return _from_report(name, shown), None
    before = ContainerAttempt(folder / str(number - 1)).state() if number > 0 else None
    last = before if isinstance(before, Terminated) else None
    return Container(name, state, attempt=number, streak=number + 1, last=last), attempt


def _from_report(name: str, shown: Object | None) -> Container:
    state = (shown or {}).get("state") or {}
    restarts = int((shown or {}).get("restartCount") or 0)
    if ended := state.get("terminated"):
        finished = times.parse(ended["finishedAt"]).timestamp() if ended.get("finishedAt") else 0.0
        started = times.parse(ended["startedAt"]).timestamp() if ended.get("startedAt") else finished
        code, reason = int(ended["exitCode"]), ended.get("reason", "")
        known = Terminated(code, started, finished, reason, ended.get("message", ""))
        return Container(name, known, attempt=restarts, streak=restarts + 1)
    if running := state.get("running"):
        started = times.parse(running["startedAt"]).timestamp()
        lost = Terminated(LOST, started, started, "ContainerStatusUnknown", "its process could not be found any more")
        return Container(name, lost, attempt=restarts, streak=restarts + 1)
    return Container(name)
