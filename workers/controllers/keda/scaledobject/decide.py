"""The decision about one ScaledObject: KEDA 2.20's semantics, and those of its HorizontalPodAutoscaler, in one.

`decide` answers deleted, malformed, rivalled, paused and unreadable objects itself. `_scale` decides on all others in
stages: observe, measure, activate, steer, settle, and the plan; each stage is a function of the values before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from workers.api import bool_annotations, times
from workers.api.keda import scaledobject as manifest
from workers.api.keda.scaledobject import ScaledObject, ScaledObjectFallback, ScaledObjectSpec, is_resource
from workers.api.keda_compat import NONE, Quirks
from workers.api.kinds import SCALED_OBJECT, Object
from workers.controllers.keda import authentication_users, finalizer
from workers.controllers.keda.scaledobject import activation, behavior, modifiers, rivals, target, usage
from workers.controllers.keda.scaledobject import trigger_metrics as metrics
from workers.controllers.keda.scaledobject.activation import ActivationVerdict
from workers.controllers.keda.scaledobject.behavior import BehaviorAnswer, ReadyPods, ReplicaBounds, ScalingMemory
from workers.controllers.keda.scaledobject.status import (
    ScaledObjectConditions,
    reading_fields,
    target_and_spec_fields,
    write,
)
from workers.controllers.keda.scaledobject.trigger_metrics import Metric, Replicas
from workers.controllers.keda.scaledobject.usage import PodUsage
from workers.controllers.keda.status import KedaStatus, polling_interval, with_trigger_problem
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING, ComeBack, Figure, Plan, PollNow, RecordEvent, Step
from workers.decision.snapshot import Reading, Scalable, Snapshot, TriggerSample
from workers.errors import UserError
from workers.formula import scaling_modifiers
from workers.formula.scaling_modifiers import Composite

#: KEDA's label on the object itself.
LABEL = "scaledobject.keda.sh/name"

PAUSED_SCALE_IN = "autoscaling.keda.sh/paused-scale-in"
PAUSED_SCALE_OUT = "autoscaling.keda.sh/paused-scale-out"
FORCE_ACTIVATION = "autoscaling.keda.sh/force-activation"

#: Seconds beyond two polls after which a reading is too old to act on.
GRACE = 60.0
#: Interval of attempts to read a target that could not be read.
RETRY = timedelta(seconds=15)
#: Delay of a decision after the next poll. A poll with news wakes the object before, and so moves this decision on.
LATE = timedelta(seconds=1)
#: Delay of the decision after an activation, so that the metrics go on, and after a reading too old for the cooldown.
FIRST = timedelta(seconds=1)

_UNREAD = Scalable(error="the target was not read")


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of scaling. replicas: to scale to before it, None to keep the current ones."""

    replicas: int | None = None

    @classmethod
    def of(cls, body: Object) -> "Pause | None":
        """Returns the pause that the annotations ask for; one with replicas wins.

        Raises UserError if the replicas are not a number.
        """
        text = (body["metadata"].get("annotations") or {}).get(bool_annotations.PAUSED_REPLICAS)
        if text is None:
            return cls() if bool_annotations.is_paused(body) else None
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            path = f"metadata.annotations[{bool_annotations.PAUSED_REPLICAS}]"
            raise UserError(f"{path}: {text!r} is not a number of replicas")
        return cls(int(text))


def decide(snapshot: Snapshot, now: datetime, quirks: Quirks = NONE) -> Plan:
    """Returns the plan for a ScaledObject, its target and its last reading. quirks: KEDA's behavior that is wanted."""
    return authentication_users.with_users(_decide(snapshot, now, quirks), snapshot, quirks)


