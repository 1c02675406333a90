"""tensorflow: the variable TF_CONFIG, which says who there is and who one is."""

import json
from collections.abc import Mapping
from typing import ClassVar

from workers.api.kinds import Object
from workers.api.volcano.arguments import Value
from workers.controllers.volcano.job import names
from workers.controllers.volcano.job.plugins.containers import variable, with_variables
from workers.controllers.volcano.job.plugins.plugin import Plugin, Seat

#: In the order in which they stand in the text.
ROLES = ("ps", "worker", "chief", "evaluator")


class Tensorflow(Plugin):
    """A parameter server's cluster, or one of equal workers."""

    name = "tensorflow"
    defaults: ClassVar[Mapping[str, Value]] = {**{role: role for role in ROLES}, "port": 2222}

    def pod(self, seat: Seat, pod: Object) -> Object:
        tasks = seat.job.spec.tasks
        if len(tasks) == 1 and tasks[0].replicas == 1:
            return pod
        config = {"cluster": self._cluster(seat), "task": {"type": self._role(seat), "index": seat.index}}
        text = json.dumps(config, separators=(",", ":"))
        return with_variables(pod, [variable("TF_CONFIG", text)], init=False)

    def _cluster(self, seat: Seat) -> dict[str, list[str]]:
        port = self.number("port")
        cluster = {}
        for role in ROLES:
            task = seat.job.spec.task(self.text(role))
            if task and (found := names.hosts(seat.job, seat.site, task)):
                cluster[role] = [f"{host}:{port}" for host in found]
        return cluster

    def _role(self, seat: Seat) -> str:
        return next((role for role in ROLES if self.text(role) == seat.task.name), seat.task.name)
