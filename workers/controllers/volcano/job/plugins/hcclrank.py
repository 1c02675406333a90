"""hcclrank: the rank of a pod in Huawei's collective communication, as an annotation."""

from collections.abc import Mapping
from typing import ClassVar

from workers.api.kinds import Object
from workers.api.volcano.arguments import Value
from workers.controllers.volcano.job.plugins.plugin import Plugin, PodSlot

RANK_INDEX = "hccl/rankIndex"


class Hcclrank(Plugin):
    """The rank another plugin or the author gave in the variable RANK; otherwise masters come first, then workers."""

    name = "hcclrank"
    defaults: ClassVar[Mapping[str, Value]] = {"master": "master", "worker": "worker"}
    recorded = False

    def pod(self, slot: PodSlot, pod: Object) -> Object:
        annotations = pod["metadata"].get("annotations") or {}
        rank = _given(pod) or self._counted(slot)
        if annotations.get(RANK_INDEX) or not rank:
            return pod
        return {**pod, "metadata": {**pod["metadata"], "annotations": {**annotations, RANK_INDEX: rank}}}

    def _counted(self, slot: PodSlot) -> str:
        master, worker = self.text("master"), self.text("worker")
        if slot.task.name == master:
            return str(slot.index)
        if slot.task.name != worker:
            return ""
        first = slot.job.spec.task(master)
        return str((first.replicas if first else 0) + slot.index)


def _given(pod: Object) -> str:
    """The value of the first variable RANK."""
    variables = (each for container in pod["spec"].get("containers") or () for each in container.get("env") or ())
    return next((str(each.get("value") or "") for each in variables if each["name"] == "RANK"), "")
