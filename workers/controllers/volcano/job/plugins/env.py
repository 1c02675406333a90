"""env: every container knows the index of its pod within the task."""

from workers.api.kinds import Object
from workers.controllers.volcano.job.plugins.containers import variable, with_variables
from workers.controllers.volcano.job.plugins.plugin import Plugin, PodSlot

#: The older name is still in use.
VARIABLES = ("VK_TASK_INDEX", "VC_TASK_INDEX")


class Env(Plugin):
    """The variables VK_TASK_INDEX and VC_TASK_INDEX."""

    name = "env"

    def pod(self, slot: PodSlot, pod: Object) -> Object:
        return with_variables(pod, [variable(name, slot.index) for name in VARIABLES])
