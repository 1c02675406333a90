"""What a decision answers: an ordered list of steps, as plain values.

`act` (workers/reconcile/act.py) carries a plan out from the first step to the last. A step that fails stops the plan;
the object comes back with backoff and is decided afresh. A step whose effect is there already counts as done.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from workers.api.kinds import Kind, Object, Ref
from workers.handoff.claims import ClaimOrder
from workers.reconcile.limits import LimitReservation


@dataclass(frozen=True, slots=True)
class Create:
    """Create a child. Its name is in the body; if an object of that name exists and is ours, that is success.

    Ours is what the reconciled object controls, or whoever controls the body (several may make one child for a third).

    taken: recorded when an object that is not ours has the name; the step then counts as done and the plan goes on.
    The object is decided on once more after it. Without it a taken name is an error.
    mint: what is made afresh for the object when it is not there yet, and that no plan ever holds: a key pair for ssh,
    in the Secret's `id_rsa`, `id_rsa.pub` and `authorized_keys`.
    anybodys: somebody else's object of that name does as well, and is left as it is.
    """

    kind: Kind
    body: Object
    taken: "RecordEvent | None" = None
    generate: Literal["ssh-key"] | None = None
    any_owner: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly the object that was observed (by UID). Gone already is success.

    resource_version: delete only what is still as it was observed; a change since is a conflict, to decide afresh on.
    """

    ref: Ref
    uid: str
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete a child of a kind that is never observed (a Secret), if the reconciled object controls it.

    Gone already, or somebody else's, is success.
    """

    ref: Ref


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch of one object, fenced by the resourceVersion that was observed."""

    ref: Ref
    body: Object
    resource_version: str


@dataclass(frozen=True, slots=True)
class Unfinalize:
    """Take one finalizer off the object of this UID, whatever else changed on it. Gone already is success.

    For built-in kinds only: of a custom resource's lists the API server does not know that they are sets.
    """

    ref: Ref
    uid: str
    finalizer: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Set the replicas of a workload through its scale subresource, fenced by the resourceVersion that was observed.

    then: recorded when it worked. otherwise: recorded when the API server refused; ``{error}`` becomes its answer.
    """

    ref: Ref
    replicas: int
    resource_version: str
    then: "RecordEvent | None" = None
    otherwise: "RecordEvent | None" = None


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """The whole status of the reconciled object, computed afresh; written only if it differs from what was observed.

    made: objects that steps before this one create, whose uids nobody knows yet: references to those that came to be
    are put at the end of the status's list `active`.
    """

    status: Object
    made: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Record a Kubernetes Event about the reconciled object, or about another one that was observed with it.

    about: the other one's kind, and it.
    In the `then` of a `Together`, ``{done}`` in the message becomes the number of steps that worked; in its
    `otherwise`, ``{error}`` becomes what the API server answered.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    about: tuple[Kind, Object] | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """Steps that do not depend on each other: carried out side by side, a bounded number in flight.

    then: recorded once when at least one step worked. otherwise: recorded once per distinct error. vital: a failure
    stops the plan after these steps; what is not vital is left to the next decision when the API server refuses it.
    meanwhile: where the API server's refusal of one step says nothing of the others. They are tried all the same, and
    before the plan stops this is carried out, so that nothing else waits until the refusal is over. When to come back
    is up to the refusal: no ComeBack is among it.
    """

    steps: tuple[Create | Delete | Discard | Patch | Unfinalize, ...]
    then: RecordEvent | None = None
    otherwise: RecordEvent | None = None
    vital: bool = True
    meanwhile: "tuple[Step, ...] | None" = None


@dataclass(frozen=True, slots=True)
class EditList:
    """Have a name in a comma separated list of another object's status, or have it there no longer.

    The list is for people: where the object is not there, or may not be read or written, nothing is done.
    """

    ref: Ref
    field: str
    name: str
    present: bool = True


@dataclass(frozen=True, slots=True)
class MarkObject:
    """Ask for another object to be reconciled: what was seen here is news for it."""

    ref: Ref


#: What decisions count, by what stands for it in `workers.metrics.process`.
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
    """Count something for Prometheus, now that the steps before it worked.

    value: what a counter rises by, or one observation of a histogram, in the metric's own unit. labels: in the metric's
    own order. times: how often a histogram observes the value.
    """

    metric: Metric
    value: float = 1.0
    labels: tuple[str, ...] = ()
    times: int = 1


@dataclass(frozen=True, slots=True)
class PollNow:
    """Ask for a fresh reading of the reconciled object now.

    order: what is to be done with its claims before that reading, and before every later one until another order comes.
    """

    order: ClaimOrder | None = None


@dataclass(frozen=True, slots=True)
class HoldKey:
    """Keep the object's key for so long (seconds): all that happens meanwhile is decided on together.

    For decisions that look at much: without it they would be made again and again while much happens.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class ComeBack:
    """Reconcile this object again at this instant (an aware datetime), whatever happens before."""

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


#: What is shown of an object with every decision on it, by what stands for it in `workers.metrics.process`.
Level = Literal["scaledjob_running", "scaledjob_pending"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a decision's arithmetic, for people. how: the sum it came from, where it was not simply found."""

    name: str
    value: float
    how: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order. `why` is one line for people: what was decided and from which numbers.

    figures: the arithmetic behind it, step by step. reservation: what the object asks of limits that it shares; it is
    decided anew once the answer stands in the snapshot, and nothing is done before. levels: what Prometheus is shown of
    the object as it is now.
    """

    steps: tuple[Step, ...] = ()
    why: str = ""
    figures: tuple[Figure, ...] = ()
    reservation: LimitReservation | None = None
    levels: tuple[tuple[Level, float], ...] = ()


#: Nothing to do.
NOTHING = Plan()
