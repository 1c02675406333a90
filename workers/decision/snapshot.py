"""The snapshot that a decision gets: one object, its children and the last reading, frozen at one moment.

Everything here is a plain value. ``seen`` and ``started`` are microseconds since the epoch on the broker's clock, the
one clock that all processes share. They order observations and are never compared with a wall clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.api.kinds import Object, Ref
from workers.decision.claims import ClaimLedger, ClaimOrder


@dataclass(frozen=True, slots=True)
class CachedObject:
    """One object of the store.

    body: the object, None for a tombstone. seen: when this version was stored (microseconds, broker's clock).
    """

    ref: Ref
    body: Object | None
    seen: int

    @property
    def gone(self) -> bool:
        """True for a tombstone: deleted, and kept for a while so that a late version does not restore it."""
        return self.body is None


@dataclass(frozen=True, slots=True)
class TriggerSample:
    """The measurement of one trigger.

    name: metric name as KEDA spells it (``s0-redis-work``). value: events waiting. target: events per Job.
    active: the value is above the trigger's activation value. error: the reason for a missing value; value, target and
    active mean nothing then. Unknown is not zero. incomplete: the reason why more may wait than the value, as a part
    could not be measured. failures, last: for an object with a fallback, measurements that failed in a row, and the
    Jobs the last successful one asked for (None: none yet). alone_since: since when the circuit breaker of its server,
    `source`, is open (µs, broker's clock; 0: it is closed); next_attempt: when the server is asked again. claimable:
    its items can be claimed.
    """

    name: str
    type: str
    value: float = 0.0
    target: float = 1.0
    active: bool = False
    error: str | None = None
    failures: int = 0
    last: float | None = None
    source: str = ""
    alone_since: int = 0
    next_attempt: int = 0
    claimable: bool = False
    incomplete: str | None = None

    @property
    def failure(self) -> str | None:
        """Returns the reason why the value, or a part of it, is missing; None if all was measured."""
        return self.incomplete if self.error is None else self.error


@dataclass(frozen=True, slots=True)
class Reading:
    """The measurements of all triggers of one object, from one poll.

    id: rises with every poll of the object; names of Jobs are made from it, so that one reading never creates a Job
    twice. started: when the poll began (broker's clock): items taken from the source later are still in the samples.
    generation: `metadata.generation` of the polled spec. samples: one per trigger, in the order of the spec. problem:
    the reason why nothing could be measured (malformed metadata, unknown type); samples is empty then. uid: of the
    polled object; a reading of a deleted object is not one of its namesake. ledger: of an object that claims items; the
    only sample is of the ledger's trigger then. interval: seconds between two polls of the object, 0 if the poller did
    not say; its default is a setting of the poller's.
    """

    id: int
    started: int
    generation: int
    samples: tuple[TriggerSample, ...] = ()
    problem: str | None = None
    uid: str = ""
    ledger: ClaimLedger | None = None
    interval: float = 0.0


@dataclass(frozen=True, slots=True)
class Scalable:
    """A workload with a scale subresource, read from the API server for this one decision.

    ref: its address, None when the API server knows no such kind. replicas: spec.replicas. ready: its ready pods, None
    unless the decision asked. error: the reason why it could not be read; replicas and ready mean nothing then.
    missing: the workload does not exist, or has no scale subresource. pods: its pods, where the decision asked for
    their usage; usage: by name, their PodMetrics, None where unknown, with the reason in usage_error. autoscalers: the
    HorizontalPodAutoscalers of the same target, as far as they may be listed.
    """

    ref: Ref | None = None
    replicas: int = 0
    ready: int | None = None
    resource_version: str = ""
    error: str | None = None
    missing: bool = False
    pods: tuple[Object, ...] = ()
    usage: Mapping[str, Object] | None = None
    usage_error: str = ""
    autoscalers: tuple[Object, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state that one reconcile observed; `controller.Controller` says what is read.

    body: the object, or None when it is known not to exist.
    children: by kind id, the objects whose controller is this object, with tombstones, in no particular order; of a
    deleted object, those it left behind.
    unowned: by kind id, objects of this namespace without a controller.
    referrers: by kind id, the living objects that name this one without being owned by it.
    peers: the other living objects of its kind that name the same object.
    relatives: other objects the controller names; None for one that is known not to exist.
    cluster_wide: by kind id, all objects of the kinds that the controller reads whole.
    allowance: the answer to a plan's reservation: the most unfinished Jobs this object may have; None before.
    reading: the last one, or None before the first.
    order: the last one that a decision stored for the ledger of that reading; polls may not have carried it out yet.
    scale: the workload this object scales.
    failures: reconciles of this object that failed in a row; last_error: the reason of the last.
    at: when all this was observed (microseconds, broker's clock), 0 when unknown.
    """

    ref: Ref
    body: Object | None
    children: Mapping[str, tuple[CachedObject, ...]] = field(default_factory=dict)
    unowned: Mapping[str, tuple[CachedObject, ...]] = field(default_factory=dict)
    referrers: Mapping[str, tuple[CachedObject, ...]] = field(default_factory=dict)
    peers: tuple[CachedObject, ...] = ()
    relatives: Mapping[Ref, Object | None] = field(default_factory=dict)
    cluster_wide: Mapping[str, tuple[CachedObject, ...]] = field(default_factory=dict)
    allowance: int | None = None
    reading: Reading | None = None
    order: ClaimOrder | None = None
    scale: Scalable | None = None
    failures: int = 0
    last_error: str | None = None
    at: int = 0
