"""The plan that a decision returns: an ordered list of steps, as plain values.

`act` (workers/reconcile/act.py) carries a plan out from the first step to the last. A step that fails stops the plan;
the object comes back with backoff and is decided afresh. A step whose effect is there already counts as done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, overload

from workers.api.kinds import Kind, Object, Ref
from workers.decision.claims import ClaimOrder
from workers.decision.limits import LimitReservation


@dataclass(frozen=True, slots=True)
class Create:
    """Creates a child. Its name is in the body; an object of that name that is ours counts as success.

    Ours is an object with the reconciled object's uid, or the body's controller, as its controller (several objects may
    create one child for a third).

    taken: recorded when an object that is not ours has the name; the plan then goes on, and the object is decided on
    once more. Without it a taken name is an error. generate: a secret that is generated if the object does not exist,
    and that no plan ever holds: an ssh key pair in the Secret's `id_rsa`, `id_rsa.pub` and `authorized_keys`.
    any_owner: an object of that name that is not ours counts as success, and is left as it is.
    """

    kind: Kind
    body: Object
    taken: "RecordEvent | None" = None
    generate: Literal["ssh-key"] | None = None
    any_owner: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes the object of this uid. Success if it is gone already.

    resource_version: deletes it only if it is unchanged; otherwise a conflict, and the object is decided on afresh.
    """

    ref: Ref
    uid: str
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class Discard:
    """Deletes a child of a kind that is never observed (a Secret), if the reconciled object controls it.

    Success if it is gone already, or another object controls it.
    """

    ref: Ref


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch of one object, fenced by the resourceVersion that was observed. then: recorded on success."""

    ref: Ref
    body: Object
    resource_version: str
    then: "RecordEvent | None" = None


@dataclass(frozen=True, slots=True)
class Unfinalize:
    """Removes one finalizer from the object of this uid, beside any other change. Success if it is gone already.

    For built-in kinds only: a strategic merge patch needs the type of the list, which custom resources do not have.
    """

    ref: Ref
    uid: str
    finalizer: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Sets the replicas of a workload through its scale subresource, fenced by the observed resourceVersion.

    then: recorded on success. otherwise: recorded when the API server refused; ``{error}`` becomes its answer.
    """

    ref: Ref
    replicas: int
    resource_version: str
    then: "RecordEvent | None" = None
    otherwise: "RecordEvent | None" = None


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Writes the whole status of the reconciled object, if it differs from the observed one.

    made: objects that earlier steps create; references to those that exist then, with their uids, are appended to the
    status's list `active`.
    """

    status: Object
    made: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Records a Kubernetes Event about the reconciled object, or about another observed one.

    about: the other one's kind, and the object. In the `then` of a `Together`, ``{done}`` in the message becomes the
    number of steps that succeeded; in its `otherwise`, ``{error}`` becomes the API server's answer.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    about: tuple[Kind, Object] | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """Independent steps, carried out concurrently with a bounded number in flight.

    then: recorded once if at least one step succeeded. otherwise: recorded once per distinct error. vital: a failure
    stops the plan after these steps; a refused step that is not vital is left to the next decision. meanwhile: given
    where one step's refusal does not affect the others: they are all tried, and before the plan stops these steps are
    carried out, so that nothing else waits for the refusal to end. The refusal decides when the object is reconciled
    again: ComeBack is not among them.
    """

    steps: tuple[Create | Delete | Discard | Patch | Unfinalize, ...]
    then: RecordEvent | None = None
    otherwise: RecordEvent | None = None
    vital: bool = True
    meanwhile: "Sequence[Step] | None" = None


@dataclass(frozen=True, slots=True)
class EditList:
    """Adds a name to a comma separated list in another object's status, or removes it.

    The list informs people: if the object is missing, or may not be read or written, nothing is done.
    """

    ref: Ref
    field: str
    name: str
    present: bool = True


@dataclass(frozen=True, slots=True)
class MarkObject:
    """Marks another object's key, because this decision found a change that concerns it."""

    ref: Ref


#: The metrics that decisions count, by their names in `workers.metrics.process`.
Metric = Literal[
    "job_creation_skew",
    "job_deletion_delay",
    "jobs_finished",
    "job_pods_finished",
    "job_finished_indexes",
    "pod_failures_handled",
    "jobflows_succeeded",
    "jobflows_failed",
    "vcjob_pod_latency",
]


@dataclass(frozen=True, slots=True)
class CountMetric:
    """Counts something for Prometheus once the steps before it succeeded.

    value: the increment of a counter, or one observation of a histogram, in the metric's unit. labels: in the metric's
    order. times: how often a histogram observes the value.
    """

    metric: Metric
    value: float = 1.0
    labels: tuple[str, ...] = ()
    times: int = 1


@dataclass(frozen=True, slots=True)
class PollNow:
    """Polls the reconciled object's triggers now.

    order: carried out on its claims before that poll, and before every later one until another order replaces it.
    """

    order: ClaimOrder | None = None


@dataclass(frozen=True, slots=True)
class HoldKey:
    """Holds the object's key for so long (seconds): changes in that time coalesce into one decision.

    For expensive decisions, such as a gang's admission round, while many objects change.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class ComeBack:
    """Reconciles this object again at this instant (an aware datetime), if nothing marks it before."""

    at: datetime


Step = (
    Create
    | Delete
    | Discard
    | Patch
    | Unfinalize
    | Scale
    | PatchStatus
    | RecordEvent
    | Together
    | EditList
    | MarkObject
    | CountMetric
    | PollNow
    | HoldKey
    | ComeBack
)


class LaterSteps(Sequence[Step]):
    """Steps that are made when they are first asked for, by a function without effects.

    For the `meanwhile` of a `Together`, which is seldom carried out.
    """

    def __init__(self, make: Callable[[], tuple[Step, ...]]) -> None:
        self._make = make

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        return self._make()

    @overload
    def __getitem__(self, place: int) -> Step: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, place: int | slice) -> Step | tuple[Step, ...]:
        """As of a tuple."""
        return self._steps[place]

    def __len__(self) -> int:
        """As of a tuple."""
        return len(self._steps)


#: The gauges of an object, set with every decision on it, by their names in `workers.metrics.process`.
Level = Literal["scaledjob_running", "scaledjob_pending"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a decision's arithmetic, for people. how: the expression it was calculated from, if any."""

    name: str
    value: float
    how: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, and `why`: the decision and its numbers in one line for people.

    figures: the arithmetic behind it. reservation: a request to shared limits; nothing is carried out, and the object
    is decided on again with the answer in the snapshot. levels: values of the object's gauges.
    """

    steps: tuple[Step, ...] = ()
    why: str = ""
    figures: tuple[Figure, ...] = ()
    reservation: LimitReservation | None = None
    levels: tuple[tuple[Level, float], ...] = ()


#: Nothing to do.
NOTHING = Plan()
