"""tensorflow: the variable TF_CONFIG with the cluster and the pod's role in it."""

import json
from collections.abc import Mapping
from typing import ClassVar

from workers.api.kinds import Object
from workers.api.volcano.arguments import Value
from workers.controllers.volcano.job import names
from workers.controllers.volcano.job.plugins.containers import variable, with_variables
from workers.controllers.volcano.job.plugins.plugin import Plugin, PodSlot

#: Roles in the order of TF_CONFIG.
ROLES = ("ps", "worker", "chief", "evaluator")


class Tensorflow(Plugin):
    """A parameter server's cluster, or one of equal workers."""

    name = "tensorflow"
    defaults: ClassVar[Mapping[str, Value]] = {**{role: role for role in ROLES}, "port": 2222}

    def pod(self, slot: PodSlot, pod: Object) -> Object:
        tasks = slot.job.spec.tasks
        if len(tasks) == 1 and tasks[0].replicas == 1:
            return pod
        role = next((role for role in ROLES if self.text(role) == slot.task.name), slot.task.name)
        config = {"cluster": self._cluster(slot), "task": {"type": role, "index": slot.index}}
        text = json.dumps(config, separators=(",", ":"))
        return with_variables(pod, [variable("TF_CONFIG", text)], init=False)

    def _cluster(self, slot: PodSlot) -> dict[str, list[str]]:
        port = self.number("port")
        cluster = {}
        for role in ROLES:
            task = slot.job.spec.task(self.text(role))
            if task and (found := names.hosts(slot.job, slot.site, task)):
                cluster[role] = [f"{host}:{port}" for host in found]
        return cluster
