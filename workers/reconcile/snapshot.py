"""What a decision sees: one object, its children and the last reading, frozen at one moment.

Everything here is a plain value. Instants called ``seen`` and ``started`` are integers: microseconds since the
epoch on the broker's clock, the one clock that all processes share. They order observations among each other
and are never compared with a wall clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.api.kinds import Object, Ref
from workers.handoff.claims import ClaimLedger


@dataclass(frozen=True, slots=True)
class CachedObject:
    """One object of the store.

    body: the object; of a gone object its last known state is not kept, and body is None.
    seen: when the store took this version in (microseconds, broker's clock).
    """

    ref: Ref
    body: Object | None
    seen: int

    @property
    def gone(self) -> bool:
        """Deleted, and remembered for a while so that a late echo does not bring it back."""
        return self.body is None


@dataclass(frozen=True, slots=True)
class TriggerSample:
    """What one trigger measured.

    name: metric name as KEDA spells it (``s0-redis-work``). value: events waiting. target: events per Job.
    active: the value is above the trigger's activation value. error: why there is no value; value, target and
    active mean nothing then. Unknown is not zero. failures, last: of an object with a fallback, how often in a row it
    could not be measured, and the Jobs it asked for when it was last (None: it never was). alone_since: since when its
    server, `source`, is left alone because it keeps failing (µs, broker's clock; 0: it is not); next_attempt: when it
    is asked again.
    claimable: its items can be claimed.
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


@dataclass(frozen=True, slots=True)
class Reading:
    """All triggers of one object, measured in one poll.

    id: increases with every poll of the object; child names are made from it, so that the same reading never
    makes the same Job twice. started: when the poll began (broker's clock): work taken from the source after
    this instant is still counted in the samples. generation: `metadata.generation` of the spec that was polled.
    samples: one per trigger, in the order of the spec. problem: why nothing could be measured at all (malformed
    trigger metadata, unknown trigger type); samples is empty then. uid: of the object that was polled; a reading of
    a deleted object says nothing about a new one of the same name. ledger: of an object that claims; the one
    sample is of the ledger's trigger then.
    """

    id: int
    started: int
    generation: int
    samples: tuple[TriggerSample, ...] = ()
    problem: str | None = None
    uid: str = ""
    ledger: ClaimLedger | None = None


@dataclass(frozen=True, slots=True)
class Scalable:
    """A workload with a scale subresource, read from the API server for this one decision.

    ref: its address, None when the API server knows no such kind. replicas: how many it is to have. ready: its pods
    that are ready, None unless the decision asked. error: why it could not be read; replicas and ready mean nothing
    then. missing: the API server knows no such workload, or it has no scale subresource. pods: its pods, where the
    decision asked what they consume; usage: by name, their PodMetrics, None where that is not known, and usage_error
    says why. autoscalers: the HorizontalPodAutoscalers that scale it too, as far as they may be seen.
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
    """What one reconcile observed.

    body: the object, or None when it is known not to exist.
    children: by kind id, the objects whose controller is this object, tombstones included (`CachedObject.gone`), in no
    particular order; of an object that is gone, those it left behind.
    loose: by kind id, objects of this namespace that nobody controls, for controllers that adopt.
    tied: by kind id, the living objects that name this one without being owned by it (`workers.api.references`).
    peers: the other living objects of its kind that name the same one as it does.
    relatives: other objects the controller asked to see; None for one that is known not to exist.
    everywhere: by kind id, all objects of kinds the controller asked to see whole.
    allowance: the answer to a plan's reservation: the most unfinished Jobs this object may have; None until it asked.
    reading: the last one, or None before the first.
    scale: the workload this object scales, for controllers that ask for it.
    failures: how often in a row the reconcile of this object has failed; last_error: why, the last time.
    at: when all this was observed (microseconds, broker's clock), or 0 when that is not known.
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
    scale: Scalable | None = None
    failures: int = 0
    last_error: str | None = None
    at: int = 0
