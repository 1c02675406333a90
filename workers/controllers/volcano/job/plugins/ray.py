"""ray: a head that all workers join, and a Service in front of it."""

from collections.abc import Mapping
from typing import ClassVar

from workers.admission.volcano.plugins import RAY
from workers.api.kinds import SERVICE, Object
from workers.api.references import TASK_NAME
from workers.api.volcano.arguments import Value
from workers.api.volcano.job import Job, Task
from workers.controllers.volcano.job import names
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.job.plugins import containers
from workers.controllers.volcano.job.plugins.plugin import Plugin, PluginError, PodSlot
from workers.decision.plan import Create


class Ray(Plugin):
    """The commands of a cluster's nodes, and the ports of its head."""

    name = "ray"
    defaults: ClassVar[Mapping[str, Value]] = RAY

    def objects(self, job: Job, site: Site) -> tuple[Create, ...]:  # noqa: ARG002 - the same on every cluster
        head = self._head(job)
        body = {
            "apiVersion": SERVICE.api_version,
            "kind": SERVICE.kind,
            "metadata": names.metadata(job, f"{job.metadata.name}-head-svc"),
            "spec": {
                "selector": {**names.labels(job), TASK_NAME: head.name},
                "ports": [
                    {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}
                    for name, number in self._ports()
                ],
            },
        }
        return (Create(SERVICE, body),)

    def pod(self, slot: PodSlot, pod: Object) -> Object:
        head = self._head(slot.job)
        if slot.task.name == head.name:
            return containers.change(pod, self._lead, init=False)
        if slot.task.name == self.text("worker"):
            address = f"{names.first_host(slot.job, slot.site, head)}:{self.number('port')}"
            return containers.change(pod, lambda one: self._follow(one, address), init=False)
        return pod

    def _head(self, job: Job) -> Task:
        """The head's task. Raises PluginError for a job without one."""
        name = self.text("head")
        if (task := job.spec.task(name)) is None:
            raise PluginError(f"plugin ray: there is no task {name!r} to be the head")
        return task

    def _ports(self) -> tuple[tuple[str, int], ...]:
        return (
            ("gcs", self.number("port")),
            ("dashboard", self.number("dashboardPort")),
            ("client-server", self.number("clientPort")),
        )

    def _lead(self, container: Object) -> Object:
        if container.get("name") != self.text("headContainer"):
            return container
        for name, number in self._ports():
            container = containers.with_port(container, name, number)
        ports = dict(self._ports())
        command = (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={ports['gcs']} "
            f"--dashboard-port={ports['dashboard']} --ray-client-server-port={ports['client-server']}"
        )
        return {**container, "command": ["sh", "-c", command]}

    def _follow(self, container: Object, address: str) -> Object:
        if container.get("name") != self.text("workerContainer"):
            return container
        return {**container, "command": ["sh", "-c", f"ray start --block --address={address}"]}