def _decide(snapshot: Snapshot, now: datetime, quirks: Quirks) -> Plan:
    body = snapshot.body
    if body is None:
        return NOTHING
    if body["metadata"].get("deletionTimestamp"):
        return _delete(snapshot, body, now, quirks)
    observed, before = body.get("status") or {}, ScaledObjectConditions.observed(body)
    added = finalizer.add(snapshot, body, {LABEL: body["metadata"]["name"]})
    try:
        scaled, composite, pause = _checked(body)
    except ManifestProblems as error:
        conditions = before.failed(with_trigger_problem(error.found, snapshot))
        return Plan((*added, *write(KedaStatus(observed, conditions), before)), "the manifest is wrong")
    scale = snapshot.scale or _UNREAD
    if taken := rivals.found(scaled, body, snapshot.peers, scale):
        written = write(KedaStatus(observed, before.failed(taken.why)), before)
        deleted = (rivals.delete_autoscalers(taken.replaced),) if taken.replaced else ()
        return Plan((*added, *written, *deleted, ComeBack(now + RETRY)), taken.why)
    if pause is not None:
        return _pause(body, scaled, scale, pause, now, added)
    if scale.error is not None:
        fields = target_and_spec_fields(scaled, body, scale)
        conditions = before.without_pause().unreadable(scale, with_trigger_problem((), snapshot))
        # A poll finds errors of the triggers, which the condition names with the missing target and not after it.
        measured = snapshot.reading and snapshot.reading.generation == scaled.metadata.generation
        poll = () if measured else (PollNow(),)
        steps: tuple[Step, ...] = (*added, *poll, *write(KedaStatus(observed, conditions, fields), before))
        return Plan((*steps, ComeBack(now + RETRY)), f"the target cannot be read: {scale.error}")
    return _scale(ObservedScaledObject.of(snapshot, body, scaled, composite, scale, now, quirks), added)


class ManifestProblems(UserError):  # noqa: N818 - as workers.api.model.Problems
    """A ScaledObject whose manifest contradicts itself. found: every problem."""

    def __init__(self, found: tuple[str, ...]) -> None:
        super().__init__("; ".join(found))
        self.found = found


def _checked(body: Object) -> tuple[ScaledObject, Composite | None, Pause | None]:
    """Returns the typed object, its formula and its pause. Raises ManifestProblems."""
    problems: list[str] = []
    scaled = composite = pause = None
    try:
        scaled = manifest.parse(body)
        composite = scaling_modifiers.read(scaled.spec)
    except UserError as error:
        problems.append(str(error))
    try:
        pause = Pause.of(body)
    except UserError as error:
        problems.append(str(error))
    if problems or scaled is None:
        raise ManifestProblems(tuple(problems))
    return scaled, composite, pause


def _delete(snapshot: Snapshot, body: Object, now: datetime, quirks: Quirks) -> Plan:
    """Restores the target's original replicas if the spec asks for it, then takes the finalizer off."""
    if not finalizer.is_on(body):
        return NOTHING
    steps: list[Step] = []
    advanced, observed = (body.get("spec") or {}).get("advanced") or {}, body.get("status") or {}
    original = observed.get("originalReplicaCount")
    elder = rivals.elder(body, snapshot.peers)
    if advanced.get("restoreToOriginalReplicaCount") and original is not None and elder is None:
        scale = snapshot.scale or _UNREAD
        if scale.error is not None and not scale.missing:
            return Plan((ComeBack(now + RETRY),), f"the target cannot be read: {scale.error}")
        if scale.error is None:
            records = target.rescale_events(original, "the ScaledObject was deleted")
            steps += target.rescale(observed, scale, original, *records)
    steps += authentication_users.removed(snapshot, quirks)
    steps.append(finalizer.remove(snapshot, body))
    steps.append(RecordEvent("Warning", "ScaledObjectDeleted", "The ScaledObject was deleted"))
    return Plan(tuple(steps), "being deleted")


def _pause(
    body: Object, scaled: ScaledObject, scale: Scalable, pause: Pause, now: datetime, added: tuple[Step, ...]
) -> Plan:
    """Scales to the replicas of the pause once; changes of the target after that are left alone."""
    observed, before = body.get("status") or {}, ScaledObjectConditions.observed(body)
    steps: list[Step] = [*added]
    reached = before.paused.status == "True" and observed.get("pausedReplicaCount") == pause.replicas
    if pause.replicas is not None and not reached:
        if scale.error is not None:
            steps += write(KedaStatus(observed, before.unreadable(scale)), before)
            steps.append(ComeBack(now + RETRY))
            return Plan(tuple(steps), f"the target cannot be read: {scale.error}")
        records = target.rescale_events(pause.replicas, "paused")
        steps += target.rescale(observed, scale, pause.replicas, *records)
    fields = target_and_spec_fields(scaled, body, scale) | {"pausedReplicaCount": pause.replicas}
    steps += write(KedaStatus(observed, before.with_pause(), fields), before)
    return Plan(tuple(steps), "paused")


