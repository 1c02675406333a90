"""A cluster in small for gangs: queues, nodes, a scheduler that knows no gangs, and owners that make their pods anew.

Every plan is carried out as `workers.reconcile.act` does, or cut short at any step.
"""

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tests.support.merging import merged
from tests.unit.controllers.factories import NOW
from tests.unit.controllers.volcano.podgroup.gangs import everything, group, node, pod, seen
from workers.api.kinds import POD, POD_GROUP, Object
from workers.api.references import GROUP_NAME
from workers.controllers.volcano.podgroup import admission_round as rounds
from workers.controllers.volcano.podgroup import vectors
from workers.controllers.volcano.podgroup.decide import GangDecision
from workers.controllers.volcano.podgroup.group import DEFAULT_RULES, GangRules
from workers.controllers.volcano.podgroup.members import Member, member
from workers.decision.plan import Delete, Patch, PatchStatus, Plan, Step, Together

PATIENCE = timedelta(seconds=60)


class GangCluster:
    """late: owners that make their pods when their group is admitted, as Jobs do; others make them held back."""

    def __init__(
        self,
        queues: list[Object],
        cpus: Mapping[str, int],
        seed: int = 0,
        *,
        cut: float = 0.0,
        overtaking: timedelta = DEFAULT_RULES.overtaking,
    ) -> None:
        self.queues = queues
        self.nodes = {name: node(name, cpu=cpu, pods=50, labels={"name": name}) for name, cpu in cpus.items()}
        self.groups: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.late: dict[str, bool] = {}
        self.now = NOW
        self.back_outs = 0
        self._chance = random.Random(seed)
        self._cut = cut
        self._versions = 100
        self._rules = GangRules(patience=PATIENCE, overtaking=overtaking)
        self.decide, self.admit = GangDecision(self._rules).decide, rounds.admit

    def arrive(
        self,
        name: str,
        *,
        least: int,
        cpu: int = 1,
        queue: str = "default",
        late: bool,
        more: int = 0,
        on: str | None = None,
    ) -> None:
        """A gang of so many pods of so many cpus each, and more beyond it. on: the only node that they may go to."""
        asks = {"cpu": str(least * cpu), "pods": str(least)}
        where = {"nodeSelector": {"name": on}} if on else {}
        told = {"minTaskMember": {"work": least}, "minTaskPlacement": {"work": where}} if late else {}
        size = {"sizes": cpu, "replicas": least + more, "where": where}
        self.groups[name] = group(name, least=least, asks=asks, queue=queue, created=self._seconds(), **told, **size)
        self.late[name] = late

    def step(self) -> None:
        """A second passes: owners, a round, every group, the scheduler."""
        self.now += timedelta(seconds=1)
        self._owners()
        self._carry_out(None, self.round())
        for name in list(self.groups):
            own = [each for each in self.pods.values() if _group_of(each) == name]
            self._carry_out(name, self.decide(seen(self.groups[name], *own), self.now))
        self._schedule()

    def round(self, *, mixed: bool = False) -> Plan:
        """Returns the plan of a round. mixed: the objects come in random order."""
        return self.admit(self._everything(mixed=mixed), self.now, self._rules)

    def end(self, name: str) -> None:
        """A pod that runs ends."""
        self.pods[name] = self._written(self.pods[name], {"status": {"phase": "Succeeded"}})

    def lose(self, name: str) -> None:
        """A node goes, and its unfinished pods with it; owners make those anew."""
        del self.nodes[name]
        for each in list(self.pods.values()):
            if each["spec"].get("nodeName") == name and each["status"]["phase"] in ("Pending", "Running"):
                del self.pods[each["metadata"]["name"]]

    def running(self) -> list[str]:
        """Pods that run."""
        return sorted(name for name, each in self.pods.items() if each["status"]["phase"] == "Running")

    def phases(self) -> dict[str, str]:
        return {name: each["status"]["phase"] for name, each in self.groups.items()}

    def members(self, name: str) -> list[Member]:
        return [member(each) for each in self.pods.values() if _group_of(each) == name]

    def used(self, node_name: str) -> int:
        """Billionths of cpus that pods take of a node."""
        on = (member(each) for each in self.pods.values())
        return sum(each.requests["cpu"] for each in on if each.occupies and each.node == node_name)

    def _everything(self, *, mixed: bool = False) -> Any:
        known = {
            "queues": list(self.queues),
            "groups": list(self.groups.values()),
            "pods": list(self.pods.values()),
            "nodes": list(self.nodes.values()),
        }
        for objects in known.values() if mixed else ():
            self._chance.shuffle(objects)
        return everything(**known)

    def _owners(self) -> None:
        for name, body in self.groups.items():
            spec, late = body["spec"], self.late[name]
            for index in range(spec["replicas"]):
                if f"{name}-{index}" not in self.pods and (body["status"]["phase"] != "Pending" or not late):
                    made = pod(
                        f"{name}-{index}",
                        name,
                        cpu=str(spec["sizes"]),
                        gated=not late or index >= spec["minMember"],
                        created=self._seconds(),
                        place=("work", index) if late else None,
                        **spec["where"],
                    )
                    self.pods[made["metadata"]["name"]] = made

    def _schedule(self) -> None:
        """A scheduler that looks at one pod after the other, in any order, and takes any node that fits."""
        waiting = [each for each in self.pods.values() if not member(each).gated and member(each).state == "waiting"]
        self._chance.shuffle(waiting)
        for each in waiting:
            asked = member(each).requests["cpu"]
            fitting = [
                name
                for name, body in self.nodes.items()
                if self.used(name) + asked <= vectors.read(body["status"]["allocatable"])["cpu"]
                and (each["spec"].get("nodeSelector") or {}).get("name", name) == name
            ]
            if fitting:
                change = {"spec": {"nodeName": self._chance.choice(fitting)}, "status": {"phase": "Running"}}
                self.pods[each["metadata"]["name"]] = self._written(each, change)

    def _carry_out(self, name: str | None, plan: Plan) -> None:
        self.back_outs += any(getattr(step, "reason", "") == "BackOff" for step in plan.steps)
        for step in plan.steps:
            for each in _parts(step):
                if self._chance.random() < self._cut:
                    return
                self._do(name, each)

    def _do(self, name: str | None, step: Step) -> None:
        if isinstance(step, PatchStatus):
            assert name
            self.groups[name] = self._written({**self.groups[name], "status": step.status}, {})
        elif isinstance(step, Patch):
            into = self.groups if step.ref.kind == POD_GROUP else self.pods
            assert step.ref.kind in (POD_GROUP, POD)
            if into[step.ref.name]["metadata"]["resourceVersion"] == step.resource_version:
                into[step.ref.name] = self._written(into[step.ref.name], step.body)
        elif isinstance(step, Delete):
            self.pods.pop(step.ref.name, None)

    def _written(self, body: Object, change: Object) -> Object:
        self._versions += 1
        return merged(merged(body, change), {"metadata": {"resourceVersion": str(self._versions)}})

    def _seconds(self) -> float:
        return (self.now - NOW).total_seconds()


def _parts(step: Step) -> list[Step]:
    """Returns the steps after which a plan may be cut off: those of a stage, then the Events of its patches."""
    if not isinstance(step, Together):
        return [step]
    return [*step.steps, *(each.then for each in step.steps if isinstance(each, Patch) and each.then)]


def _group_of(body: Object) -> str:
    return str(body["metadata"]["annotations"][GROUP_NAME])
