"""pytorch: the variables that torch.distributed starts from."""

from collections.abc import Mapping
from typing import ClassVar

from workers.api.kinds import Object
from workers.api.volcano.arguments import Value
from workers.controllers.volcano.job import names
from workers.controllers.volcano.job.plugins import containers
from workers.controllers.volcano.job.plugins.containers import variable
from workers.controllers.volcano.job.plugins.plugin import Plugin, PodSlot

_WAITING = "wait-for-master"
_PORT_NAME = "pytorchjob-port"


class Pytorch(Plugin):
    """Address of the master, size of the world, and the rank in it."""

    name = "pytorch"
    defaults: ClassVar[Mapping[str, Value]] = {
        "master": "master",
        "worker": "worker",
        "port": 23456,
        "wait-master-enabled": False,
        "wait-master-timeout": 300,
        "wait-master-image": "busybox:1.36.1",
    }

    def pod(self, slot: PodSlot, pod: Object) -> Object:
        master = slot.job.spec.task(self.text("master"))
        if master is None:
            return pod
        address, port = names.first_host(slot.job, slot.site, master), self.number("port")
        roles = (self.text("master"), self.text("worker"))
        size = sum(task.replicas for task in slot.job.spec.tasks if task.name in roles)
        values = {"MASTER_ADDR": address, "MASTER_PORT": port, "WORLD_SIZE": size}
        variables = [variable(name, value) for name, value in values.items()]
        if (rank := self._rank(slot)) is not None:
            variables.append(variable("RANK", rank))
        ready = containers.with_variables(pod, variables, init=False)
        ready = containers.change(ready, lambda one: containers.with_port(one, _PORT_NAME, port), init=False)
        if self.arguments["wait-master-enabled"] and slot.task.name == self.text("worker"):
            return self._waiting(ready, address)
        return ready

    def _rank(self, slot: PodSlot) -> int | None:
        if slot.task.name == self.text("worker"):
            return slot.index + 1
        return 0 if slot.task.name == self.text("master") else None

    def _waiting(self, pod: Object, address: str) -> Object:
        """The pod with a container in front that ends when the master can be reached, or fails when time is over."""
        there = pod["spec"].get("initContainers") or ()
        if any(container.get("name") == _WAITING for container in there):
            return pod
        seconds, port = self.number("wait-master-timeout"), self.number("port")
        script = (
            f"end=$(($(date +%s) + {seconds})); "
            f"until nc -z -w 2 {address} {port}; do "
            '[ "$(date +%s)" -lt "$end" ] || '
            f'{{ echo "{address}:{port} did not answer in {seconds} s" >&2; exit 1; }}; '
            "sleep 1; done"
        )
        waiting = {"name": _WAITING, "image": self.text("wait-master-image"), "command": ["sh", "-c", script]}
        return {**pod, "spec": containers.extended(pod["spec"], "initContainers", waiting)}