def _scale(seen: "ObservedScaledObject", added: tuple[Step, ...]) -> Plan:
    """Decides on a valid ScaledObject whose target could be read and has no other scaler."""
    measured = measure(seen)
    verdict = activate(seen, measured) if measured else None
    steering = steer(seen, measured, verdict) if measured and verdict else None
    # Replicas would go, but the reading is from before the end of the cooldown.
    outdated = verdict is not None and verdict.cooling and seen.cools_down < seen.now
    steps: list[Step] = [*added]
    if measured and verdict:
        steps += _rescale(seen, measured, verdict, steering)
    if seen.reading is None or outdated:
        steps.append(PollNow())
    steps += write(settle(seen, measured, verdict, steering), seen.before, seen.reading)
    steps.append(ComeBack(_next_decision(seen, measured, verdict, steering, outdated)))
    return Plan(tuple(steps), _why(seen, measured, verdict, steering), tuple(_figures(seen, measured, steering)))


@dataclass(frozen=True, slots=True)
class ObservedScaledObject:
    """Stage 1: the ScaledObject as the decision sees it.

    before: the observed conditions. reading: the last one if it is of this generation, young, and not from before a
    pause. interval: seconds between two polls. forced: activation is forced by annotation. cools_down: the end of the
    cooldown. fallback: the one in force. quirks: KEDA's behavior that is wanted.
    """

    snapshot: Snapshot
    body: Object
    scaled: ScaledObject
    composite: Composite | None
    scale: Scalable
    now: datetime
    status: Object
    before: ScaledObjectConditions
    reading: Reading | None
    interval: float
    forced: bool
    scale_in_paused: bool
    scale_out_paused: bool
    cools_down: datetime
    fallback: ScaledObjectFallback | None
    quirks: Quirks

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        body: Object,
        scaled: ScaledObject,
        composite: Composite | None,
        scale: Scalable,
        now: datetime,
        quirks: Quirks,
    ) -> "ObservedScaledObject":
        status, before = body.get("status") or {}, ScaledObjectConditions.observed(body)
        reading, annotation = snapshot.reading, bool_annotations.annotation
        interval = polling_interval(reading, scaled.spec.interval)
        if reading is not None:
            age = (snapshot.at - reading.started) / 1e6 if snapshot.at else 0.0
            of_spec = reading.generation == scaled.metadata.generation
            if not of_spec or before.paused.status == "True" or age > 2 * interval + GRACE:
                reading = None
        created = times.instant(scaled.metadata.creation_timestamp) or now
        return cls(
            snapshot,
            body,
            scaled,
            composite,
            scale,
            now,
            status,
            before,
            reading,
            interval,
            annotation(body, FORCE_ACTIVATION),
            annotation(body, PAUSED_SCALE_IN),
            annotation(body, PAUSED_SCALE_OUT),
            activation.cools_down(scaled.spec, created, times.instant(status.get("lastActiveTime"))),
            _fallback(scaled.spec, quirks),
            quirks,
        )


def _fallback(spec: ScaledObjectSpec, quirks: Quirks) -> ScaledObjectFallback | None:
    if "whole-fallback-targets" in quirks and not (spec.modifiers.target or "1").isdecimal():
        return None
    return spec.fallback


@dataclass(frozen=True, slots=True)
class ReplicaMeasurement:
    """Stage 2: the metrics of the reading and the usage of the target's pods.

    replicas: of the target. samples: of the triggers that polls measure, which are all but those of pod usage.
    """

    reading: Reading
    replicas: Replicas
    samples: tuple[TriggerSample, ...]
    metrics: tuple[Metric, ...]
    usages: tuple[PodUsage, ...]

    def __str__(self) -> str:
        found: list[Metric | PodUsage] = [*self.metrics, *self.usages]
        return ", ".join(
            f"{each.name} is {'unknown' if each.error is not None else f'{each.value:g}'} of {each.target:g}"
            for each in found
        )


def measure(seen: ObservedScaledObject) -> ReplicaMeasurement | None:
    """Returns the measurement, None without a reading that has a sample for every trigger."""
    reading, spec = seen.reading, seen.scaled.spec
    if reading is None or reading.problem is not None or len(reading.samples) != len(spec.triggers):
        return None
    pairs = zip(reading.samples, spec.triggers, strict=True)
    polled = [(sample, trigger) for sample, trigger in pairs if not is_resource(trigger)]
    samples = tuple(sample for sample, _ in polled)
    replicas = Replicas(seen.scale.replicas, _ready_pods(seen, reading))
    if seen.composite:
        found: tuple[Metric, ...] = (modifiers.apply(seen.composite, samples, seen.fallback, replicas),)
    else:
        found = metrics.of(samples, [trigger for _, trigger in polled], seen.fallback, replicas)
    if "zero-fallback-activates" in seen.quirks:
        found = tuple(replace(each, active=each.active or (each.made_up and each.error is None)) for each in found)
    return ReplicaMeasurement(reading, replicas, samples, found, usage.of(spec.triggers, seen.scale, seen.now))


