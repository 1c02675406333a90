"""mpi: the launcher gets the hosts of its workers, and every container a port for its login."""

from collections.abc import Mapping
from typing import ClassVar

from workers.admission.volcano.plugins import MPI
from workers.api.kinds import Object
from workers.api.volcano.arguments import Value
from workers.controllers.volcano.job import names
from workers.controllers.volcano.job.plugins import containers
from workers.controllers.volcano.job.plugins.containers import variable
from workers.controllers.volcano.job.plugins.plugin import Plugin, PodSlot

_PORT_NAME = "mpijob-port"


class Mpi(Plugin):
    """The variable MPI_HOST of the launcher: its workers, joined by commas."""

    name = "mpi"
    defaults: ClassVar[Mapping[str, Value]] = MPI

    def pod(self, slot: PodSlot, pod: Object) -> Object:
        port = self.number("port")
        ready = containers.change(pod, lambda one: containers.with_port(one, _PORT_NAME, port))
        worker = slot.job.spec.task(self.text("worker"))
        if slot.task.name != self.text("master"):
            return ready
        hosts = names.hosts(slot.job, slot.site, worker) if worker else ()
        return containers.with_variables(ready, [variable("MPI_HOST", ",".join(hosts))])
