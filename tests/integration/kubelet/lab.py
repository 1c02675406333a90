"""A kubelet in a process of its own, and the few verbs its tests need."""

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.fork_parent import FORKS, Forked
from workers.api.kinds import POD, Kind, Object, Ref
from workers.client.rest import Cluster
from workers.errors import NotFound

#: Seconds anything may take on a busy machine.
PATIENCE = 60.0


async def until(condition: Callable[[], object], what: str) -> None:
    """Waits for the condition."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
        await asyncio.sleep(0.02)


def shell(script: str, name: str = "main", **more: Any) -> Object:
    """A container that runs a shell script (in a command ``$$`` would stand for one dollar sign)."""
    command = ["/bin/sh", "-c", script.replace("$$", "$$$$")]
    return {"name": name, "image": "none", "command": command, **more}


class Lab:
    """One cluster, one folder, one kubelet (at a time)."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, folder: Path, logs: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.logs = logs
        self._kubeconfig = kubeconfig
        self.process: Forked | None = None

    def start(self, *more: str, pods: int = 8, isolation: str = "none") -> int:
        """Starts the kubelet; its process id. Its pods write into the test's folder unless they are isolated."""
        output = (self.folder / "kubelet.log").open("ab")
        with output:
            self.process = FORKS.start(
                "deploy.local.kubelet",
                [
                    *("--kubeconfig", str(self._kubeconfig)),
                    *("--logs", str(self.logs), "--root", str(self.folder / "root"), "--max-pods", str(pods)),
                    *("--backoff", "0.3", "--farewell", "1", "--events", "warnings"),
                    *("--isolation", isolation, *more),
                ],
                output,
            )
        return self.process.pid

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signals the kubelet and returns its exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.process = None
        return code

    async def create(self, name: str, *containers: Object, metadata: Object | None = None, **spec: Any) -> Object:
        """Creates a pod, by default one that is not restarted; `metadata` is what it has besides name and namespace."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": "default", "name": name, **(metadata or {})},
            "spec": {"restartPolicy": "Never", "containers": list(containers), **spec},
        }
        return await self.cluster.create(POD, body)

    async def running(self, name: str, script: str = "exec sleep 60", **more: Any) -> Object:
        """Creates a pod of one script, and waits until it runs: `number("pid")` is its process."""
        pod = await self.create(name, shell(f"echo $$ > {self.folder}/pid; {script}"), **more)
        await until(lambda: self.number("pid"), "the container runs")
        return pod

    async def get(self, name: str) -> Object:
        """The pod as it is now."""
        return await self.cluster.get(Ref(POD, "default", name))

    async def wait(self, name: str, condition: Callable[[Object], object]) -> Object:
        """Waits until the pod's object is as wanted."""
        deadline = time.monotonic() + PATIENCE
        while not condition(pod := await self.get(name)):
            log = (self.folder / "kubelet.log").read_text()[-2000:]
            assert time.monotonic() < deadline, f"pod {name} is not as wanted: {pod.get('status')}\n{log}"
            await asyncio.sleep(0.05)
        return pod

    async def ended(self, name: str) -> Object:
        """Waits until the pod has succeeded or failed."""
        return await self.wait(name, lambda pod: phase(pod) in ("Succeeded", "Failed"))

    async def delete(self, name: str, grace: int | None = None, kind: Kind = POD) -> None:
        """Asks for the deletion."""
        await self.cluster.delete(Ref(kind, "default", name), grace=grace)

    async def gone(self, name: str, kind: Kind = POD) -> None:
        """Waits until the object is gone."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                found = await self.cluster.get(Ref(kind, "default", name))
            except NotFound:
                return
            assert time.monotonic() < deadline, f"{kind.kind} {name} is still there: {found}"
            await asyncio.sleep(0.05)

    def log(self, pod: Object, container: str = "main", attempt: int = 0) -> list[str]:
        """The texts of a container's log, stream before each: ``stdout hello``."""
        metadata = pod["metadata"]
        folder = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        lines = (self.logs / folder / container / f"{attempt}.log").read_text().splitlines()
        return [" ".join((line.split(" ", 3)[1], line.split(" ", 3)[3])) for line in lines]

    def number(self, path: str) -> int:
        """A number that a container wrote into a file of the test's folder; 0 while there is none."""
        file = self.folder / path
        return int(file.read_text().strip() or 0) if file.exists() else 0


def phase(pod: Object) -> str:
    """The pod's phase."""
    return str((pod.get("status") or {}).get("phase"))


def container(pod: Object, name: str = "main") -> Object:
    """The status of a container; empty before there is one."""
    shown = pod.get("status") or {}
    statuses = [*(shown.get("containerStatuses") or ()), *(shown.get("initContainerStatuses") or ())]
    return next((one for one in statuses if one["name"] == name), {})


def code(pod: Object, name: str = "main") -> int | None:
    """The exit code of a container that has ended."""
    ended = (container(pod, name).get("state") or {}).get("terminated")
    return None if ended is None else int(ended["exitCode"])


def condition(pod: Object, type_: str) -> Object:
    """A condition of the pod; empty when it has none of that type."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == type_), {})


def waiting(pod: Object) -> Object:
    """Why its container waits; empty before it is known."""
    shown: Object = (container(pod).get("state") or {}).get("waiting") or {}
    return shown if shown.get("message") else {}