def _ready_pods(seen: ObservedScaledObject, reading: Reading) -> int | None:
    """Returns the pods that metrics of type Value are multiplied with, None if they were not counted.

    These are the ready pods of the first decision on a reading: its values do not show pods that they led to.
    """
    known = _memory(seen) or ScalingMemory()
    return known.ready.pods if known.ready and known.ready.reading == reading.id else seen.scale.ready


def activate(seen: ObservedScaledObject, measured: ReplicaMeasurement) -> ActivationVerdict:
    """Stage 3: returns the row of the activation table that applies."""
    # A reading from before the end of the cooldown does not show work that has come since.
    overdue = (seen.now - seen.cools_down).total_seconds() * 1e6
    confirmed = not seen.snapshot.at or measured.reading.started >= seen.snapshot.at - overdue
    # Triggers of pod usage alone never deactivate.
    active = seen.forced or not measured.samples or any(metric.active for metric in measured.metrics)
    return activation.judge(
        seen.scaled.spec,
        activation.ActivationState(
            current=seen.scale.replicas,
            active=active,
            failing=any(metric.failure is not None for metric in measured.metrics),
            cooled=seen.cools_down < seen.now and confirmed,
            scale_in_paused=seen.scale_in_paused,
            scale_out_paused=seen.scale_out_paused,
        ),
    )


@dataclass(frozen=True, slots=True)
class Steering:
    """Stage 4: the replicas that the metrics ask for, and what bounds, windows and policies make of them."""

    bounds: ReplicaBounds
    proposal: int | None
    answer: BehaviorAnswer


def steer(seen: ObservedScaledObject, measured: ReplicaMeasurement, verdict: ActivationVerdict) -> Steering | None:
    """Returns the steering; None if the metrics do not decide: at zero, at the idle number, or in an activation."""
    spec, current, idle = seen.scaled.spec, seen.scale.replicas, seen.scaled.spec.idle_replica_count
    if current == 0 or verdict.replicas is not None or not (verdict.active or idle is None or current > idle):
        return None
    rules = behavior.read(spec.behavior, scale_in_paused=seen.scale_in_paused, scale_out_paused=seen.scale_out_paused)
    bounds = ReplicaBounds(max(1, spec.minimum), spec.maximum)
    others = [each.proposal(current, rules.tolerance) for each in measured.usages]
    damped = "ready-pods-only" not in seen.quirks
    proposal = metrics.propose(measured.metrics, measured.replicas, rules.tolerance, others, damped=damped)
    answer = behavior.follow(proposal, current, bounds, rules, _memory(seen), seen.now)
    if (answer.replicas < current and seen.scale_in_paused) or (answer.replicas > current and seen.scale_out_paused):
        answer = BehaviorAnswer(current, answer.memory)
    return Steering(bounds, proposal, answer)


def _memory(seen: ObservedScaledObject) -> ScalingMemory | None:
    known = seen.status.get("memory")
    return None if known is None else ScalingMemory.observed(known)


def _remembered(seen: ObservedScaledObject, measured: ReplicaMeasurement, steering: Steering | None) -> ScalingMemory:
    """Returns the memory after the decision."""
    memory = steering.answer.memory if steering else _memory(seen) or ScalingMemory()
    id, pods = measured.reading.id, measured.replicas.ready
    ready = memory.ready if memory.ready and memory.ready.reading == id else None
    # The pods ready for a value of nothing make no difference, and an object that rests is not written.
    multiplied = any(each.kind == "Value" and each.value > 0 and not each.made_up for each in measured.metrics)
    if steering and pods and multiplied:
        ready = ReadyPods(id, pods)
    return replace(memory, ready=ready)


