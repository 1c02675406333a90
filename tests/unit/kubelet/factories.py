"""Small pods for tables."""

from typing import Any

from deploy.local.kubelet.containers.container_states import Container, ContainerRunning, Terminated
from workers.api.kinds import Object


def pod(*containers: Object, init: tuple[Object, ...] = (), meta: Object | None = None, **spec: Any) -> Object:
    """A pod of these containers (one named main by default)."""
    body: Object = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", **(meta or {})},
        "spec": {"restartPolicy": "Never", "containers": list(containers or (box("main"),)), **spec},
    }
    if init:
        body["spec"]["initContainers"] = list(init)
    return body


def box(name: str, **more: Any) -> Object:
    """A container."""
    return {"name": name, "image": "x", "command": ["run"], **more}


def ran(code: int = 0, *, name: str = "main", at: float = 100.0, took: float = 1.0, starts: int = 1) -> Container:
    """A container whose latest attempt ended at this instant."""
    return Container(name, Terminated(code, at - took, at), attempt=starts - 1, streak=starts)


def runs(name: str = "main", **more: Any) -> Container:
    """A container that runs."""
    return Container(
        name, ContainerRunning(90.0), **{"attempt": 0, "streak": 1, "started": True, "ready": True, **more}
    )


def state(*containers: Container) -> dict[str, Container]:
    """Containers by name."""
    return {container.name: container for container in containers}
