"""The pods of a gang as a scheduler counts them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from workers.api.kinds import POD, VC_JOB, Object, by_manifest, controller_of, ref_of
from workers.api.references import GANG_GATE, is_gated
from workers.controllers.volcano import pod_requests
from workers.controllers.volcano.podgroup import places
from workers.controllers.volcano.podgroup.places import PodShape
from workers.controllers.volcano.podgroup.vectors import EMPTY, Vector
from workers.decision.plan import Patch

#: waiting: without a node. bound: with a node, not running yet. releasing: being deleted.
State = Literal["waiting", "bound", "running", "succeeded", "failed", "releasing"]

#: Pod annotations: task and index in its job.
TASK, TASK_INDEX = "volcano.sh/task-spec", "volcano.sh/task-index"
#: One pod in billionths, as nodes count `pods`.
ONE_POD = 10**9
_RUNNING: dict[str, State] = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


@dataclass(frozen=True, slots=True)
class Member:
    """One pod. requests: the resources it takes of a node, including one of the node's pods."""

    pod: Object
    state: State
    node: str
    requests: Vector

    @property
    def placed(self) -> bool:
        """True if it has, or had, a node: the gang is whole with enough such pods."""
        return self.state in ("bound", "running", "succeeded", "failed") or self.releasing_place

    @property
    def occupies(self) -> bool:
        """True if it takes resources of a node now."""
        return self.state in ("bound", "running") or self.releasing_place

    @property
    def releasing_place(self) -> bool:
        """True while it is being deleted from a node."""
        return self.state == "releasing" and bool(self.node)

    @property
    def unschedulable(self) -> bool:
        """True if a scheduler found no node for it."""
        return any(
            condition.get("type") == "PodScheduled"
            and condition.get("status") == "False"
            and condition.get("reason") == "Unschedulable"
            for condition in (self.pod.get("status") or {}).get("conditions") or ()
        )

    @property
    def gated(self) -> bool:
        """True until the gang is admitted."""
        return is_gated(self.pod)

    @property
    def task(self) -> str:
        """The task of its job; empty without a job."""
        return str((self.pod["metadata"].get("annotations") or {}).get(TASK) or "")

    @property
    def of_a_job(self) -> bool:
        """True if Volcano's Job created it; such pods are created after the admission of their gang."""
        owner = controller_of(self.pod)
        return owner is not None and by_manifest(owner["apiVersion"], owner["kind"]) == VC_JOB

    def is_first(self, tasks: Mapping[str, int]) -> bool:
        """Returns True for one of the pods that the gang needs. tasks: the number of those by task."""
        index = str((self.pod["metadata"].get("annotations") or {}).get(TASK_INDEX) or "")
        if not self.of_a_job or self.task not in tasks or not index.isdecimal():
            return True
        return int(index) < tasks[self.task]

    @property
    def shape(self) -> PodShape:
        """Its requests and the nodes it may go to."""
        return places.shape(self.requests, places.read(self.pod["spec"]))

    @property
    def counted(self) -> Vector:
        """The amounts that a quota counts for it; empty for a pod that ended or is malformed."""
        return EMPTY if self.state in ("succeeded", "failed") else self.usage

    @property
    def usage(self) -> Vector:
        """The amounts that a quota counts for it until it ends; empty for a malformed pod."""
        try:
            return {name: amount.value for name, amount in pod_requests.usage(self.pod["spec"]).items()}
        except ValueError:
            return EMPTY

    @property
    def replaced(self) -> bool:
        """True if a controller will replace the pod after its deletion."""
        return controller_of(self.pod) is not None


def ungate(each: Member) -> Patch:
    """Returns the patch that removes the gate."""
    rest = [gate for gate in each.pod["spec"]["schedulingGates"] if gate.get("name") != GANG_GATE]
    metadata = each.pod["metadata"]
    return Patch(ref_of(POD, each.pod), {"spec": {"schedulingGates": rest or None}}, metadata["resourceVersion"])


def member(pod: Object) -> Member:
    """Returns the pod as a member. Malformed requests count as none: an API server stores no such pod."""
    node = pod["spec"].get("nodeName") or ""
    return Member(pod, _state(pod, node), node, _requests(pod["spec"]))


def ordered(members: Iterable[Member]) -> tuple[Member, ...]:
    """Returns the members, the oldest first."""
    return tuple(sorted(members, key=lambda each: age(each.pod)))


def age(pod: Object) -> tuple[str, str]:
    """Returns the key that sorts pods by age, the oldest first."""
    return pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]


def _state(pod: Object, node: str) -> State:
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    if phase in ("Succeeded", "Failed"):
        return _RUNNING[phase]
    if pod["metadata"].get("deletionTimestamp"):
        return "releasing"
    return _RUNNING.get(phase) or ("bound" if node else "waiting")


def _requests(spec: Object) -> Vector:
    try:
        return {**{name: amount.value for name, amount in pod_requests.requests(spec).items()}, "pods": ONE_POD}
    except ValueError:
        return EMPTY
