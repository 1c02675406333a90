"""The decision about a ScaledObject: from snapshots to plans."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, at, micros, reading, sample
from tests.unit.controllers.keda.scaledobject.scaledobjects import (
    TARGET,
    TRIGGER,
    scale,
    scaled_object,
    scaling,
    snapshot,
)
from tests.unit.controllers.plans import back, condition, events, status_of, verdict
from workers.controllers.keda.scaledobject import CONTROLLER, controller, decide
from workers.decision.controller import ScaleTarget
from workers.decision.plan import NOTHING, ComeBack, Patch, PatchStatus, Plan, PollNow, Scale
from workers.decision.snapshot import Scalable

MISSING = Scalable(TARGET, error="gone", missing=True)
ACTIVE = {"lastActiveTime": at(-10), "memory": {}}
FALLBACK = {"failureThreshold": 3, "replicas": 6}
WITH_FALLBACK = scaled_object(fallback=FALLBACK)
NO_REPLICAS = scaled_object(fallback={**FALLBACK, "replicas": 0})
READY = ("True", "ScaledObjectReady")


def failing(failures: int):
    return sample(error="away", failures=failures)


def partly(value: float, failures: int = 0, **more):
    return sample(value, incomplete="no age", failures=failures, **more)


def decided(body, target, *samples, **more) -> Plan:
    return decide(snapshot(body, target, reading(*samples, **more) if samples or more else None), NOW)


def annotated(key: str, value: str, **more) -> dict:
    return scaled_object(metadata={"annotations": {f"autoscaling.keda.sh/{key}": value}}, **more)


@cases(
    ("from zero", scaled_object(), 0, 5, 1, "ScalerActive"),
    ("from zero to the minimum", scaled_object(minReplicaCount=2), 0, 5, 2, "ScalerActive"),
    ("more, four at most", scaled_object(), 1, 50, 4, "ScalerActive"),
    ("more, up to the maximum", scaled_object(maxReplicaCount=3), 1, 50, 3, "ScalerActive"),
    ("as many as needed", scaled_object(), 5, 5, None, "ScalerActive"),
    ("fewer", scaled_object(status={"memory": {}}), 5, 2, 2, "ScalerActive"),
    ("not fewer at first sight", scaled_object(), 5, 2, None, "ScalerActive"),
    ("nothing to do", scaled_object(), 0, 0, None, "ScalerNotActive"),
    ("to zero", scaled_object(), 2, 0, 0, "ScalerNotActive"),
    ("not before the cooldown", scaled_object(status=ACTIVE), 1, 0, None, "ScalerCooldown"),
    ("but down to one", scaled_object(status=ACTIVE), 3, 0, 1, "ScalerCooldown"),
    ("after it", scaled_object(status=ACTIVE, cooldownPeriod=9), 1, 0, 0, "ScalerNotActive"),
    ("to the minimum", scaled_object(minReplicaCount=2, status={"memory": {}}), 9, 0, 2, "ScalerNotActive"),
    ("up to the minimum", scaled_object(minReplicaCount=2), 1, 0, 2, "ScalerNotActive"),
    ("to idle", scaled_object(minReplicaCount=2, idleReplicaCount=0), 9, 0, 0, "ScalerNotActive"),
    ("idle stays", scaled_object(minReplicaCount=3, idleReplicaCount=1), 1, 0, None, "ScalerNotActive"),
    ("forced", annotated("force-activation", "true"), 0, 0, 1, "ScalerActive"),
    ("not forced", annotated("force-activation", "false"), 0, 0, None, "ScalerNotActive"),
    ("out is paused: zero", annotated("paused-scale-out", "true"), 0, 5, None, "ScalerActive"),
    ("out is paused", annotated("paused-scale-out", "true"), 1, 9, None, "ScalerActive"),
    ("out: minimum", annotated("paused-scale-out", "true", minReplicaCount=3), 2, 9, None, "ScalerActive"),
    ("in is paused: zero", annotated("paused-scale-in", "true"), 2, 0, None, "ScalerNotActive"),
    ("in is paused", annotated("paused-scale-in", "true", maxReplicaCount=3), 9, 5, None, "ScalerActive"),
    ("in is paused, out is not", annotated("paused-scale-in", "true"), 1, 9, 5, "ScalerActive"),
    ("not paused", annotated("paused", "false"), 0, 5, 1, "ScalerActive"),
)
def test_replicas_and_activity(body, current, value, replicas, active) -> None:
    plan = decided(body, scale(current), sample(value))
    step = scaling(plan)
    assert (step and step.replicas) == replicas
    assert verdict(plan, "Active")[1] == active
    assert verdict(plan, "Ready") == ("True", "ScaledObjectReady")
    if step:
        assert (step.ref, step.resource_version) == (TARGET, "70")


OUT_PAUSED = {"autoscaling.keda.sh/paused-scale-out": "true"}


@cases(
    ("active", {}, 2, at(0)),
    ("activated", {}, 0, at(0)),
    ("scaling out is paused at zero", OUT_PAUSED, 0, ACTIVE["lastActiveTime"]),
    ("scaling out is paused above zero", OUT_PAUSED, 2, at(0)),
)
def test_a_target_that_a_pause_holds_down_was_not_active(annotations, current, written) -> None:
    body = scaled_object(metadata={"annotations": annotations}, status=ACTIVE)
    assert status_of(decided(body, scale(current), sample(5)))["lastActiveTime"] == written


@cases(
    ("no fallback", {}, None, None),
    ("no fallback any more: left as it was", {}, {"x": {}}, {"x": {}}),
    ("a fallback", {"fallback": FALLBACK}, None, {"s0-redis-work": {"numberOfFailures": 0, "status": "Happy"}}),
)
def test_only_an_object_with_a_fallback_has_health(more, known, expected) -> None:
    status = {"health": known} if known else {}
    assert status_of(decided(scaled_object(status=status, **more), scale(2), sample(5))).get("health") == expected


@cases(
    ("I2", scaled_object(), 2, failing(0), None, ("False", "TriggerError"), "NoFallbackFound"),
    ("I1: within the threshold", WITH_FALLBACK, 2, failing(3), None, READY, "NoFallbackFound"),
    ("I1: a fallback of none", NO_REPLICAS, 2, failing(3), None, READY, "NoFallbackFound"),
    ("beyond the threshold", WITH_FALLBACK, 3, failing(4), 6, READY, "FallbackExists"),
    ("beyond the threshold: none", NO_REPLICAS, 3, failing(4), 0, READY, "FallbackExists"),
    ("a fallback activates", WITH_FALLBACK, 0, failing(4), 1, READY, "FallbackExists"),
)
def test_failures(body, current, failed, replicas, ready, fallback) -> None:
    plan = decided(body, scale(current), failed)
    step = scaling(plan)
    assert (step and step.replicas) == replicas
    assert verdict(plan, "Ready") == ready
    assert verdict(plan, "Fallback")[1] == fallback
    health = {"s0-redis-work": {"numberOfFailures": max(1, failed.failures), "status": "Failing"}}
    assert status_of(plan).get("health") == (health if "fallback" in body["spec"] else None)


def test_one_of_two_fails() -> None:
    body = scaled_object(triggers=[TRIGGER, TRIGGER], status=ACTIVE)
    plan = decided(body, scale(4), sample(2), sample(error="away", name="s1-redis-work"))
    assert scaling(plan) is None, "only more could be proposed"
    assert verdict(plan, "Ready") == ("Unknown", "PartialTriggerError")
    assert status_of(plan)["lastActiveTime"] == ACTIVE["lastActiveTime"]


def test_what_is_told_of_an_activation() -> None:
    plan = decided(scaled_object(), scale(0), sample(5))
    step = scaling(plan)
    assert (step.then.reason, step.otherwise.reason) == ("KEDAScaleTargetActivated", "KEDAScaleTargetActivationFailed")
    assert events(plan) == ["KEDAScalersStarted", "ScaledObjectReady"]
    assert [type(each) for each in plan.steps[:3]] == [PatchStatus, Scale, PatchStatus]


@cases(("never seen", {}, {"originalReplicaCount": 0}), ("known", {"originalReplicaCount": 7}, None))
@cases(("active", {}), ("paused", {"paused-replicas": "3"}))
def test_what_the_target_had_is_written_down_before_it_is_changed(annotations, status, first) -> None:
    keys = {f"autoscaling.keda.sh/{key}": value for key, value in annotations.items()}
    plan = decided(scaled_object(metadata={"annotations": keys}, status=status), scale(0), sample(5))
    written = plan.steps[0] if isinstance(plan.steps[0], PatchStatus) else None
    assert (written and {"originalReplicaCount": written.status["originalReplicaCount"]}) == first


def test_what_is_told_of_a_deactivation() -> None:
    step = scaling(decided(scaled_object(), scale(2), sample(0)))
    assert (step.then.reason, step.otherwise.reason) == (
        "KEDAScaleTargetDeactivated",
        "KEDAScaleTargetDeactivationFailed",
    )


def test_the_status_of_a_healthy_one() -> None:
    plan = decided(scaled_object(), scale(2), sample(2))
    status = status_of(plan)
    status.pop("conditions")
    assert status == {
        "scaleTargetKind": "apps/v1.Deployment",
        "scaleTargetGVKR": {"group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments"},
        "originalReplicaCount": 2,
        "lastActiveTime": at(0),
        "externalMetricNames": ["s0-redis-work"],
        "triggersActivity": {"s0-redis-work": {"isActive": True}},
        "triggersTypes": "redis",
        "memory": {"highs": [{"at": at(0), "replicas": 2}]},
    }


def test_the_original_replicas_are_kept() -> None:
    plan = decided(scaled_object(status={"originalReplicaCount": 7}), scale(2), sample(2))
    assert status_of(plan)["originalReplicaCount"] == 7


def test_a_settled_object_that_rests_is_not_written_again() -> None:
    first = decided(scaled_object(), scale(0), sample(0))
    again = decided(scaled_object(status=status_of(first)), scale(0), sample(0))
    assert [type(step) for step in again.steps] == [ComeBack]


@cases(
    ("after the next poll", scaled_object(), 0, 0, 31),
    ("after its own", scaled_object(pollingInterval=7), 0, 0, 8),
    ("when the cooldown ends", scaled_object(status=ACTIVE, cooldownPeriod=15), 1, 0, 5.001),
    ("soon after an activation", scaled_object(), 0, 9, 1),
    ("when more is allowed", scaled_object(), 1, 50, 15),
)
def test_when_it_back(body, current, value, seconds) -> None:
    assert back(decided(body, scale(current), sample(value))) == seconds


@cases(
    ("none", None, True),
    ("of another spec", reading(sample(5), generation=0), True),
    ("too old", reading(sample(5), started=-121), True),
    ("as old as readings of so rare polls are", reading(sample(5), started=-650, interval=300), False),
    ("too old for them", reading(sample(5), started=-661, interval=300), True),
    ("young enough", reading(sample(5), started=-119), False),
)
def test_without_a_reading_nothing_is_scaled_and_one_is_asked_for(given, polls) -> None:
    plan = decide(snapshot(scaled_object(), scale(0), given), NOW)
    assert any(isinstance(step, PollNow) for step in plan.steps) == polls
    assert (scaling(plan) is None) == polls


def test_triggers_that_cannot_be_measured_at_all() -> None:
    plan = decided(scaled_object(), scale(2), problem="trigger 0 (redis): listName: is required")
    assert scaling(plan) is None
    assert verdict(plan, "Ready") == ("False", "ScaledObjectCheckFailed")


@cases(
    ("not now", Scalable(TARGET, error="away"), "ErrorGettingCurrentReplicas", ("True", "ScalerActive")),
    ("not there", MISSING, "ScaledObjectCheckFailed", ("Unknown", "UnknownState")),
    ("never read", None, "ErrorGettingCurrentReplicas", ("True", "ScalerActive")),
)
def test_a_target_that_cannot_be_read(target, reason, active) -> None:
    status = {"conditions": [{"type": "Active", "status": "True", "reason": "ScalerActive"}]}
    plan = decided(scaled_object(status=status), target, sample(5))
    assert scaling(plan) is None
    assert verdict(plan, "Ready") == ("False", reason)
    assert (target.error if target else "was not read") in condition(plan, "Ready")["message"]
    assert verdict(plan, "Active") == active, "as KEDA: the last poll that could be acted on has the word"
    assert back(plan) == 15


@cases(
    ("no reading yet", {}, True, ["gone"]),
    ("a reading of another spec", {"problem": "trigger 0 (redis): x", "generation": 0}, True, ["gone"]),
    ("a trigger is wrong", {"problem": "trigger 0 (ibmmq): is not supported"}, False, ["gone", "(ibmmq): is not"]),
)
def test_a_wrong_trigger_is_told_beside_a_missing_target(read, polls, told) -> None:
    plan = decided(scaled_object(), MISSING, **read)
    assert any(isinstance(step, PollNow) for step in plan.steps) is polls
    assert all(text in condition(plan, "Ready")["message"] for text in told)
    assert ("trigger 0" in condition(plan, "Ready")["message"]) is (len(told) > 1)


@cases(
    ("bounds", {"minReplicaCount": 5, "maxReplicaCount": 3}),
    ("formula", {"advanced": {"scalingModifiers": {"formula": "a", "target": "2"}}}),
)
def test_a_wrong_manifest(spec) -> None:
    plan = decided(scaled_object(**spec), scale(2), sample(5))
    assert scaling(plan) is None
    assert verdict(plan, "Ready") == ("False", "ScaledObjectCheckFailed")
    assert "ScaledObjectCheckFailed" in events(plan)


def test_all_problems_are_named_at_once() -> None:
    body = annotated("paused-replicas", "x", advanced={"scalingModifiers": {"formula": "a", "target": "2"}})
    plan = decided(body, scale(2), problem="trigger 0 (ibmmq): is not supported")
    message = condition(plan, "Ready")["message"]
    assert [text in message for text in ("no trigger named a", "not a number of replicas", "(ibmmq)")] == [True] * 3
    wrong = decided(scaled_object(maxReplicaCount=0), scale(2), problem="trigger 0 (ibmmq): is not supported")
    assert "maxReplicaCount" in condition(wrong, "Ready")["message"]
    assert "(ibmmq)" in condition(wrong, "Ready")["message"]


VALUE = {"triggers": [{**TRIGGER, "metricType": "Value"}], "status": {"memory": {}}}
HALVES = {"advanced": {"scalingModifiers": {"formula": "a", "target": "2.5"}}, "triggers": [{**TRIGGER, "name": "a"}]}


PARTIAL = ("Unknown", "PartialTriggerError")


@cases(
    ("more", scaled_object(), 2, partly(3), 3, PARTIAL, "NoFallbackFound"),
    ("not fewer", scaled_object(status={"memory": {}}), 5, partly(2), None, PARTIAL, "NoFallbackFound"),
    ("from zero", scaled_object(), 0, partly(3), 1, READY, "NoFallbackFound"),
    ("not to zero", scaled_object(), 2, partly(0), None, ("False", "TriggerError"), "NoFallbackFound"),
    ("within the threshold: not fewer", WITH_FALLBACK, 7, partly(2, 3), None, PARTIAL, "NoFallbackFound"),
    ("within the threshold: more", WITH_FALLBACK, 7, partly(8, 3), 8, PARTIAL, "NoFallbackFound"),
    ("the fallback is more", WITH_FALLBACK, 4, partly(2, 4), 6, READY, "FallbackExists"),
    ("the fallback is less", WITH_FALLBACK, 6, partly(8, 4), 8, READY, "FallbackExists"),
    ("a fallback of none", NO_REPLICAS, 3, partly(3, 4), None, READY, "FallbackExists"),
    ("a fallback of none, and nothing known", NO_REPLICAS, 3, partly(0, 4), 0, READY, "FallbackExists"),
)
def test_a_part_that_cannot_be_measured_removes_no_replicas(body, current, measured, replicas, ready, fallback) -> None:
    plan = decided(body, scale(current), measured)
    step = scaling(plan)
    assert (step and step.replicas) == replicas
    assert verdict(plan, "Ready") == ready
    assert verdict(plan, "Fallback")[1] == fallback
    if ready != READY:
        assert "s0-redis-work: no age" in condition(plan, "Ready")["message"]
        assert "KEDAScalerFailed" in events(plan)
    if "fallback" in body["spec"]:
        assert status_of(plan)["health"]["s0-redis-work"]["status"] == "Failing"


@cases(
    ("with work", sample(5, target=0), PARTIAL),
    ("active without a value", sample(0, target=0, active=True), PARTIAL),
    ("with nothing to do, as of a server that names no metric", sample(0, target=0), READY),
    ("not known", sample(error="away", target=0), PARTIAL),
)
def test_a_metric_without_a_target_says_why_it_proposes_nothing(found, ready) -> None:
    body = scaled_object(triggers=[TRIGGER, TRIGGER], status=ACTIVE)
    plan = decided(body, scale(2), found, sample(2, name="s1-redis-work"))
    assert scaling(plan) is None
    assert verdict(plan, "Ready") == ready
    text = "s0-redis-work: the target is 0: the external scaler must answer a targetSize or targetSizeFloat above 0"
    assert (text in condition(plan, "Ready")["message"]) == (ready == PARTIAL and found.error is None)


def test_a_formula_needs_no_targets_of_its_triggers() -> None:
    body = scaled_object(**HALVES)
    plan = decided(body, scale(2), sample(5, target=0, name="s0-a"))
    assert verdict(plan, "Ready") == READY


def test_a_formula_needs_whole_values() -> None:
    modifiers = {"formula": "a + b", "target": "2"}
    body = scaled_object(
        triggers=[{**TRIGGER, "name": name} for name in "ab"], advanced={"scalingModifiers": modifiers}
    )
    plan = decided(body, scale(2), partly(90, name="s0-a"), sample(90, name="s1-b"))
    assert scaling(plan) is None
    assert "composite-metric: s0-a: no age" in condition(plan, "Ready")["message"]


@cases(
    ("ready pods only", "ready-pods-only", scaled_object(**VALUE), scale(9, ready=2), sample(3, target=1), None, 6),
    ("ready pods only: more", "ready-pods-only", scaled_object(**VALUE), scale(2, ready=2), sample(2, target=1), 4, 4),
    (
        "whole targets",
        "whole-fallback-targets",
        scaled_object(fallback=FALLBACK, **HALVES),
        scale(3),
        failing(4),
        6,
        None,
    ),
    ("a whole target", "whole-fallback-targets", WITH_FALLBACK, scale(3), failing(4), 6, 6),
    ("a fallback of none", "zero-fallback-activates", NO_REPLICAS, scale(0), failing(4), None, 1),
)
def test_kedas_way_on_demand(quirk, body, target, measured, ours, kedas) -> None:
    seen = snapshot(body, target, reading(measured))
    for quirks, replicas in ((frozenset(), ours), (frozenset({quirk}), kedas)):
        step = scaling(controller(quirks).decide(seen, NOW))
        assert (step and step.replicas) == replicas
        assert controller(quirks).kind == CONTROLLER.kind


def test_a_fallback_without_effect_has_no_health() -> None:
    seen = snapshot(scaled_object(fallback=FALLBACK, **HALVES), scale(3), reading(failing(4)))
    plan = decide(seen, NOW, frozenset({"whole-fallback-targets"}))
    assert "health" not in status_of(plan)
    assert verdict(plan, "Fallback") == ("False", "NoFallbackFound")


def test_modifiers_decide_instead_of_the_triggers() -> None:
    modifiers = {"formula": "a + b", "target": "2"}
    triggers = [{**TRIGGER, "name": name} for name in "ab"]
    body = scaled_object(triggers=triggers, advanced={"scalingModifiers": modifiers}, status={"memory": {}})
    plan = decided(body, scale(4), sample(5), sample(6, name="s1-redis-work"))
    assert scaling(plan).replicas == 6
    assert status_of(plan)["compositeScalerName"] == "composite-metric"


# Pausing


def test_paused() -> None:
    plan = decided(annotated("paused", "true"), scale(2), sample(50))
    assert scaling(plan) is None
    assert verdict(plan, "Paused") == ("True", "ScaledObjectPaused")
    assert events(plan)[-2:] == ["ScaledObjectPaused", "KEDAScalersStopped"]


@cases(("a reading from before the end of the cooldown", -3.0, False, True), ("one from after it", -1.0, True, False))
def test_the_last_goes_on_a_reading_from_after_the_cooldown_only(started, gone, polls) -> None:
    """It ended two seconds ago; what was pushed since then, an older reading does not tell."""
    body = scaled_object(status=ACTIVE, cooldownPeriod=8)
    plan = decided(body, scale(1), sample(0), started=started)
    assert (scaling(plan) is not None) == gone
    assert any(isinstance(step, PollNow) for step in plan.steps) == polls
    assert verdict(plan, "Active")[1] == ("ScalerNotActive" if gone else "ScalerCooldown")
    assert back(plan) == (31 if gone else 1)


def test_paused_at_a_number_once() -> None:
    first = decided(annotated("paused-replicas", "3"), scale(9))
    assert scaling(first).replicas == 3
    assert status_of(first)["pausedReplicaCount"] == 3
    again = decided(annotated("paused-replicas", "3", status=status_of(first)), scale(9))
    assert again.steps == ()
    other = decided(annotated("paused-replicas", "4", status=status_of(first)), scale(9))
    assert scaling(other).replicas == 4


def test_paused_at_a_number_says_more_than_not_paused() -> None:
    annotations = {"autoscaling.keda.sh/paused": "false", "autoscaling.keda.sh/paused-replicas": "0"}
    plan = decided(scaled_object(metadata={"annotations": annotations}), scale(9))
    assert scaling(plan).replicas == 0


@for_each("", "-1", "many", "1.5", "²", "9" * 40)
def test_paused_at_no_number(text) -> None:
    plan = decided(annotated("paused-replicas", text), scale(9), sample(0))
    assert scaling(plan) is None
    assert verdict(plan, "Ready") == ("False", "ScaledObjectCheckFailed")


def test_resumed_it_measures_first() -> None:
    paused = decided(annotated("paused-replicas", "3"), scale(9))
    plan = decided(scaled_object(status=status_of(paused)), scale(3), sample(50))
    assert scaling(plan) is None
    assert any(isinstance(step, PollNow) for step in plan.steps)
    assert verdict(plan, "Paused") == ("False", "ScaledObjectUnpaused")
    assert "pausedReplicaCount" not in status_of(plan)


# Its life


def test_it_is_held_on_to_and_labelled() -> None:
    body = scaled_object(metadata={"finalizers": ["other"], "labels": {}})
    patch = decided(body, scale(2), sample(2)).steps[0]
    assert isinstance(patch, Patch)
    assert patch.body == {
        "metadata": {"finalizers": ["other", "finalizer.keda.sh"], "labels": {"scaledobject.keda.sh/name": "work"}}
    }


def deleted(**more) -> dict:
    return scaled_object(metadata={"deletionTimestamp": at(0)}, status={"originalReplicaCount": 7}, **more)


RESTORE = {"advanced": {"restoreToOriginalReplicaCount": True}}


@cases(
    ("left as it is", deleted(), scale(2), [Patch]),
    ("restored", deleted(**RESTORE), scale(2), [Scale, Patch]),
    ("restored already", deleted(**RESTORE), scale(7), [Patch]),
    ("nothing to restore", deleted(**RESTORE), MISSING, [Patch]),
    ("not before it can be read", deleted(**RESTORE), Scalable(TARGET, error="away"), [ComeBack]),
)
def test_its_end(body, target, kinds) -> None:
    plan = decided(body, target)
    assert [type(step) for step in plan.steps if not hasattr(step, "reason")] == kinds
    if Scale in kinds:
        assert scaling(plan).replicas == 7


def test_of_nothing_nothing_comes() -> None:
    assert decide(snapshot(None), NOW) is NOTHING
    assert decide(snapshot(scaled_object(metadata={"deletionTimestamp": at(0), "finalizers": []})), NOW) is NOTHING


@cases(
    ("a Deployment", scaled_object(), ScaleTarget("apps/v1", "Deployment", "pool")),
    (
        "anything",
        scaled_object(scaleTargetRef={"name": "x", "apiVersion": "example.com/v1", "kind": "Crane"}),
        ScaleTarget("example.com/v1", "Crane", "x"),
    ),
    (
        "with its ready pods",
        scaled_object(triggers=[{**TRIGGER, "metricType": "Value"}]),
        ScaleTarget("apps/v1", "Deployment", "pool", ready=True),
    ),
    ("none", scaled_object(scaleTargetRef={}), None),
)
def test_what_it_must_see(body, target) -> None:
    assert CONTROLLER.scales(body) == target


def figures(plan: Plan) -> list[tuple[str, float, str]]:
    return [(figure.name, figure.value, figure.how) for figure in plan.figures]


@cases(
    (
        "held back",
        scaled_object(maxReplicaCount=9),
        1,
        sample(50, target=5),
        [
            ("replicas of the target", 1, ""),
            ("s0-redis-work (target 5 per replica)", 50, ""),
            ("minimum while the metrics decide", 1, ""),
            ("maximum", 9, ""),
            ("proposed by the metrics", 10, ""),
            ("of these within the bounds", 9, "max(1, min(10, 9))"),
            ("replicas to be", 4, "held back by windows, policies or a pause"),
        ],
    ),
    (
        "at rest",
        scaled_object(),
        0,
        sample(0),
        [("replicas of the target", 0, ""), ("s0-redis-work (target 1 per replica, not active)", 0, "")],
    ),
    (
        "unknown",
        scaled_object(),
        2,
        sample(error="away"),
        [
            ("replicas of the target", 2, ""),
            ("s0-redis-work is not known: away", 0, ""),
            ("minimum while the metrics decide", 1, ""),
            ("maximum", 100, ""),
            ("replicas to be", 2, "2, nothing was proposed"),
        ],
    ),
    (
        "incomplete",
        scaled_object(),
        2,
        partly(3),
        [
            ("replicas of the target", 2, ""),
            ("s0-redis-work (target 1 per replica, at least: no age)", 3, ""),
            ("minimum while the metrics decide", 1, ""),
            ("maximum", 100, ""),
            ("proposed by the metrics", 3, ""),
            ("of these within the bounds", 3, "max(1, min(3, 100))"),
            ("replicas to be", 3, ""),
        ],
    ),
    (
        "fallback",
        WITH_FALLBACK,
        6,
        failing(4),
        [
            ("replicas of the target", 6, ""),
            ("s0-redis-work (target 1 per replica, from the fallback)", 6, ""),
            ("minimum while the metrics decide", 1, ""),
            ("maximum", 100, ""),
            ("proposed by the metrics", 6, ""),
            ("of these within the bounds", 6, "max(1, min(6, 100))"),
            ("replicas to be", 6, ""),
        ],
    ),
)
def test_its_arithmetic_is_shown(body, current, measured, shown) -> None:
    assert figures(decided(body, scale(current), measured)) == shown


readings = st.lists(
    st.tuples(
        st.integers(1, 60),
        st.one_of(
            st.integers(0, 200).map(lambda value: sample(value)),
            st.integers(1, 6).map(lambda failures: sample(error="away", failures=failures)),
        ),
    ),
    max_size=20,
)


@given(
    steps=readings,
    current=st.integers(0, 30),
    bounds=st.tuples(st.integers(0, 20), st.integers(1, 20)).map(sorted),
    idle=st.booleans(),
    fallback=st.booleans(),
)
def test_replicas_are_within_the_bounds_whatever_comes(steps, current, bounds, idle, fallback) -> None:
    minimum, maximum = bounds
    spec = {"minReplicaCount": minimum, "maxReplicaCount": maximum, "cooldownPeriod": 30}
    if idle and minimum:
        spec["idleReplicaCount"] = 0
    body, seconds = scaled_object(**spec, **({"fallback": FALLBACK} if fallback else {})), 0
    for wait, measured in steps:
        seconds += wait
        seen = snapshot(body, scale(current), reading(measured, id=seconds, started=seconds))
        plan = decide(replace(seen, at=micros(seconds)), NOW + timedelta(seconds=seconds))
        step = scaling(plan)
        if step:
            assert step.replicas <= maximum
            if measured.active:
                assert step.replicas >= max(1, minimum)
            assert measured.error is None or step.replicas >= min(current, maximum) or fallback
            current = step.replicas
        if any(isinstance(each, PatchStatus) for each in plan.steps):
            body = {**body, "status": status_of(plan)}


def test_the_metrics_go_on_where_they_were() -> None:
    """A pool from nothing to twelve and back, look by look."""
    body, current, trail = scaled_object(cooldownPeriod=60, maxReplicaCount=12), 0, []
    for seconds in range(0, 900, 15):
        value = 40 if seconds < 120 else 0
        now = NOW + timedelta(seconds=seconds)
        seen = snapshot(body, scale(current), reading(sample(value), id=seconds + 1, started=seconds))
        plan = decide(replace(seen, at=micros(seconds)), now)
        if step := scaling(plan):
            current = step.replicas
            trail.append((seconds, current))
        if any(isinstance(step, PatchStatus) for step in plan.steps):
            body = {**body, "status": status_of(plan)}
    assert trail == [(0, 1), (15, 4), (30, 8), (45, 12), (180, 0)]


VALUE_FOR_ALL = {**TRIGGER, "metricType": "Value"}
STEADY = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 20}]}}
EVERY_PODS = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
FOR_ALL_FORMULA = {"scalingModifiers": {"formula": "a * 2", "target": "1", "metricType": "Value"}}


@cases(
    ("more", {}, 8, (1, 1), [4, 8]),
    ("by two", {"advanced": {"horizontalPodAutoscalerConfig": {"behavior": STEADY}}}, 6, (1, 1), [3, 5, 6]),
    ("beside pod usage", {"triggers": [VALUE_FOR_ALL, EVERY_PODS]}, 2, (1, 1), [2]),
    ("by a formula", {"triggers": [{**TRIGGER, "name": "a"}], "advanced": FOR_ALL_FORMULA}, 4, (1, 1), [4, 8]),
    ("once a pod is ready", {}, 3, (1, 0), [3]),
    ("fewer", {"status": {"memory": {}}}, 0.5, (16, 16), [8]),
    ("fewer, with pods that are not ready", {"status": {"memory": {}}}, 0.5, (16, 12), [6]),
)
def test_one_reading_of_a_value_is_multiplied_with_one_number_of_pods(more, value, target, trail) -> None:
    """target: its replicas and ready pods at first; all are ready at the decisions after that."""
    body = scaled_object(**{"triggers": [VALUE_FOR_ALL], "minReplicaCount": 1, "pollingInterval": 300, **more})
    measured = [sample(value)] + [sample(0, name="s1-cpu", type="cpu")] * (len(body["spec"]["triggers"]) - 1)
    (current, ready), found = target, []
    for seconds in range(0, 300, 15):
        seen = snapshot(body, scale(current, ready=ready, usage={}), reading(*measured))
        plan = decide(replace(seen, at=micros(seconds)), NOW + timedelta(seconds=seconds))
        if step := scaling(plan):
            current = step.replicas
            found.append(current)
        ready, body = current, {**body, "status": status_of(plan)}
    assert found == trail


@cases(
    ("of this reading", {"reading": 36, "pods": 1}, 2, None, {"reading": 36, "pods": 1}),
    ("of another reading", {"reading": 35, "pods": 1}, 2, 4, {"reading": 36, "pods": 2}),
    ("of none", None, 2, 4, {"reading": 36, "pods": 2}),
    ("malformed", {"reading": "36"}, 2, 4, {"reading": 36, "pods": 2}),
    ("no object", [36, 1], 2, 4, {"reading": 36, "pods": 2}),
    ("nothing to multiply", {"reading": 35, "pods": 1}, 0, 1, None),
)
def test_the_pods_that_a_value_is_multiplied_with_are_remembered(known, value, replicas, remembered) -> None:
    body = scaled_object(minReplicaCount=1, triggers=[VALUE_FOR_ALL], status={"memory": {"readyPods": known}})
    plan = decided(body, scale(2, ready=2), sample(value))
    step = scaling(plan)
    assert (step and step.replicas) == replicas
    assert status_of(plan)["memory"].get("readyPods") == remembered


def test_a_value_per_replica_is_multiplied_with_nothing() -> None:
    plan = decided(scaled_object(status={"memory": {}}), scale(2, ready=2), sample(8))
    assert "readyPods" not in status_of(plan)["memory"]