def settle(
    seen: ObservedScaledObject,
    measured: ReplicaMeasurement | None,
    verdict: ActivationVerdict | None,
    steering: Steering | None,
) -> KedaStatus[ScaledObjectConditions]:
    """Stage 5: returns the status of an object for which all steps before it worked."""
    conditions = seen.before.without_pause()
    fields = target_and_spec_fields(seen.scaled, seen.body, seen.scale) | {
        "pausedReplicaCount": None,
        "compositeScalerName": modifiers.NAME if seen.composite else None,
    }
    if seen.reading is None:
        return KedaStatus(seen.status, conditions, fields)
    if measured is None or verdict is None:
        problem = seen.reading.problem or "the reading is not of these triggers"
        return KedaStatus(seen.status, conditions.failed(problem), fields)
    memory = _remembered(seen, measured, steering)
    fallback = seen.fallback
    fields |= reading_fields(seen.status, measured.samples, memory, health=fallback is not None)
    fields["resourceMetricNames"] = list(dict.fromkeys(each.asked.resource for each in measured.usages)) or None
    # A target that a pause of scaling out holds down does not become active, so that the cooldown does not begin anew.
    held = verdict.row == "A1" and verdict.replicas is None
    if verdict.active and verdict.row != "A2" and not held:
        fields["lastActiveTime"] = times.render(seen.now)
    # Unknown pod usage and missing targets are a problem only for a target that the metrics steer.
    failing: list[tuple[str, str | None]] = []
    failing += [(each.name, each.failure) for each in measured.metrics if verdict.row in ("A2", "I2")]
    failing += [(each.name, each.untargeted) for each in measured.metrics if steering]
    failing += [(each.name, each.error) for each in measured.usages if steering]
    problems = ", ".join(f"{name}: {reason}" for name, reason in failing if reason is not None)
    conditions = (
        conditions.with_readiness(problems, partly=verdict.row != "I2")
        .with_activity(verdict.active, verdict.cooling)
        .with_fallback([sample.name for sample in measured.samples if metrics.beyond(sample, fallback)])
    )
    return KedaStatus(seen.status, conditions, fields)


def _rescale(
    seen: ObservedScaledObject, measured: ReplicaMeasurement, verdict: ActivationVerdict, steering: Steering | None
) -> tuple[Step, ...]:
    """Stage 6: returns the steps that change the target's replicas, which come before all that can wait."""
    scale, replicas = seen.scale, verdict.replicas
    if replicas is None:
        if steering is None:
            return ()
        replicas = steering.answer.replicas
        records = target.rescale_events(replicas, str(measured))
    elif verdict.row == "I4":
        records = target.rescale_events(replicas, "fewer than minReplicaCount")
    else:
        verb, noun = ("Activated", "Activation") if verdict.active else ("Deactivated", "Deactivation")
        change = f"{scale.ref or 'the target'} from {scale.replicas} to {replicas}"
        records = (
            RecordEvent("Normal", f"KEDAScaleTarget{verb}", f"Scaled {change}"),
            RecordEvent("Warning", f"KEDAScaleTarget{noun}Failed", f"Scaling {change} failed: {{error}}"),
        )
    return target.rescale(seen.status, scale, replicas, *records)


def _next_decision(
    seen: ObservedScaledObject,
    measured: ReplicaMeasurement | None,
    verdict: ActivationVerdict | None,
    steering: Steering | None,
    outdated: bool,
) -> datetime:
    """Returns the instant of the next decision: after the next poll, or at the end of a wait before that."""
    moments = [seen.now + timedelta(seconds=seen.interval) + LATE]
    if verdict is not None and (outdated or (verdict.row == "A1" and verdict.replicas is not None)):
        moments.append(seen.now + FIRST)
    elif verdict is not None and verdict.cooling:
        moments.append(seen.cools_down + timedelta(milliseconds=1))
    if steering and measured and measured.usages:
        moments.append(seen.now + timedelta(seconds=behavior.SYNC))
    if steering and steering.answer.again:
        moments.append(steering.answer.again)
    return min(moments)


def _figures(
    seen: ObservedScaledObject, measured: ReplicaMeasurement | None, steering: Steering | None
) -> Iterator[Figure]:
    """Yields the arithmetic of the decision."""
    if measured:
        current = seen.scale.replicas
        yield from metrics.figures(measured.metrics, current)
        yield from usage.figures(measured.usages)
        if steering:
            yield from behavior.figures(steering.bounds, steering.proposal, current, steering.answer.replicas)


def _why(
    seen: ObservedScaledObject,
    measured: ReplicaMeasurement | None,
    verdict: ActivationVerdict | None,
    steering: Steering | None,
) -> str:
    """Returns one line for people: the decision and its numbers."""
    if measured is None or verdict is None:
        return "nothing could be measured" if seen.reading else "no reading of this spec yet"
    current = seen.scale.replicas
    wanted = steering.answer.replicas if steering else verdict.replicas
    return f"{verdict.row}: {measured}; replicas {current} to {current if wanted is None else wanted}"


CONTROLLER = Controller(kind=SCALED_OBJECT, decide=decide, peers=(SCALED_OBJECT,), scales=target.of, polled=True)


def controller(quirks: Quirks = NONE) -> Controller:
    """Returns the controller. quirks: KEDA's behavior that is wanted."""
    return replace(CONTROLLER, decide=partial(decide, quirks=quirks)) if quirks else CONTROLLER
