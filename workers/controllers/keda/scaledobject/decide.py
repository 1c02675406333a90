"""The decision about one ScaledObject: KEDA 2.20's semantics, and its autoscaler's, in one."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from workers.api import bool_annotations, times
from workers.api.keda import scaledobject as manifest
from workers.api.keda.scaledjob import TriggerSpec
from workers.api.keda.scaledobject import ScaledObject
from workers.api.kinds import SCALED_OBJECT, Object
from workers.controllers.keda import metadata
from workers.controllers.keda.scaledobject import (
    activation,
    figures,
    metrics,
    modifiers,
    pausing,
    proposals,
    rescaling,
    rivals,
    speed,
    targeting,
    usage,
)
from workers.controllers.keda.scaledobject import status as statuses
from workers.controllers.keda.scaledobject.activation import ActivationVerdict
from workers.controllers.keda.scaledobject.memory import ScalingMemory
from workers.controllers.keda.scaledobject.metrics import Metric, Replicas
from workers.controllers.keda.scaledobject.modifiers import Composite
from workers.controllers.keda.scaledobject.pausing import Pause
from workers.controllers.keda.scaledobject.status import ScaledObjectConditions
from workers.controllers.keda.scaledobject.usage import PodUsage
from workers.controllers.keda.scaledobject.writing import fields_of, hold_on, unreadable, write
from workers.controllers.keda.status import KedaStatus
from workers.controllers.keda.users import enlisting, unlisted
from workers.errors import UserError
from workers.reconcile.controller import Controller
from workers.reconcile.plan import NOTHING, ComeBack, Figure, Plan, PollNow, RecordEvent, Step
from workers.reconcile.snapshot import Reading, Scalable, Snapshot, TriggerSample

#: Seconds beyond two polls after which a reading says nothing about now.
GRACE = 60.0
#: Seconds after which a target that could not be read is looked at again.
AGAIN = 15.0
#: How long after the next poll to look without being asked: one with news asks by itself, and this look moves on.
LATE = timedelta(seconds=1)
#: How soon the metrics may go on after a target was activated, and a fresh reading is looked at that says nothing new.
FIRST = timedelta(seconds=1)

_UNREAD = Scalable(error="the target was not read")


def decide(snapshot: Snapshot, now: datetime) -> Plan:
    """What to do about a ScaledObject, its target and its last reading."""
    return enlisting(_decide(snapshot, now), snapshot)


def _decide(snapshot: Snapshot, now: datetime) -> Plan:
    body = snapshot.body
    if body is None:
        return NOTHING
    if body["metadata"].get("deletionTimestamp"):
        return _let_go(snapshot, body, now)
    before = ScaledObjectConditions.observed(body)
    try:
        scaled = manifest.parse(body)
        composite = modifiers.read(scaled.spec)
        pause = pausing.of(body)
    except UserError as error:
        status = KedaStatus(body.get("status") or {}, before.failing(str(error)))
        return Plan((*hold_on(snapshot, body), *write(status, before)), "the manifest is wrong")
    scale = snapshot.scale or _UNREAD
    taken = rivals.found(scaled, body, snapshot.peers, scale)
    if taken is not None:
        steps = (
            *hold_on(snapshot, body),
            *write(KedaStatus(body.get("status") or {}, before.failing(taken.why)), before),
        )
        away = (rivals.take_away(taken.replaced),) if taken.replaced else ()
        return Plan((*steps, *away, ComeBack(now + timedelta(seconds=AGAIN))), taken.why)
    if pause is not None:
        return _pause(snapshot, body, scaled, pause, now)
    if scale.error is not None:
        status = KedaStatus(
            body.get("status") or {}, unreadable(before.resumed(), scale), fields_of(scaled, body, scale)
        )
        steps = (*hold_on(snapshot, body), *write(status, before), ComeBack(now + timedelta(seconds=AGAIN)))
        return Plan(steps, f"the target cannot be read: {scale.error}")
    return _ScaledObjectDecision(snapshot, body, scaled, composite, scale, now).plan()


def _let_go(snapshot: Snapshot, body: Object, now: datetime) -> Plan:
    """Give the target back the replicas it had, if that is wanted, then take the finalizer off."""
    if not metadata.is_held(body):
        return NOTHING
    steps: list[Step] = []
    advanced = (body.get("spec") or {}).get("advanced") or {}
    original = (body.get("status") or {}).get("originalReplicaCount")
    elder = rivals.elder(body, snapshot.peers)
    if advanced.get("restoreToOriginalReplicaCount") and original is not None and elder is None:
        scale = snapshot.scale or _UNREAD
        if scale.error is not None and not scale.missing:
            return Plan((ComeBack(now + timedelta(seconds=AGAIN)),), f"the target cannot be read: {scale.error}")
        steps += rescaling.to(scale, original, "the ScaledObject was deleted") if scale.error is None else ()
    steps += unlisted(snapshot)
    steps.append(metadata.let_go(snapshot, body))
    steps.append(RecordEvent("Warning", "ScaledObjectDeleted", "The ScaledObject was deleted"))
    return Plan(tuple(steps), "being deleted")


def _pause(snapshot: Snapshot, body: Object, scaled: ScaledObject, pause: Pause, now: datetime) -> Plan:
    """Scale to the replicas the pause names, once, and leave everything alone from then on."""
    observed, before = body.get("status") or {}, ScaledObjectConditions.observed(body)
    scale = snapshot.scale or _UNREAD
    fields = fields_of(scaled, body, scale) | {"pausedReplicaCount": pause.replicas}
    steps: list[Step] = [*hold_on(snapshot, body)]
    reached = before.paused.status == "True" and observed.get("pausedReplicaCount") == pause.replicas
    if pause.replicas is not None and not reached:
        if scale.error is not None:
            steps += write(KedaStatus(observed, unreadable(before, scale)), before)
            steps.append(ComeBack(now + timedelta(seconds=AGAIN)))
            return Plan(tuple(steps), f"the target cannot be read: {scale.error}")
        steps += rescaling.noted(observed, scale, rescaling.to(scale, pause.replicas, "paused"))
    steps += write(KedaStatus(observed, before.pausing(), fields), before)
    return Plan(tuple(steps), "paused")


@dataclass(frozen=True)
class _ScaledObjectDecision:
    """The decision about a valid ScaledObject whose target could be read, neither paused nor being deleted."""

    snapshot: Snapshot
    body: Object
    scaled: ScaledObject
    composite: Composite | None
    scale: Scalable
    now: datetime

    def plan(self) -> Plan:
        """All steps: replicas before everything that can wait."""
        steps: list[Step] = [
            *hold_on(self.snapshot, self.body),
            *rescaling.noted(self._observed, self.scale, self._scaling()),
        ]
        if self._reading is None or self._unconfirmed:
            steps.append(PollNow())
        steps += write(self._status(), self._before, self._reading)
        steps.append(ComeBack(self._again()))
        return Plan(tuple(steps), self._why(), tuple(self._figures()))

    @cached_property
    def _observed(self) -> Object:
        return self.body.get("status") or {}

    @cached_property
    def _before(self) -> ScaledObjectConditions:
        return ScaledObjectConditions.observed(self.body)

    @cached_property
    def _reading(self) -> Reading | None:
        """The last reading, if it is one of this spec, young, and not from before a pause."""
        reading = self.snapshot.reading
        if reading is None or reading.generation != self.scaled.metadata.generation:
            return None
        age = (self.snapshot.at - reading.started) / 1e6 if self.snapshot.at else 0.0
        if self._before.paused.status == "True" or age > 2 * self.scaled.spec.interval + GRACE:
            return None
        return reading

    @cached_property
    def _known(self) -> bool:
        """Something was measured, or it was tried."""
        reading = self._reading
        return (
            reading is not None and reading.problem is None and len(reading.samples) == len(self.scaled.spec.triggers)
        )

    @cached_property
    def _replicas(self) -> Replicas:
        return Replicas(self.scale.replicas, self.scale.ready)

    @cached_property
    def _metrics(self) -> tuple[Metric, ...]:
        if self._reading is None or not self._known:
            return ()
        spec, samples = self.scaled.spec, self._samples
        if self.composite:
            return (modifiers.apply(self.composite, samples, spec.fallback, self._replicas),)
        return metrics.of(samples, self._measured_triggers, spec.fallback, self._replicas)

    @cached_property
    def _measured_triggers(self) -> tuple[TriggerSpec, ...]:
        """The triggers that are measured in polls: all but those about the target's own pods."""
        return tuple(trigger for trigger in self.scaled.spec.triggers if not usage.is_resource(trigger))

    @cached_property
    def _samples(self) -> tuple[TriggerSample, ...]:
        """What those triggers measured, of a reading that is known."""
        reading = self._reading
        pairs = zip(reading.samples, self.scaled.spec.triggers, strict=True) if reading and self._known else ()
        return tuple(sample for sample, trigger in pairs if not usage.is_resource(trigger))

    @cached_property
    def _usages(self) -> tuple[PodUsage, ...]:
        """What the target's pods consume, for the triggers that are about that."""
        return usage.of(self.scaled.spec.triggers, self.scale, self.now)

    @cached_property
    def _verdict(self) -> ActivationVerdict:
        return activation.judge(
            self.scaled.spec,
            activation.ActivationState(
                current=self.scale.replicas,
                active=self._forced or not self._measured_triggers or any(metric.active for metric in self._metrics),
                failing=any(metric.error is not None for metric in self._metrics),
                cooled=self._cools_down < self.now and self._confirmed,
                hold_in=self._hold_in,
                hold_out=self._hold_out,
            ),
        )

    @cached_property
    def _forced(self) -> bool:
        return bool_annotations.annotation(self.body, pausing.FORCE_ACTIVATION)

    @cached_property
    def _hold_in(self) -> bool:
        return bool_annotations.annotation(self.body, pausing.PAUSED_SCALE_IN)

    @cached_property
    def _hold_out(self) -> bool:
        return bool_annotations.annotation(self.body, pausing.PAUSED_SCALE_OUT)

    @cached_property
    def _cools_down(self) -> datetime:
        created = statuses.instant(self.scaled.metadata.creation_timestamp) or self.now
        return activation.cools_down(self.scaled.spec, created, statuses.instant(self._observed.get("lastActiveTime")))

    @cached_property
    def _confirmed(self) -> bool:
        """Whether the reading began after the cooldown: one from before does not tell what has come since."""
        if self._reading is None or not self.snapshot.at:
            return True
        over = (self.now - self._cools_down).total_seconds() * 1e6
        return self._reading.started >= self.snapshot.at - over

    @property
    def _unconfirmed(self) -> bool:
        """Whether replicas would go, were the reading new enough."""
        return self._known and self._verdict.cooling and self._cools_down < self.now

    @cached_property
    def _memory(self) -> ScalingMemory | None:
        known = self._observed.get("memory")
        return None if known is None else ScalingMemory.observed(known)

    @cached_property
    def _speed(self) -> speed.Speed:
        return speed.read(self.scaled.spec.behavior, hold_in=self._hold_in, hold_out=self._hold_out)

    @cached_property
    def _bounds(self) -> speed.ReplicaBounds:
        return speed.ReplicaBounds(max(1, self.scaled.spec.minimum), self.scaled.spec.maximum)

    @cached_property
    def _proposal(self) -> int | None:
        tolerance = self._speed.tolerance
        others = [each.proposal(self.scale.replicas, tolerance) for each in self._usages]
        return proposals.propose(self._metrics, self._replicas, tolerance, others)

    @cached_property
    def _answer(self) -> speed.SpeedAnswer:
        """How many replicas there are to be while the metrics decide."""
        current = self.scale.replicas
        answer = speed.follow(self._proposal, current, self._bounds, self._speed, self._memory, self.now)
        if (answer.replicas < current and self._hold_in) or (answer.replicas > current and self._hold_out):
            return speed.SpeedAnswer(current, answer.memory)
        return answer

    @cached_property
    def _steered(self) -> bool:
        """Whether the metrics decide: not at zero, nor while replicas rest at their idle number."""
        if not self._known or self.scale.replicas == 0 or self._verdict.replicas is not None:
            return False
        idle = self.scaled.spec.idle_replica_count
        return self._verdict.active or idle is None or self.scale.replicas > idle

    def _scaling(self) -> tuple[Step, ...]:
        if not self._known:
            return ()
        replicas, target = self._verdict.replicas, self._target
        if replicas is None:
            return rescaling.to(self.scale, self._answer.replicas, self._reason()) if self._steered else ()
        if self._verdict.row == "I4":
            return rescaling.to(self.scale, replicas, "fewer than minReplicaCount")
        verb, noun = ("Activated", "Activation") if self._verdict.active else ("Deactivated", "Deactivation")
        change = f"{target} from {self.scale.replicas} to {replicas}"
        return rescaling.told(
            self.scale,
            replicas,
            then=RecordEvent("Normal", f"KEDAScaleTarget{verb}", f"Scaled {change}"),
            otherwise=RecordEvent("Warning", f"KEDAScaleTarget{noun}Failed", f"Scaling {change} failed: {{error}}"),
        )

    @property
    def _target(self) -> str:
        return str(self.scale.ref) if self.scale.ref else "the target"

    def _status(self) -> KedaStatus[ScaledObjectConditions]:
        conditions = self._before.resumed()
        fields = fields_of(self.scaled, self.body, self.scale) | {
            "pausedReplicaCount": None,
            "compositeScalerName": modifiers.NAME if self.composite else None,
        }
        if self._reading is None:
            return KedaStatus(self._observed, conditions, fields)
        if not self._known:
            problem = self._reading.problem or "the reading is not of these triggers"
            return KedaStatus(self._observed, conditions.failing(problem), fields)
        memory = self._answer.memory if self._steered else self._memory or ScalingMemory()
        fields |= statuses.measured(self._observed, self._samples, memory)
        fields["resourceMetricNames"] = list(dict.fromkeys(each.asked.resource for each in self._usages)) or None
        if self._verdict.active and self._verdict.row != "A2":
            fields["lastActiveTime"] = times.render(self.now)
        return KedaStatus(self._observed, self._judged(conditions), fields)

    def _judged(self, conditions: ScaledObjectConditions) -> ScaledObjectConditions:
        row = self._verdict.row
        # What its pods consume is of no account to a target that is not steered by it.
        unmeasured = [each for each in self._usages if each.error is not None] if self._steered else []
        problems = [each for each in self._metrics if each.error is not None] if row in ("A2", "I2") else []
        failing: list[Metric | PodUsage] = [*problems, *unmeasured]
        texts = [f"{each.name}: {each.error}" for each in failing]
        fallback = self.scaled.spec.fallback
        standing_in = [sample.name for sample in self._samples if metrics.beyond(sample, fallback)]
        return (
            conditions.measured(", ".join(texts), partly=row != "I2")
            .acting(self._verdict.active, self._verdict.cooling)
            .standing_in(standing_in)
        )

    def _again(self) -> datetime:
        """When to look again: after a poll at the latest, sooner when a wait ends before that."""
        moments = [self.now + timedelta(seconds=self.scaled.spec.interval) + LATE]
        if self._known:
            if self._unconfirmed:
                moments.append(self.now + FIRST)
            elif self._verdict.cooling:
                moments.append(self._cools_down + timedelta(milliseconds=1))
            if self._verdict.row == "A1" and self._verdict.replicas is not None:
                moments.append(self.now + FIRST)
            if self._steered and self._usages:
                moments.append(self.now + timedelta(seconds=speed.SYNC))
            if self._steered and self._answer.again:
                moments.append(self._answer.again)
        return min(moments)

    def _reason(self) -> str:
        """The metrics in a few words."""
        found: list[Metric | PodUsage] = [*self._metrics, *self._usages]
        return ", ".join(
            f"{each.name} is {'unknown' if each.error is not None else f'{each.value:g}'} of {each.target:g}"
            for each in found
        )

    def _figures(self) -> Iterator[Figure]:
        if self._known:
            current = self.scale.replicas
            yield from figures.measured(self._metrics, current)
            yield from figures.consumed(self._usages)
            if self._steered:
                yield from figures.steered(self._bounds, self._proposal, current, self._answer.replicas)

    def _why(self) -> str:
        """One line for people: what was decided and from which numbers."""
        if not self._known:
            return "nothing could be measured" if self._reading else "no reading of this spec yet"
        wanted = self._answer.replicas if self._steered else self._verdict.replicas
        kept = self.scale.replicas if wanted is None else wanted
        return f"{self._verdict.row}: {self._reason()}; replicas {self.scale.replicas} to {kept}"


CONTROLLER = Controller(kind=SCALED_OBJECT, decide=decide, peers=True, scales=targeting.target, polled=True)
